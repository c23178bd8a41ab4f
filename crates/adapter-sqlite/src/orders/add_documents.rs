//! Adds documents to an order.

use diesel::{dsl::not, prelude::*, sqlite::SqliteConnection};
use domain::{
    idempotency::AddedRange,
    ports::{NewDocuments, WriteError},
};
use sql_rows::{
    DocumentRow, DocumentsChange, KeyRow, OrderState, Prepared, Utc, document_counts, is_order_of,
    replaceable,
    schema::{documents, orders, uploads},
    stored_position,
};

use super::{
    idempotency::{in_use, remember},
    withdraw::record,
};
use crate::{accesses::store_access, failure::Failure};

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
    let order = match OrderState::takes_documents(state.optional()?) {
        Ok(order) => order,
        Err(error) => return Ok(Err(error)),
    };
    let counts = document_counts(new.order_id, new.kind);
    let (stored, kept) = Prepared(counts).get_result(connection)?;
    let range = match new.range(stored, kept) {
        Ok(range) => range,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(position) = new.replaces {
        let replaced = diesel::update(replaceable(new.order_id, position))
            .set(documents::replaced_by.eq(stored_position(range.first_position)));
        if Prepared(replaced).execute(connection)? == 0 {
            return Ok(Err(WriteError::NotReplaceable));
        }
    }
    let rows = DocumentRow::added(new, range).map_err(Failure::Unstorable)?;
    store_documents(connection, rows)?;
    let updated_at = order.changed_at(new.at);
    record(connection, DocumentsChange::added(new, range, &order, updated_at))?;
    if let Some(request) = &new.idempotent_request {
        remember(connection, &KeyRow::answered(request, order_id, at, Some(range)))?;
    }
    let update = diesel::update(orders::table.find(order_id));
    Prepared(update.set(orders::updated_at.eq(updated_at))).execute(connection)?;
    store_access(connection, new.access.as_ref())?;
    Ok(Ok(range))
}

/// Stores documents, and adopts their uploads: the keys leave the ledger. Fails if one is not there,
/// or condemned.
pub(super) fn store_documents(
    connection: &mut SqliteConnection,
    rows: impl IntoIterator<Item = DocumentRow>,
) -> Result<(), Failure> {
    for row in rows {
        let own = uploads::key.nullable().eq(&row.key);
        let live = uploads::table.filter(own).filter(not(uploads::condemned));
        if diesel::delete(live).execute(connection)? == 0 {
            return Err(Failure::Swept);
        }
        diesel::insert_into(documents::table).values(row).execute(connection)?;
    }
    Ok(())
}
