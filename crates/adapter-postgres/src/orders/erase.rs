//! Erases orders.

use diesel::{dsl::sql, prelude::*, sql_types::Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    access::Access,
    document::{DocumentKind, ObjectKey},
    order::{Due, OrderBefore, OrderCommand, OrderId, Retained, change::has_room},
    ports::{AccessOf, ErasedDue, ErasureOutcome},
};
use sql_rows::{
    Utc,
    deliveries::{HeldMail, ended_mails, free_mails},
    order_changes::changes_with_reasons,
    orders::{
        change::{AgedOrderRow, OrderBeforeRow},
        erase::{ErasedOrder, ErasedRow},
    },
    pieces,
    schema::{
        deliveries, documents, events, order_changes, order_notes, order_recipients, orders,
        uploads, webhook_deliveries,
    },
    uploads::{condemned, ended_uploads, uploads_of_erased},
    webhook_deliveries::{
        HeldWebhook, attempted_webhooks, attempted_webhooks_of_erased, erasable_webhooks_of,
        webhooks_with_bodies,
    },
};

use super::change::{load_documents, write};
use crate::{accesses::store_access, failure::Failure, locks, statement::columns};

/// Erases an order in a transaction, unless it is on hold.
pub(crate) async fn erase(
    connection: &mut AsyncPgConnection,
    id: OrderId,
    at: Utc,
    access: Option<&Access>,
) -> Result<ErasureOutcome, Failure> {
    locks::lock(connection, "orders", &[id.0]).await?;
    let row = orders::table.find(id.0).select(columns::<OrderBeforeRow>());
    let row: Option<OrderBeforeRow> = row.get_result(connection).await.optional()?;
    let Some(row) = row else { return Ok(ErasureOutcome::NotFound) };
    if let Err(refusal) = row.into_before()?.may_be_erased(at.0) {
        return Ok(refusal.into());
    }
    store_access(connection, access).await?;
    Ok(ErasureOutcome::Erased(empty(connection, &[id.0], at).await?))
}

/// Erases those of the orders that are still due, in a transaction. Returns `None` if another instance is
/// doing that: one does at a time.
pub(crate) async fn erase_due(
    connection: &mut AsyncPgConnection,
    due: Due,
    orders: &[OrderId],
    access_of: &AccessOf,
) -> Result<Option<ErasedDue>, Failure> {
    if !locks::try_lock_name(connection, "retention").await? {
        return Ok(None);
    }
    let ids: Vec<i64> = orders.iter().map(|id| id.0).collect();
    // A later round erases those that another system has locked: behind one of them, the transaction would
    // hold the others as long.
    let ids = locks::lock_free_orders(connection, &ids).await?;
    let found = orders::table.filter(orders::id.eq_any(ids)).order(orders::id);
    let found: Vec<AgedOrderRow> =
        found.select(columns::<AgedOrderRow>()).get_results(connection).await?;
    let (mut erased, mut entries) = (ErasedDue::default(), 0);
    for row in found {
        let of_order = row.entries();
        let (id, before, age) = row.into_aged()?;
        if !due.covers(&before, &age) {
            continue;
        }
        entries += of_order;
        if !has_room(erased.orders.len(), entries) {
            // A later round erases the others.
            break;
        }
        if due.what == Retained::Documents {
            let documents = load_documents(connection, id, &DocumentKind::ALL).await?;
            let before = OrderBefore { documents, ..before };
            let Some(effects) = OrderCommand::EraseDocuments.decide(&before, due.now)? else {
                continue;
            };
            write(connection, id, &effects).await?;
            erased.condemned.extend(effects.withdrawn.into_iter().map(|document| document.key));
        }
        store_access(connection, access_of(id).as_ref()).await?;
        erased.orders.push(id);
    }
    if due.what == Retained::Orders && !erased.orders.is_empty() {
        let ids: Vec<i64> = erased.orders.iter().map(|id| id.0).collect();
        erased.condemned = empty(connection, &ids, Utc(due.now)).await?;
    }
    Ok(Some(erased))
}

/// Empties orders in a transaction. Locks rows in the order in which other calls lock them: the
/// orders, the events, deliveries by identifier. Their uploads are new rows. A worker that dispatches an event
/// meanwhile has added its deliveries when the event is gone. Mails and webhooks that a worker attempts
/// stay until it settles them, and no other worker gets them.
async fn empty(
    connection: &mut AsyncPgConnection,
    ids: &[i64],
    at: Utc,
) -> Result<Vec<ObjectKey>, Failure> {
    let emptied = orders::details.eq(sql::<Text>("'{}'"));
    let erased = diesel::update(orders::table.filter(orders::id.eq_any(ids.to_vec())))
        .set((emptied, ErasedOrder::at(at)))
        .returning(columns::<ErasedRow>());
    let erased: Vec<ErasedRow> = erased.get_results(connection).await?;
    let removed = diesel::delete(documents::table.filter(documents::order_id.eq_any(ids.to_vec())))
        .returning((documents::signed, documents::position, documents::key))
        .get_results(connection)
        .await?;
    let of_no_order = uploads::order_id.eq(None::<i64>);
    diesel::update(ended_uploads(ids.to_vec())).set(of_no_order).execute(connection).await?;
    diesel::update(uploads::table.filter(uploads::order_id.eq_any(ids.to_vec())))
        .set(uploads::condemned.eq(true))
        .execute(connection)
        .await?;
    let (rows, keys) = condemned(removed, at);
    for rows in pieces(rows) {
        diesel::insert_into(uploads::table).values(rows).execute(connection).await?;
    }
    diesel::update(changes_with_reasons(ids.to_vec()))
        .set(order_changes::reason.eq(None::<String>))
        .execute(connection)
        .await?;
    diesel::update(order_notes::table.filter(order_notes::order_id.eq_any(ids.to_vec())))
        .set(order_notes::text.eq(""))
        .execute(connection)
        .await?;
    diesel::delete(order_recipients::table.filter(order_recipients::order_id.eq_any(ids.to_vec())))
        .execute(connection)
        .await?;
    diesel::delete(events::table.filter(events::order_id.eq_any(ids.to_vec())))
        .execute(connection)
        .await?;
    for events in pieces(erased.iter().map(|order| order.event(at)).collect()) {
        diesel::insert_into(events::table).values(events).execute(connection).await?;
    }
    let mails =
        deliveries::table.filter(deliveries::order_id.eq_any(ids.to_vec())).select(deliveries::id);
    let mails = mails.get_results(connection).await?;
    // Locked first, so that none is leased meanwhile.
    locks::lock(connection, "deliveries", &mails).await?;
    diesel::delete(free_mails(mails.clone())).execute(connection).await?;
    diesel::update(deliveries::table.filter(deliveries::id.eq_any(mails)))
        .set(HeldMail::since(at))
        .execute(connection)
        .await?;
    let webhooks = erasable_webhooks_of(ids.to_vec()).select(webhook_deliveries::id);
    let webhooks: Vec<i64> = webhooks.get_results(connection).await?;
    locks::lock(connection, "webhook_deliveries", &webhooks).await?;
    let with_bodies = webhooks_with_bodies(webhooks.clone());
    let without = webhook_deliveries::body.eq(None::<String>);
    diesel::update(with_bodies).set(without).execute(connection).await?;
    let attempted = attempted_webhooks(webhooks);
    diesel::update(attempted).set(HeldWebhook::since(at)).execute(connection).await?;
    Ok(keys)
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
