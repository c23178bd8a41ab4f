//! Adds documents to an order.

use diesel::{dsl::not, prelude::*, sqlite::SqliteConnection};
use domain::{
    idempotency::AddedRange,
    order::after,
    ports::{NewDocuments, WriteError},
    webhook::EventType,
};
use sql_rows::{
    DocumentRow, KeyRow, NewEventRow, OrderState, Prepared, Utc, is_order_of,
    schema::{documents, events, orders, uploads},
};

use super::idempotency::{in_use, remember};
use crate::failure::Failure;

/// Adds documents. Fails with [`Failure::Swept`] if an upload was swept. A rejection has changed
/// nothing.
pub(super) fn add_documents(
    connection: &mut SqliteConnection,
    new: &NewDocuments,
) -> Result<Result<AddedRange, WriteError>, Failure> {
    let (order_id, at) = (new.order_id.0, Utc(new.at));
    if let Some(request) = &new.idempotent_request
        && let Some(key_use) = in_use(connection, &request.attempt.claim, at)?
    {
        return Ok(Err(WriteError::KeyInUse(key_use)));
    }
    let own = orders::table.find(order_id).filter(is_order_of(new.owner));
    let state = Prepared(own.select(OrderState::as_select())).get_result(connection);
    let updated_at = match OrderState::takes_documents(state.optional()?) {
        Ok(updated_at) => Utc(after(updated_at, new.at)),
        Err(error) => return Ok(Err(error)),
    };
    let stored = documents::table.filter(documents::order_id.eq(order_id)).count();
    let range = match new.range(Prepared(stored).get_result(connection)?) {
        Ok(range) => range,
        Err(error) => return Ok(Err(error)),
    };
    let rows = DocumentRow::added(new, range).map_err(Failure::Unstorable)?;
    store_documents(connection, rows)?;
    let event = NewEventRow::new(EventType::DocumentsAdded, order_id, at);
    diesel::insert_into(events::table).values(event).execute(connection)?;
    if let Some(request) = &new.idempotent_request {
        remember(connection, &KeyRow::answered(request, order_id, at, Some(range)))?;
    }
    let update = diesel::update(orders::table.find(order_id));
    Prepared(update.set(orders::updated_at.eq(updated_at))).execute(connection)?;
    Ok(Ok(range))
}

/// Stores documents, and adopts their uploads: the keys leave the ledger. Fails if one is not there,
/// or condemned.
pub(super) fn store_documents(
    connection: &mut SqliteConnection,
    rows: impl IntoIterator<Item = DocumentRow>,
) -> Result<(), Failure> {
    for row in rows {
        let live = uploads::table.find(&row.key).filter(not(uploads::condemned));
        if diesel::delete(live).execute(connection)? == 0 {
            return Err(Failure::Swept);
        }
        diesel::insert_into(documents::table).values(row).execute(connection)?;
    }
    Ok(())
}
