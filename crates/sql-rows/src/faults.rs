//! Rows that have a name which this version of the service does not know, or that it cannot read. It passes
//! over them; the log and `doctor` name them.

use diesel::{dsl::auto_type, prelude::*, result::Error};
use domain::{
    api_key::{KeyChange, Scope},
    delivery::MailSubject,
    order::OrderId,
    ports::UnreadableRow,
    webhook::EventType,
};

use crate::{
    Unreadable,
    events::read_change,
    orders::KeptOrderRow,
    row_limit,
    schema::{api_keys, deliveries, events, key_events, orders, webhook_deliveries},
    text::Lossy,
    webhook_deliveries::is_waiting,
};

/// Maximum number of rows of a table that are looked at. Those that cannot be read stay, so in the end they
/// are the oldest.
const LOOKED_AT: i64 = 1_000;

/// Selects keys and their scopes.
#[auto_type(no_type_alias)]
pub fn scopes_of_keys() -> _ {
    api_keys::table.order(api_keys::id).select((api_keys::id, api_keys::scopes))
}

/// Selects the lines of the trail of keys with an unknown change.
#[auto_type(no_type_alias)]
pub fn unknown_key_events() -> _ {
    let changes: [&'static str; 3] = KeyChange::NAMES;
    let limit: i64 = LOOKED_AT;
    key_events::table.filter(key_events::change.ne_all(changes)).limit(limit).select(key_events::id)
}

/// Selects the oldest mails, with their subjects.
#[auto_type(no_type_alias)]
pub fn oldest_mails() -> _ {
    let limit: i64 = LOOKED_AT;
    deliveries::table
        .order(deliveries::id)
        .limit(limit)
        .select((deliveries::id, deliveries::subject))
}

/// Selects the oldest events, with their types and changes.
#[auto_type(no_type_alias)]
pub fn oldest_events() -> _ {
    let limit: i64 = LOOKED_AT;
    events::table.order(events::id).limit(limit).select((events::id, events::kind, events::change))
}

/// Selects webhooks that wait and are unknown or tell of a change, with both. In the order of the index of
/// those that wait: the table also has those of 30 days.
#[auto_type(no_type_alias)]
pub fn oldest_webhooks() -> _ {
    let limit: i64 = LOOKED_AT;
    let waits: is_waiting = is_waiting();
    let known: [&'static str; EventType::ALL.len()] = EventType::ALL.map(EventType::as_str);
    let tells =
        webhook_deliveries::event.ne_all(known).or(webhook_deliveries::change.is_not_null());
    webhook_deliveries::table
        .filter(waits.and(tells))
        .order((
            webhook_deliveries::endpoint_id,
            webhook_deliveries::due_at,
            webhook_deliveries::id,
        ))
        .limit(limit)
        .select((webhook_deliveries::id, webhook_deliveries::event, webhook_deliveries::change))
}

/// Number of orders that one statement of a look reads. An order may have 100 kB.
const ORDERS_AT_ONCE: usize = 100;

/// Maximum number of orders of a look.
const LOOKED_AT_ORDERS: usize = 1_000;

/// Selects the next orders after one, also erased ones: an index without them would be one more to write.
#[auto_type(no_type_alias)]
pub fn next_orders(after: i64) -> _ {
    let limit: i64 = row_limit(ORDERS_AT_ONCE);
    orders::table.filter(orders::id.gt(after)).order(orders::id).limit(limit)
}

/// A look at the orders after one. It keeps faults, and no order.
pub struct OrderLook {
    after: i64,
    left: usize,
    faults: Vec<UnreadableRow>,
}

impl OrderLook {
    /// Begins a look behind an order.
    pub fn behind(order: OrderId) -> Self {
        Self { after: order.0, left: LOOKED_AT_ORDERS, faults: Vec::new() }
    }

    /// Returns after which order the next statement begins: see [`next_orders`].
    pub fn place(&self) -> i64 {
        self.after
    }

    /// Notes the faults among the orders that a statement has loaded. Returns whether the look goes on.
    ///
    /// # Errors
    /// The database could not be read. A row that diesel cannot read is a fault, and ends the look.
    pub fn note(&mut self, loaded: QueryResult<Vec<KeptOrderRow>>) -> QueryResult<bool> {
        let rows = match loaded {
            Err(Error::DeserializationError(reason)) => {
                let row = format!("after {}", self.after);
                self.faults.push(Unreadable::new("orders", &row, &reason).named());
                Vec::new()
            }
            loaded => loaded?,
        };
        let is_full = rows.len() == ORDERS_AT_ONCE;
        self.left = if is_full { self.left.saturating_sub(rows.len()) } else { 0 };
        self.after = rows.last().filter(|_| is_full).map_or(0, |last| last.id);
        let faults = rows.into_iter().map(|row| row.into_maybe_erased(Vec::new()));
        self.faults.extend(faults.filter_map(|read| Some(read.err()?.named())));
        Ok(self.left > 0)
    }

    /// Returns the faults, and the last order if there may be later ones.
    pub fn end(self) -> (Vec<UnreadableRow>, Option<OrderId>) {
        (self.faults, Some(OrderId(self.after)).filter(|last| last.0 > 0))
    }
}

/// An event or a webhook: its identifier, its type, and the change that it tells of.
pub type EventColumns = (i64, Lossy, Option<Lossy>);

/// The rows of other tables to look at.
#[expect(missing_docs, reason = "the functions above select them")]
pub struct LookedAt {
    pub scopes_of_keys: Vec<(i64, Lossy)>,
    pub unknown_key_events: Vec<i64>,
    pub oldest_mails: Vec<(i64, Lossy)>,
    pub oldest_events: Vec<EventColumns>,
    pub oldest_webhooks: Vec<EventColumns>,
}

impl LookedAt {
    /// Names the rows that cannot be read, or not whole.
    pub fn faults(self) -> impl Iterator<Item = UnreadableRow> {
        let named = |table, column: &'static str| {
            move |id: i64| Unreadable::new(table, &id, &column).named()
        };
        let is_unknown = |scopes: &str| {
            scopes.split_ascii_whitespace().any(|name| Scope::from_name(name).is_none())
        };
        let keys = self.scopes_of_keys.into_iter();
        let keys = keys.filter(move |(_, Lossy(scopes))| is_unknown(scopes));
        let mails = self.oldest_mails.into_iter();
        let mails = mails.filter(|(_, Lossy(subject))| MailSubject::from_name(subject).is_none());
        let of_events = |table| move |columns| event_fault(table, columns);
        keys.map(|(id, _)| id)
            .map(named("api_keys", "scopes"))
            .chain(self.unknown_key_events.into_iter().map(named("key_events", "change")))
            .chain(mails.map(|(id, _)| id).map(named("deliveries", "subject")))
            .chain(self.oldest_events.into_iter().filter_map(of_events("events")))
            .chain(self.oldest_webhooks.into_iter().filter_map(of_events("webhook_deliveries")))
    }
}

fn event_fault(table: &'static str, (id, event, change): EventColumns) -> Option<UnreadableRow> {
    let change = change.as_ref().map(|Lossy(change)| change.as_str());
    let column = if EventType::from_name(&event.0).is_none() {
        if table == "events" { "type" } else { "event" }
    } else if read_change(change).is_err() {
        "change"
    } else {
        return None;
    };
    Some(Unreadable::new(table, &id, &column).named())
}
