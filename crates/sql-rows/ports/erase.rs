//! Erases orders.

use diesel::{dsl::sql, prelude::*};
use domain::{document::ObjectKey, order::OrderId};
use sql_rows::{
    Utc,
    schema::{deliveries, documents, events, orders, uploads},
};

use crate::{
    dialect::{self, Connection, RunQueryDsl},
    failure::Failure,
};

/// Erases an order in a transaction. Locks rows in the order in which other calls lock them: the
/// order, uploads by key, the event, deliveries by identifier. A worker that dispatches the event
/// meanwhile has added its deliveries when the event is gone.
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
    let events = events::table.filter(events::order_id.eq(id.0));
    diesel::delete(events).execute(connection).await?;
    let mails = || deliveries::table.filter(deliveries::order_id.eq(id.0));
    let ids: Vec<i64> = mails().select(deliveries::id).get_results(connection).await?;
    dialect::lock(connection, "deliveries", &ids).await?;
    diesel::delete(mails()).execute(connection).await?;
    Ok(Some(removed.into_iter().map(|(_, key)| ObjectKey::from_stored(key)).collect()))
}
