//! Rows of events.

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    delivery::MailContent,
    order::{OrderId, change::NewEvent},
    ports::{Event, EventId},
    webhook::{EventChange, EventType},
};
use time::{Duration, OffsetDateTime};

use crate::{
    Unreadable, Utc,
    instant::farthest_due,
    schema::events,
    text::{Lossy, LossyNullable},
};

/// The events that a worker turns into deliveries at an instant, of the types that this version of
/// the program knows.
#[auto_type(no_type_alias)]
pub fn due_events(now: OffsetDateTime) -> _ {
    let types: [&'static str; EventType::OF_ORDERS.len()] =
        EventType::OF_ORDERS.map(EventType::as_str);
    let now: Utc = Utc(now);
    let is_due: is_not_put_off = is_not_put_off(now);
    events::table.filter(events::kind.eq_any(types)).filter(is_due).order(events::id)
}

#[auto_type]
fn is_not_put_off(now: Utc) -> _ {
    let farthest: Utc = farthest_due(now);
    events::retry_at.is_null().or(events::retry_at.le(now)).or(events::retry_at.gt(farthest))
}

/// An event of an order to add.
#[derive(Insertable)]
#[diesel(table_name = events)]
pub struct NewEventRow {
    kind: &'static str,
    order_id: i64,
    created_at: Utc,
}

impl NewEventRow {
    /// Returns the row of an event.
    pub fn new(event: EventType, order_id: i64, created_at: Utc) -> Self {
        Self { kind: event.as_str(), order_id, created_at }
    }
}

/// An event of an order to add that tells something besides the order.
#[derive(Insertable)]
#[diesel(table_name = events)]
pub struct NewChangeEventRow {
    #[diesel(embed)]
    event: NewEventRow,
    change: Option<String>,
    content: Option<String>,
}

impl NewChangeEventRow {
    /// Returns the row of an event of a change at an instant.
    pub(crate) fn new(
        order: OrderId,
        NewEvent { event, change, content }: &NewEvent,
        at: Utc,
    ) -> Self {
        Self {
            event: NewEventRow::new(*event, order.0, at),
            change: change.as_ref().map(stored_change),
            content: content.as_ref().map(stored_content),
        }
    }
}

/// An event.
#[derive(Queryable, Selectable)]
#[diesel(table_name = events)]
pub struct EventRow {
    id: i64,
    order_id: i64,
    created_at: Utc,
    #[diesel(deserialize_as = Lossy)]
    kind: String,
    #[diesel(deserialize_as = LossyNullable)]
    change: Option<String>,
    #[diesel(deserialize_as = LossyNullable)]
    content: Option<String>,
}

pub(crate) fn stored_content(content: &MailContent) -> String {
    // Texts and numbers become JSON without an error.
    serde_json::to_string(content).unwrap_or_default()
}

/// Reads what only the mails tell. A mail leaves without a content that cannot be read.
pub(crate) fn read_content(stored: Option<&str>) -> Option<MailContent> {
    serde_json::from_str(stored?).ok()
}

/// Time for which an event that cannot be read is put off.
pub const UNREADABLE_EVENT_DELAY: Duration = Duration::HOUR;

/// Returns the events that can be read, and the rows of the others.
pub fn readable_events(rows: Vec<EventRow>) -> (Vec<Event>, Vec<i64>) {
    let (mut events, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        let id = row.id;
        match row.into_event() {
            Ok(event) => events.push(event),
            Err(_) => unreadable.push(id),
        }
    }
    (events, unreadable)
}

impl EventRow {
    /// Returns the event.
    pub fn into_event(self) -> Result<Event, Unreadable> {
        Ok(Event {
            id: EventId(self.id),
            order_id: OrderId(self.order_id),
            created_at: self.created_at.0,
            event: EventType::from_name(&self.kind)
                .ok_or_else(|| Unreadable::new("events", &self.id, &"type"))?,
            change: read_change(self.change.as_deref())
                .map_err(|_| Unreadable::new("events", &self.id, &"change"))?,
            content: read_content(self.content.as_deref()),
        })
    }
}

/// Returns how what an event tells besides its order is stored.
pub fn stored_change(change: &EventChange) -> String {
    // Texts and numbers become JSON without an error.
    serde_json::to_string(change).unwrap_or_default()
}

/// Reads what an event tells besides its order.
///
/// # Errors
/// It is not the JSON of a change.
pub fn read_change(stored: Option<&str>) -> Result<Option<EventChange>, serde_json::Error> {
    stored.map(serde_json::from_str).transpose()
}
