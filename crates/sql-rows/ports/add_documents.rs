//! Adds documents to an order.

use diesel::prelude::*;
use domain::{
    idempotency::AddedRange,
    order::{OrderStatus, after},
    ports::{NewDocuments, WriteError},
    webhook::EventType,
};
use sql_rows::{
    DocumentRow, KeyRow, NewEventRow, Prepared, Utc, is_order_of,
    schema::{documents, events, orders},
};

use super::key_use;
use crate::{
    claims,
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

pub(crate) async fn add_documents(
    store: &Store,
    new: &NewDocuments,
) -> Result<AddedRange, WriteError> {
    let added = new.clone();
    let add = async move |connection: &mut Connection| add(connection, &added).await;
    match store.transaction_ported::<_, Failure>(add).await {
        Ok(outcome) => outcome,
        Err(failure) => Err(claims::rejection(store, failure, new).await),
    }
}

/// Adds documents in a transaction. The lock of the order makes concurrent additions wait. Each
/// statement after it sees what they have added. A rejection has changed nothing.
async fn add(
    connection: &mut Connection,
    new: &NewDocuments,
) -> Result<Result<AddedRange, WriteError>, Failure> {
    let (order_id, at) = (new.order_id.0, Utc(new.at));
    dialect::lock(connection, "orders", &[order_id]).await?;
    if let Some(request) = &new.idempotent_request
        && let Some(key_use) = key_use::in_use(connection, &request.attempt.claim, at).await?
    {
        return Ok(Err(WriteError::KeyInUse(key_use)));
    }
    let own = orders::table.find(order_id).filter(is_order_of(new.owner));
    let state = own.select((orders::erased_at, orders::status, orders::updated_at));
    let state = Prepared(state).get_result::<(Option<Utc>, String, Utc)>(connection).await;
    let updated_at = match state.optional()? {
        None => return Ok(Err(WriteError::NoSuchOrder)),
        Some((Some(_), ..)) => return Ok(Err(WriteError::Erased)),
        Some((None, status, _)) if status == OrderStatus::CANCELLED.as_str() => {
            return Ok(Err(WriteError::Cancelled));
        }
        Some((None, _, Utc(updated_at))) => Utc(after(updated_at, new.at)),
    };
    let stored = documents::table.filter(documents::order_id.eq(order_id)).count();
    let stored: i64 = Prepared(stored).get_result(connection).await?;
    let stored = usize::try_from(stored).unwrap_or(usize::MAX);
    if stored.saturating_add(new.documents.len()) > new.max_documents {
        return Ok(Err(WriteError::TooMany { stored }));
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let range = AddedRange { first_position: count(stored), count: count(new.documents.len()) };
    let rows = DocumentRow::added(new, range).map_err(Failure::Unstorable)?;
    dialect::store_documents(connection, rows).await?;
    let event = NewEventRow::new(EventType::DocumentsAdded, order_id, at);
    diesel::insert_into(events::table).values(event).execute(connection).await?;
    if let Some(request) = &new.idempotent_request {
        let row = KeyRow::answered(request, order_id, at, Some(range));
        key_use::remember(connection, &row).await?;
    }
    let update =
        diesel::update(orders::table.find(order_id)).set(orders::updated_at.eq(updated_at));
    Prepared(update).execute(connection).await?;
    Ok(Ok(range))
}
