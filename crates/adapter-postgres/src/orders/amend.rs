//! Replaces the client's data of an order (`PUT`).

use diesel::{dsl::sql, prelude::*, sql_types::Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::ports::{ListedOrder, MaybeErased, OrderAmendment, WriteError};
use sql_rows::{
    AmendedRows, ListedRow, Prepared,
    schema::{events, order_changes, orders},
};

use super::read::listed;
use crate::{accesses::store_access, failure::Failure, locks};

/// Changes an order in a transaction. The lock of the order makes concurrent changes wait. A rejection
/// has changed nothing.
pub(super) async fn amend(
    connection: &mut AsyncPgConnection,
    amendment: &OrderAmendment,
) -> Result<Result<ListedOrder, WriteError>, Failure> {
    let id = amendment.id.0;
    locks::lock(connection, "orders", &[id]).await?;
    let found = match listed(connection, amendment.owner, amendment.id).await? {
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
    diesel::insert_into(order_changes::table).values(rows.change).execute(connection).await?;
    diesel::insert_into(events::table).values(rows.event).execute(connection).await?;
    let details = sql::<Text>("CAST(").bind::<Text, _>(rows.details).sql(" AS json)");
    let update = diesel::update(orders::table.find(id))
        .set((orders::details.eq(details), rows.order))
        .returning(ListedRow::as_select());
    let row: ListedRow = Prepared(update).get_result(connection).await?;
    store_access(connection, amendment.access.as_ref()).await?;
    Ok(row.into_listed()?.ok_or(WriteError::Erased))
}
