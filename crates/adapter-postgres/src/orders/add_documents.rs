//! Adds documents to an order.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    idempotency::AddedRange,
    ports::{NewDocuments, WriteError},
};
use sql_rows::{
    DocumentRow, DocumentsChange, KeyRow, OrderState, Prepared, Utc, document_counts, is_order_of,
    replaceable,
    schema::{documents, orders},
    stored_position,
};

use super::withdraw::record;
use crate::{
    accesses::store_access,
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
    let order = match OrderState::takes_documents(state.optional()?) {
        Ok(order) => order,
        Err(error) => return Ok(Err(error)),
    };
    let counts = document_counts(new.order_id, new.kind);
    let (stored, kept) = Prepared(counts).get_result(connection).await?;
    let range = match new.range(stored, kept) {
        Ok(range) => range,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(position) = new.replaces {
        let replaced = diesel::update(replaceable(new.order_id, position))
            .set(documents::replaced_by.eq(stored_position(range.first_position)));
        if Prepared(replaced).execute(connection).await? == 0 {
            return Ok(Err(WriteError::NotReplaceable));
        }
    }
    let rows = DocumentRow::added(new, range).map_err(Failure::Unstorable)?;
    // A trigger adopts their uploads.
    diesel::insert_into(documents::table).values(rows).execute(connection).await?;
    let updated_at = order.changed_at(new.at);
    record(connection, DocumentsChange::added(new, range, &order, updated_at)).await?;
    if let Some(request) = &new.idempotent_request {
        remember(connection, &KeyRow::answered(request, order_id, at, Some(range))).await?;
    }
    let update = diesel::update(orders::table.find(order_id));
    Prepared(update.set(orders::updated_at.eq(updated_at))).execute(connection).await?;
    store_access(connection, new.access.as_ref()).await?;
    Ok(Ok(range))
}
