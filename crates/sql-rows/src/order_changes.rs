//! Rows of the history of orders.

use diesel::{
    dsl::{auto_type, sql},
    expression::SqlLiteral,
    prelude::*,
    sql_types::Bool,
};
use domain::{
    order::{Actor, ChangeKind, OrderChange, OrderId, OrderStatus, READ_HISTORY, StoredOrder},
    person::Doer,
    ports::{Cause, Cursor, HistoryEntry, HistoryId, HistoryQuery, Page},
};

use crate::{
    OneOf, Unreadable, Utc,
    people::{doer_of, stored_doer},
    row_limit,
    schema::{order_changes, orders},
    text::{Lossy, LossyNullable},
};

/// Selects the newest entries of the history of orders, up to [`READ_HISTORY`] of each, oldest first. Looks
/// up the oldest of them once for each order, and reads no other.
#[auto_type(no_type_alias)]
pub fn changes_of(orders: Vec<i64>) -> _ {
    let ids: OneOf<i64> = OneOf::new("orders.id", orders);
    let newest: SqlLiteral<Bool> = newest();
    order_changes::table
        .inner_join(orders::table.on(orders::id.eq(order_changes::order_id)))
        .filter(ids)
        .filter(newest)
        .order((order_changes::order_id, order_changes::id))
}

fn newest() -> SqlLiteral<Bool> {
    sql(&format!(
        "order_changes.id >= coalesce((SELECT entry.id FROM order_changes AS entry \
        WHERE entry.order_id = orders.id ORDER BY entry.id DESC LIMIT 1 OFFSET {}), 0)",
        READ_HISTORY - 1
    ))
}

/// Selects an entry of the history of an order, to check that it is there.
#[auto_type(no_type_alias)]
pub fn history_entry(order: OrderId, entry: HistoryId) -> _ {
    let (order, entry): (i64, i64) = (order.0, entry.0);
    order_changes::table
        .filter(order_changes::order_id.eq(order).and(order_changes::id.eq(entry)))
        .select(order_changes::id)
}

/// Selects the entries of the history of an order before one, the newest first.
#[auto_type(no_type_alias)]
pub fn history_before(order: OrderId, entry: i64, limit: usize) -> _ {
    let order: i64 = order.0;
    let limit: i64 = row_limit(limit.saturating_add(1));
    order_changes::table
        .filter(order_changes::order_id.eq(order).and(order_changes::id.lt(entry)))
        .order(order_changes::id.desc())
        .limit(limit)
}

/// Selects the entries of the history of an order after one, the oldest first.
#[auto_type(no_type_alias)]
pub fn history_after(order: OrderId, entry: i64, limit: usize) -> _ {
    let order: i64 = order.0;
    let limit: i64 = row_limit(limit.saturating_add(1));
    order_changes::table
        .filter(order_changes::order_id.eq(order).and(order_changes::id.gt(entry)))
        .order(order_changes::id.asc())
        .limit(limit)
}

/// Selects the entries of orders that have a reason, to erase it. A history may be long, and few entries have one.
#[auto_type(no_type_alias)]
pub fn changes_with_reasons(orders: Vec<i64>) -> _ {
    order_changes::table
        .filter(order_changes::order_id.eq_any(orders))
        .filter(order_changes::reason.is_not_null())
}

/// Returns a page of the history of an order that was created at an instant, and by whom. `rows` are those that
/// [`history_before`] or [`history_after`] selects from the cursor on.
pub fn history_page(
    query: HistoryQuery,
    created: (Utc, Doer),
    rows: Vec<(i64, OrderChangeRow)>,
) -> Result<Page<HistoryEntry>, Unreadable> {
    let entry = |(id, row): (i64, OrderChangeRow)| {
        Ok(HistoryEntry { id: HistoryId(id), change: row.into_change()? })
    };
    let mut entries = rows.into_iter().map(entry).collect::<Result<Vec<_>, Unreadable>>()?;
    let HistoryQuery { limit, cursor } = query;
    let reaches_creation = match cursor {
        Cursor::Newest => true,
        Cursor::OlderThan(entry) => entry > HistoryId::CREATED,
        Cursor::NewerThan(_) => false,
    };
    if reaches_creation && entries.len() <= limit {
        let (Utc(at), by) = created;
        let change = OrderChange { by: Some(by), ..OrderChange::created(at) };
        entries.push(HistoryEntry { id: HistoryId::CREATED, change });
    }
    Ok(Page::of(limit, &cursor, entries, cursor != Cursor::Newest))
}

/// Gives orders their history up to the instant at which each was read: another system may have
/// changed them since.
pub fn add_changes(
    found: &mut [&mut StoredOrder],
    rows: Vec<OrderChangeRow>,
) -> Result<(), Unreadable> {
    for row in rows {
        let order = found.iter_mut().find(|order| order.id.0 == row.order_id);
        let change = row.into_change()?;
        if let Some(order) =
            order.filter(|order| Some(change.at) <= order.touched_at.max(Some(order.updated_at)))
        {
            order.changes.push(change);
        }
    }
    Ok(())
}

/// A change in the history of an order.
#[derive(Queryable, Selectable)]
#[diesel(table_name = order_changes)]
pub struct OrderChangeRow {
    /// The order.
    pub order_id: i64,
    at: Utc,
    #[diesel(deserialize_as = Lossy)]
    kind: String,
    #[diesel(deserialize_as = LossyNullable)]
    changed: Option<String>,
    #[diesel(deserialize_as = LossyNullable)]
    documents: Option<String>,
    #[diesel(deserialize_as = Lossy)]
    status: String,
    notary_id: Option<i64>,
    #[diesel(deserialize_as = Lossy)]
    actor: String,
    #[diesel(deserialize_as = LossyNullable)]
    reason: Option<String>,
    doer: Option<i64>,
    #[diesel(deserialize_as = LossyNullable)]
    before: Option<String>,
}

impl OrderChangeRow {
    /// Returns the change.
    pub fn into_change(self) -> Result<OrderChange, Unreadable> {
        let unreadable =
            |column: &str| Unreadable::new("order_changes of order", &self.order_id, &column);
        let kind =
            ChangeKind::from_stored(&self.kind, self.changed.as_deref(), self.documents.as_deref());
        Ok(OrderChange {
            at: self.at.0,
            kind: kind.ok_or_else(|| unreadable("kind"))?,
            // The rest of the entry says enough if another version has written them otherwise.
            before: self.before.as_deref().and_then(|json| serde_json::from_str(json).ok()),
            status: OrderStatus::from_stored(self.status).ok_or_else(|| unreadable("status"))?,
            notary_id: self.notary_id,
            // Another version of the service, or another system, has named one that this does not know.
            actor: Actor::from_name(&self.actor).unwrap_or(Actor::Database),
            reason: self.reason,
            by: self.doer.map(doer_of),
        })
    }
}

/// An entry to add to the history of an order.
#[derive(Insertable)]
#[diesel(table_name = order_changes)]
#[expect(missing_docs, reason = "the columns, which the migrations describe")]
pub struct NewChangeRow {
    pub order_id: i64,
    pub at: Utc,
    pub kind: &'static str,
    pub changed: Option<String>,
    pub documents: Option<String>,
    pub status: String,
    pub notary_id: Option<i64>,
    pub actor: &'static str,
    pub doer: Option<i64>,
    pub reason: Option<String>,
    pub before: Option<String>,
}

impl NewChangeRow {
    /// Returns the row of an entry.
    pub(crate) fn new(order: OrderId, entry: &OrderChange) -> Result<Self, Cause> {
        let OrderChange { at, kind, before, status, notary_id, actor, reason, by } = entry;
        Ok(Self {
            order_id: order.0,
            at: Utc(*at),
            kind: kind.as_str(),
            changed: kind.changed().map(serde_json::to_string).transpose()?,
            documents: kind.documents().map(serde_json::to_string).transpose()?,
            status: status.as_str().to_owned(),
            notary_id: *notary_id,
            actor: actor.as_str(),
            doer: by.map(stored_doer),
            reason: reason.clone(),
            before: before.as_ref().map(serde_json::to_string).transpose()?,
        })
    }
}
