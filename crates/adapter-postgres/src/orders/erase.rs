//! Erases orders.

use diesel::{dsl::sql, prelude::*, sql_types::Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{access::Access, document::ObjectKey, order::OrderId};
use sql_rows::{
    ErasedOrder, HeldMail, HeldWebhook, Utc, attempted_webhooks, attempted_webhooks_of_erased,
    condemned, ended_mails, free_mails,
    schema::{
        deliveries, documents, events, order_changes, order_notes, order_recipients, orders,
        uploads, webhook_deliveries,
    },
    uploads_of_erased, waiting_webhooks_of,
};

use crate::{accesses::store_access, failure::Failure, locks};

/// Erases an order in a transaction. Locks rows in the order in which other calls lock them: the
/// order, the event, deliveries by identifier. Its uploads are new rows. A worker that dispatches the event
/// meanwhile has added its deliveries when the event is gone. Mails and webhooks that a worker attempts
/// stay until it settles them, and no other worker gets them.
pub(crate) async fn erase(
    connection: &mut AsyncPgConnection,
    id: OrderId,
    at: Utc,
    access: Option<&Access>,
) -> Result<Option<Vec<ObjectKey>>, Failure> {
    locks::lock(connection, "orders", &[id.0]).await?;
    let kept = orders::table.find(id.0).filter(orders::erased_at.is_null());
    let emptied = orders::details.eq(sql::<Text>("'{}'"));
    if diesel::update(kept).set((emptied, ErasedOrder::at(at))).execute(connection).await? == 0 {
        return Ok(None);
    }
    store_access(connection, access).await?;
    let removed = diesel::delete(documents::table.filter(documents::order_id.eq(id.0)))
        .returning((documents::signed, documents::position, documents::key))
        .get_results(connection)
        .await?;
    diesel::update(uploads::table.filter(uploads::order_id.eq(id.0)))
        .set(uploads::condemned.eq(true))
        .execute(connection)
        .await?;
    let (rows, keys) = condemned(removed, at);
    diesel::insert_into(uploads::table).values(rows).execute(connection).await?;
    diesel::update(order_changes::table.filter(order_changes::order_id.eq(id.0)))
        .set(order_changes::reason.eq(None::<String>))
        .execute(connection)
        .await?;
    diesel::update(order_notes::table.filter(order_notes::order_id.eq(id.0)))
        .set(order_notes::text.eq(""))
        .execute(connection)
        .await?;
    diesel::delete(order_recipients::table.filter(order_recipients::order_id.eq(id.0)))
        .execute(connection)
        .await?;
    diesel::delete(events::table.filter(events::order_id.eq(id.0))).execute(connection).await?;
    let mails = deliveries::table.filter(deliveries::order_id.eq(id.0)).select(deliveries::id);
    let mails = mails.get_results(connection).await?;
    // Locked first, so that none is leased meanwhile.
    locks::lock(connection, "deliveries", &mails).await?;
    diesel::delete(free_mails(mails.clone())).execute(connection).await?;
    diesel::update(deliveries::table.filter(deliveries::id.eq_any(mails)))
        .set(HeldMail::since(at))
        .execute(connection)
        .await?;
    let webhooks = waiting_webhooks_of(id.0).select(webhook_deliveries::id);
    let webhooks: Vec<i64> = webhooks.get_results(connection).await?;
    locks::lock(connection, "webhook_deliveries", &webhooks).await?;
    let attempted = attempted_webhooks(webhooks);
    diesel::update(attempted).set(HeldWebhook::since(at)).execute(connection).await?;
    Ok(Some(keys))
}

/// Removes mails of erased orders, but for those that a worker attempts. Returns their number, with that
/// of the webhooks and uploads in progress.
pub(crate) async fn remove_mails(
    connection: &mut AsyncPgConnection,
    mails: Vec<i64>,
    at: Utc,
) -> Result<usize, Failure> {
    let webhooks: i64 = attempted_webhooks_of_erased(at).count().get_result(connection).await?;
    let uploads: i64 = uploads_of_erased(at).count().get_result(connection).await?;
    locks::lock(connection, "deliveries", &mails).await?;
    diesel::delete(ended_mails(mails.clone(), at)).execute(connection).await?;
    let left = deliveries::table.filter(deliveries::id.eq_any(mails)).count();
    let left: i64 = left.get_result(connection).await?;
    Ok(usize::try_from(left + webhooks + uploads).unwrap_or(usize::MAX))
}
