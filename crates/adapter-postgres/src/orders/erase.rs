//! Erases orders.

use diesel::{dsl::sql, prelude::*, sql_types::Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    access::Access,
    document::ObjectKey,
    order::OrderId,
    ports::{AccessOf, Due, ErasedDue, ErasureOutcome, Retained},
};
use sql_rows::{
    CondemnedUpload, ErasedDocuments, ErasedOrder, HeldMail, HeldWebhook, IsDue, OrderState, Utc,
    WithdrawnDocument, attempted_webhooks, attempted_webhooks_of_erased, condemned, ended_mails,
    free_mails,
    schema::{
        deliveries, documents, events, order_changes, order_notes, order_recipients, orders,
        uploads, webhook_deliveries,
    },
    uploads_of_erased, waiting_webhooks_of,
};
use time::OffsetDateTime;

use crate::{accesses::store_access, failure::Failure, locks};

/// Erases an order in a transaction, unless it is on hold.
pub(crate) async fn erase(
    connection: &mut AsyncPgConnection,
    id: OrderId,
    at: Utc,
    access: Option<&Access>,
) -> Result<ErasureOutcome, Failure> {
    locks::lock(connection, "orders", &[id.0]).await?;
    let state = orders::table.find(id.0).select(OrderState::as_select());
    let state = state.get_result(connection).await.optional()?;
    let outcome = OrderState::erasure(state, at.0);
    if !matches!(outcome, ErasureOutcome::Erased(_)) {
        return Ok(outcome);
    }
    store_access(connection, access).await?;
    Ok(ErasureOutcome::Erased(empty(connection, &[id.0], at).await?))
}

/// Puts an order on hold, or ends its hold.
pub(crate) async fn hold(
    connection: &mut AsyncPgConnection,
    id: OrderId,
    until: Option<Utc>,
    access: Option<&Access>,
) -> Result<bool, Failure> {
    locks::lock(connection, "orders", &[id.0]).await?;
    let kept = orders::table.find(id.0).filter(orders::erased_at.is_null());
    let held = diesel::update(kept).set(orders::held_until.eq(until)).execute(connection).await?;
    if held > 0 {
        store_access(connection, access).await?;
    }
    Ok(held > 0)
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
    locks::lock(connection, "orders", &ids).await?;
    let found = orders::table.filter(orders::id.eq_any(ids)).filter(IsDue::of(&due));
    let found = found.order(orders::id).select(OrderState::as_select());
    let found: Vec<OrderState> = found.get_results(connection).await?;
    let ids: Vec<i64> = found.iter().map(OrderState::id).collect();
    if ids.is_empty() {
        return Ok(Some(ErasedDue::default()));
    }
    for &id in &ids {
        store_access(connection, access_of(OrderId(id)).as_ref()).await?;
    }
    let condemned = match due.what {
        Retained::Orders => empty(connection, &ids, Utc(due.now)).await?,
        Retained::Documents => withdraw_all(connection, found, due.now).await?,
    };
    Ok(Some(ErasedDue { orders: ids.into_iter().map(OrderId).collect(), condemned }))
}

/// Withdraws the documents of orders. Returns the keys of their objects.
async fn withdraw_all(
    connection: &mut AsyncPgConnection,
    orders: Vec<OrderState>,
    now: OffsetDateTime,
) -> Result<Vec<ObjectKey>, Failure> {
    let mut condemned = Vec::new();
    for order in orders {
        let kept = documents::table.filter(documents::order_id.eq(order.id()));
        let kept = kept.filter(documents::key.is_not_null());
        let columns = (
            documents::signed,
            documents::position,
            documents::name,
            documents::key.assume_not_null(),
        );
        let kept: Vec<(bool, i32, String, String)> =
            kept.order(documents::key).select(columns).get_results(connection).await?;
        let positions: Vec<_> = kept.iter().map(|(signed, at, ..)| (*signed, *at)).collect();
        let erased = ErasedDocuments::of(&order, &positions, now);
        let ErasedDocuments { at, order: changed, entry, events } = erased;
        for (signed, position, name, key) in kept {
            let row = documents::table.find((order.id(), signed, position));
            let emptied = diesel::update(row).set(WithdrawnDocument::erased(at, &name));
            emptied.execute(connection).await?;
            let upload = CondemnedUpload::withdrawn(key.clone(), OrderId(order.id()), at);
            diesel::insert_into(uploads::table).values(upload).execute(connection).await?;
            condemned.push(ObjectKey::from_stored(key));
        }
        diesel::insert_into(order_changes::table).values(entry).execute(connection).await?;
        for event in events {
            diesel::insert_into(events::table).values(event).execute(connection).await?;
        }
        diesel::update(orders::table.find(order.id())).set(changed).execute(connection).await?;
    }
    Ok(condemned)
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
    diesel::update(orders::table.filter(orders::id.eq_any(ids.to_vec())))
        .set((emptied, ErasedOrder::at(at)))
        .execute(connection)
        .await?;
    let removed = diesel::delete(documents::table.filter(documents::order_id.eq_any(ids.to_vec())))
        .returning((documents::signed, documents::position, documents::key))
        .get_results(connection)
        .await?;
    diesel::update(uploads::table.filter(uploads::order_id.eq_any(ids.to_vec())))
        .set(uploads::condemned.eq(true))
        .execute(connection)
        .await?;
    let (rows, keys) = condemned(removed, at);
    diesel::insert_into(uploads::table).values(rows).execute(connection).await?;
    diesel::update(order_changes::table.filter(order_changes::order_id.eq_any(ids.to_vec())))
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
    let webhooks = waiting_webhooks_of(ids.to_vec()).select(webhook_deliveries::id);
    let webhooks: Vec<i64> = webhooks.get_results(connection).await?;
    locks::lock(connection, "webhook_deliveries", &webhooks).await?;
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
