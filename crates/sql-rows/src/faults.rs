//! Rows that have a name which this version of the service does not know, or that it cannot read. It passes
//! over them; the log and `doctor` name them.

use diesel::{dsl::auto_type, prelude::*, result::Error};
use domain::{
    api_key::{KeyChange, Scope},
    delivery::MailSubject,
    ports::UnreadableRow,
    webhook::EventType,
};

use crate::{
    Unreadable,
    events::read_change,
    orders::KeptOrderRow,
    schema::{api_keys, deliveries, events, key_events, orders, webhook_deliveries},
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

/// Maximum number of orders that are looked at.
const LOOKED_AT_ORDERS: i64 = 10_000;

/// Selects the newest orders that are not erased.
#[auto_type(no_type_alias)]
pub fn newest_orders() -> _ {
    let limit: i64 = LOOKED_AT_ORDERS;
    orders::table.filter(orders::erased_at.is_null()).order(orders::id.desc()).limit(limit)
}

/// Returns the orders that were loaded, or the fault of one that diesel cannot read.
pub fn loaded_orders(
    loaded: QueryResult<Vec<KeptOrderRow>>,
) -> QueryResult<Vec<Result<KeptOrderRow, Unreadable>>> {
    match loaded {
        Err(Error::DeserializationError(reason)) => {
            Ok(vec![Err(Unreadable::new("orders", &"of the newest", &reason))])
        }
        loaded => Ok(loaded?.into_iter().map(Ok).collect()),
    }
}

/// An event or a webhook: its identifier, its type, and the change that it tells of.
pub type EventColumns = (i64, String, Option<String>);

/// The rows to look at.
#[derive(Default)]
#[expect(missing_docs, reason = "the functions above select them")]
pub struct LookedAt {
    pub scopes_of_keys: Vec<(i64, String)>,
    pub unknown_key_events: Vec<i64>,
    pub oldest_mails: Vec<(i64, String)>,
    pub oldest_events: Vec<EventColumns>,
    pub oldest_webhooks: Vec<EventColumns>,
    pub newest_orders: Vec<Result<KeptOrderRow, Unreadable>>,
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
        let keys = self.scopes_of_keys.into_iter().filter(move |(_, scopes)| is_unknown(scopes));
        let mails = self.oldest_mails.into_iter();
        let mails = mails.filter(|(_, subject)| MailSubject::from_name(subject).is_none());
        let of_events = |table| move |columns| event_fault(table, columns);
        let orders = self.newest_orders.into_iter().filter_map(|row| {
            row.and_then(|row| row.into_maybe_erased(Vec::new())).err().map(|fault| fault.named())
        });
        keys.map(|(id, _)| id)
            .map(named("api_keys", "scopes"))
            .chain(self.unknown_key_events.into_iter().map(named("key_events", "change")))
            .chain(mails.map(|(id, _)| id).map(named("deliveries", "subject")))
            .chain(self.oldest_events.into_iter().filter_map(of_events("events")))
            .chain(self.oldest_webhooks.into_iter().filter_map(of_events("webhook_deliveries")))
            .chain(orders)
    }
}

fn event_fault(table: &'static str, (id, event, change): EventColumns) -> Option<UnreadableRow> {
    let column = if EventType::from_name(&event).is_none() {
        if table == "events" { "type" } else { "event" }
    } else if read_change(change.as_deref()).is_err() {
        "change"
    } else {
        return None;
    };
    Some(Unreadable::new(table, &id, &column).named())
}
