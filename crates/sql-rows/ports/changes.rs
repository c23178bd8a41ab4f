//! Changes of the status and the notary of orders. The trigger of `migrations/` writes the history and
//! the event.

use diesel::{dsl::sql, prelude::*, sql_types::Bool};
use domain::{
    order::StoredOrder,
    ports::{OrderUpdate, StoreError},
};
use sql_rows::{
    OrderChangeRow, Utc, is_order_of,
    schema::{order_changes, orders},
};

use crate::{
    dialect::{Connection, DURABLE, RunQueryDsl, Store},
    failure::Failure,
};

pub(crate) async fn update(store: &Store, update: &OrderUpdate) -> Result<bool, StoreError> {
    let OrderUpdate { owner, id, seen, change } = update;
    let seen = orders::table
        .find(id.0)
        .filter(is_order_of(*owner))
        .filter(orders::updated_at.eq(Utc(*seen)))
        .filter(orders::erased_at.is_null())
        .filter(sql::<Bool>(DURABLE));
    let update = diesel::update(seen).set((
        orders::status.eq(change.status.as_str().to_owned()),
        orders::notary_id.eq(change.notary_id),
        orders::updated_at.eq(Utc(change.at)),
        orders::change_actor.eq(change.actor.as_str()),
        orders::change_reason.eq(change.reason.clone()),
    ));
    Ok(store.execute(update).await? > 0)
}

/// Reads the history of orders up to the instant at which each was read: another system may have
/// changed them since.
pub(crate) async fn load_changes(
    connection: &mut Connection,
    found: &mut [&mut StoredOrder],
) -> Result<(), Failure> {
    if found.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = found.iter().map(|order| order.id.0).collect();
    let changes = order_changes::table
        .filter(order_changes::order_id.eq_any(ids))
        .order((order_changes::order_id, order_changes::at))
        .select(OrderChangeRow::as_select());
    let changes: Vec<OrderChangeRow> = changes.get_results(connection).await?;
    for row in changes {
        let order = found.iter_mut().find(|order| order.id.0 == row.order_id);
        let change = row.into_change()?;
        if let Some(order) = order.filter(|order| change.at <= order.updated_at) {
            order.changes.push(change);
        }
    }
    Ok(())
}
