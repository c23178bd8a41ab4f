//! Replaces the client's data of an order (`PUT`).

use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::ports::{ListedOrder, MaybeErased, OrderAmendment, WriteError};
use sql_rows::{
    AmendedRows, ListedRow, Prepared,
    schema::{events, order_changes, orders},
};

use super::read::listed;
use crate::{accesses::store_access, failure::Failure};

/// Changes an order. A rejection has changed nothing.
pub(super) fn amend(
    connection: &mut SqliteConnection,
    amendment: &OrderAmendment,
) -> Result<Result<ListedOrder, WriteError>, Failure> {
    let id = amendment.id.0;
    let found = match listed(connection, amendment.owner, amendment.id)? {
        None => return Ok(Err(WriteError::NoSuchOrder)),
        Some(MaybeErased::Erased) => return Ok(Err(WriteError::Erased)),
        Some(MaybeErased::Whole(found)) => found,
    };
    let amended = match amendment.amend(&found.stored) {
        Ok(Some(amended)) => amended,
        Ok(None) => return Ok(Ok(found)),
        Err(error) => return Ok(Err(error)),
    };
    let rows = AmendedRows::new(&found.stored, amended).map_err(Failure::Unstorable)?;
    diesel::insert_into(order_changes::table).values(rows.change).execute(connection)?;
    diesel::insert_into(events::table).values(rows.event).execute(connection)?;
    let update = diesel::update(orders::table.find(id))
        .set((orders::details.eq(rows.details), rows.order))
        .returning(ListedRow::as_select());
    let row: ListedRow = Prepared(update).get_result(connection)?;
    store_access(connection, amendment.access.as_ref())?;
    Ok(row.into_listed()?.ok_or(WriteError::Erased))
}
