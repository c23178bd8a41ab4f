//! Erases orders.

use diesel::{dsl::sql, prelude::*, sql_types::Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{document::ObjectKey, order::OrderId};
use sql_rows::{
    ErasedOrder, Utc, attempted_webhooks_of_erased, condemned, free_mails, mails_of_erased,
    schema::{deliveries, documents, events, order_changes, order_recipients, orders, uploads},
};

use crate::{failure::Failure, locks};

/// Erases an order in a transaction. Locks rows in the order in which other calls lock them: the
/// order, the event, deliveries by identifier. Its uploads are new rows. A worker that dispatches the event
/// meanwhile has added its deliveries when the event is gone. Mails that a worker attempts stay.
pub(crate) async fn erase(
    connection: &mut AsyncPgConnection,
    id: OrderId,
    at: Utc,
) -> Result<Option<Vec<ObjectKey>>, Failure> {
    locks::lock(connection, "orders", &[id.0]).await?;
    let kept = orders::table.find(id.0).filter(orders::erased_at.is_null());
    let emptied = orders::details.eq(sql::<Text>("'{}'"));
    if diesel::update(kept).set((emptied, ErasedOrder::at(at))).execute(connection).await? == 0 {
        return Ok(None);
    }
    let removed = diesel::delete(documents::table.filter(documents::order_id.eq(id.0)))
        .returning((documents::position, documents::key))
        .get_results(connection)
        .await?;
    let (rows, keys) = condemned(removed, at);
    diesel::insert_into(uploads::table).values(rows).execute(connection).await?;
    diesel::update(order_changes::table.filter(order_changes::order_id.eq(id.0)))
        .set(order_changes::reason.eq(None::<String>))
        .execute(connection)
        .await?;
    diesel::delete(order_recipients::table.filter(order_recipients::order_id.eq(id.0)))
        .execute(connection)
        .await?;
    diesel::delete(events::table.filter(events::order_id.eq(id.0))).execute(connection).await?;
    let mails = deliveries::table.filter(deliveries::order_id.eq(id.0)).select(deliveries::id);
    let mails = mails.get_results(connection).await?;
    remove(connection, mails, at).await?;
    Ok(Some(keys))
}

/// Removes the mails of erased orders, but for those that a worker attempts. Returns their number,
/// with that of the webhooks that it attempts.
pub(crate) async fn remove_mails(
    connection: &mut AsyncPgConnection,
    at: Utc,
) -> Result<usize, Failure> {
    let mails: Vec<i64> = mails_of_erased().select(deliveries::id).get_results(connection).await?;
    let webhooks: i64 = attempted_webhooks_of_erased(at).count().get_result(connection).await?;
    let attempted = mails.len() - remove(connection, mails, at).await?;
    Ok(attempted + usize::try_from(webhooks).unwrap_or(usize::MAX))
}

/// Removes those of the mails that no worker attempts. Locks them first, so that none is leased
/// meanwhile.
async fn remove(
    connection: &mut AsyncPgConnection,
    mails: Vec<i64>,
    at: Utc,
) -> Result<usize, Failure> {
    locks::lock(connection, "deliveries", &mails).await?;
    Ok(diesel::delete(free_mails(mails, at)).execute(connection).await?)
}
