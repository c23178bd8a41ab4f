//! Adds documents to an order.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    idempotency::AddedRange,
    order::after,
    ports::{NewDocuments, WriteError},
    webhook::EventType,
};
use sql_rows::{
    DocumentRow, KeyRow, NewEventRow, OrderState, Prepared, Utc, is_order_of,
    schema::{documents, events, orders},
};

use crate::{
    failure::Failure,
    group_commit::key_use::{in_use, remember},
    locks,
};

/// Adds documents in a transaction. The lock of the order makes concurrent additions wait. Each
/// statement after it sees what they have added. A rejection has changed nothing.
pub(super) async fn add_documents(
    connection: &mut AsyncPgConnection,
    new: &NewDocuments,
) -> Result<Result<AddedRange, WriteError>, Failure> {
    let (order_id, at) = (new.order_id.0, Utc(new.at));
    locks::lock(connection, "orders", &[order_id]).await?;
    if let Some(request) = &new.idempotent_request
        && let Some(key_use) = in_use(connection, &request.attempt.claim, at).await?
    {
        return Ok(Err(WriteError::KeyInUse(key_use)));
    }
    let own = orders::table.find(order_id).filter(is_order_of(new.owner));
    let state = Prepared(own.select(OrderState::as_select())).get_result(connection).await;
    let updated_at = match OrderState::takes_documents(state.optional()?) {
        Ok(updated_at) => Utc(after(updated_at, new.at)),
        Err(error) => return Ok(Err(error)),
    };
    let stored = documents::table.filter(documents::order_id.eq(order_id)).count();
    let range = match new.range(Prepared(stored).get_result(connection).await?) {
        Ok(range) => range,
        Err(error) => return Ok(Err(error)),
    };
    let rows = DocumentRow::added(new, range).map_err(Failure::Unstorable)?;
    // A trigger adopts their uploads.
    diesel::insert_into(documents::table).values(rows).execute(connection).await?;
    let event = NewEventRow::new(EventType::DocumentsAdded, order_id, at);
    diesel::insert_into(events::table).values(event).execute(connection).await?;
    if let Some(request) = &new.idempotent_request {
        remember(connection, &KeyRow::answered(request, order_id, at, Some(range))).await?;
    }
    let update = diesel::update(orders::table.find(order_id));
    Prepared(update.set(orders::updated_at.eq(updated_at))).execute(connection).await?;
    Ok(Ok(range))
}
