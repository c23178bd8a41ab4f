//! Erases orders.

use diesel::{dsl::sql, prelude::*};
use domain::{document::ObjectKey, order::OrderId};
use sql_rows::{
    Utc, farthest,
    schema::{deliveries, documents, events, order_changes, orders, uploads, webhook_deliveries},
    waits,
};

use crate::{
    dialect::{self, Connection, RunQueryDsl},
    failure::Failure,
};

/// Erases an order in a transaction. Locks rows in the order in which other calls lock them: the
/// order, the event, deliveries by identifier. Its uploads are new rows. A worker that dispatches the event
/// meanwhile has added its deliveries when the event is gone. Mails that a worker attempts stay.
pub(crate) async fn erase(
    connection: &mut Connection,
    id: OrderId,
    at: Utc,
) -> Result<Option<Vec<ObjectKey>>, Failure> {
    dialect::lock(connection, "orders", &[id.0]).await?;
    let kept = orders::table.find(id.0).filter(orders::erased_at.is_null());
    let erased = diesel::update(kept).set((
        orders::details.eq(sql("'{}'")),
        orders::file_number.eq(""),
        orders::holds_file_number.eq(false),
        orders::starts_at.eq(None::<Utc>),
        orders::ends_at.eq(None::<Utc>),
        orders::erased_at.eq(at),
    ));
    if erased.execute(connection).await? == 0 {
        return Ok(None);
    }
    let removed = diesel::delete(documents::table.filter(documents::order_id.eq(id.0)))
        .returning((documents::position, documents::key));
    let mut removed: Vec<(i32, String)> = removed.get_results(connection).await?;
    removed.sort();
    let condemned = |key: &String| {
        (uploads::key.eq(key.clone()), uploads::recorded_at.eq(at), uploads::condemned.eq(true))
    };
    let condemned: Vec<_> = removed.iter().map(|(_, key)| condemned(key)).collect();
    diesel::insert_into(uploads::table).values(condemned).execute(connection).await?;
    let changes = order_changes::table.filter(order_changes::order_id.eq(id.0));
    let forget = diesel::update(changes).set(order_changes::reason.eq(None::<String>));
    forget.execute(connection).await?;
    let events = events::table.filter(events::order_id.eq(id.0));
    diesel::delete(events).execute(connection).await?;
    let mails = deliveries::table.filter(deliveries::order_id.eq(id.0));
    let mails: Vec<i64> = mails.select(deliveries::id).get_results(connection).await?;
    remove(connection, &mails, at).await?;
    Ok(Some(removed.into_iter().map(|(_, key)| ObjectKey::from_stored(key)).collect()))
}

/// Removes the mails of erased orders, but for those that a worker attempts. Returns their number,
/// with that of the webhooks that it attempts.
pub(crate) async fn remove_mails(connection: &mut Connection, at: Utc) -> Result<usize, Failure> {
    let of_erased = deliveries::table
        .inner_join(orders::table.on(orders::id.eq(deliveries::order_id)))
        .filter(orders::erased_at.is_not_null())
        .select(deliveries::id);
    let mails: Vec<i64> = of_erased.get_results(connection).await?;
    let webhooks = webhook_deliveries::table
        .inner_join(orders::table.on(orders::id.nullable().eq(webhook_deliveries::order_id)))
        .filter(orders::erased_at.is_not_null().and(waits()))
        .filter(webhook_deliveries::leased_until.between(at, farthest(at)))
        .count();
    let webhooks: i64 = webhooks.get_result(connection).await?;
    let mails = mails.len() - remove(connection, &mails, at).await?;
    Ok(mails + usize::try_from(webhooks).unwrap_or(usize::MAX))
}

/// Removes those of the mails that no worker attempts.
async fn remove(connection: &mut Connection, mails: &[i64], at: Utc) -> Result<usize, Failure> {
    dialect::lock(connection, "deliveries", mails).await?;
    let is_over = deliveries::leased_until.le(at).or(deliveries::leased_until.gt(farthest(at)));
    let is_free = deliveries::leased_until.is_null().or(is_over);
    let mails = deliveries::table.filter(deliveries::id.eq_any(mails.to_vec())).filter(is_free);
    Ok(diesel::delete(mails).execute(connection).await?)
}
