//! Erases orders.

use diesel::{
    connection::SimpleConnection as _, dsl::sql, prelude::*, sql_types::Text,
    sqlite::SqliteConnection,
};
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

use crate::{accesses::store_access, database::MARK_ERASURE, failure::Failure};

/// Erases an order, and marks the file, so that it is rewritten. Mails and webhooks that a worker
/// attempts stay until it settles them, and no other worker gets them.
pub(crate) fn erase(
    connection: &mut SqliteConnection,
    id: OrderId,
    at: Utc,
    access: Option<&Access>,
) -> Result<Option<Vec<ObjectKey>>, Failure> {
    connection.batch_execute(MARK_ERASURE)?;
    let kept = orders::table.find(id.0).filter(orders::erased_at.is_null());
    let emptied = orders::details.eq(sql::<Text>("'{}'"));
    if diesel::update(kept).set((emptied, ErasedOrder::at(at))).execute(connection)? == 0 {
        return Ok(None);
    }
    store_access(connection, access)?;
    let removed = diesel::delete(documents::table.filter(documents::order_id.eq(id.0)))
        .returning((documents::signed, documents::position, documents::key))
        .get_results(connection)?;
    diesel::update(uploads::table.filter(uploads::order_id.eq(id.0)))
        .set(uploads::condemned.eq(true))
        .execute(connection)?;
    let (rows, keys) = condemned(removed, at);
    diesel::insert_into(uploads::table).values(rows).execute(connection)?;
    diesel::update(order_changes::table.filter(order_changes::order_id.eq(id.0)))
        .set(order_changes::reason.eq(None::<String>))
        .execute(connection)?;
    diesel::update(order_notes::table.filter(order_notes::order_id.eq(id.0)))
        .set(order_notes::text.eq(""))
        .execute(connection)?;
    diesel::delete(order_recipients::table.filter(order_recipients::order_id.eq(id.0)))
        .execute(connection)?;
    diesel::delete(events::table.filter(events::order_id.eq(id.0))).execute(connection)?;
    let mails = deliveries::table.filter(deliveries::order_id.eq(id.0)).select(deliveries::id);
    let mails = mails.get_results(connection)?;
    diesel::delete(free_mails(mails.clone())).execute(connection)?;
    diesel::update(deliveries::table.filter(deliveries::id.eq_any(mails)))
        .set(HeldMail::since(at))
        .execute(connection)?;
    let webhooks: Vec<i64> =
        waiting_webhooks_of(id.0).select(webhook_deliveries::id).get_results(connection)?;
    diesel::update(attempted_webhooks(webhooks)).set(HeldWebhook::since(at)).execute(connection)?;
    Ok(Some(keys))
}

/// Removes mails of erased orders, but for those that a worker attempts. Returns their number, with that
/// of the webhooks and uploads in progress.
pub(crate) fn remove_mails(
    connection: &mut SqliteConnection,
    mails: Vec<i64>,
    at: Utc,
) -> Result<usize, Failure> {
    let webhooks: i64 = attempted_webhooks_of_erased(at).count().get_result(connection)?;
    let uploads: i64 = uploads_of_erased(at).count().get_result(connection)?;
    diesel::delete(ended_mails(mails.clone(), at)).execute(connection)?;
    let left = deliveries::table.filter(deliveries::id.eq_any(mails)).count();
    let left: i64 = left.get_result(connection)?;
    Ok(usize::try_from(left + webhooks + uploads).unwrap_or(usize::MAX))
}
