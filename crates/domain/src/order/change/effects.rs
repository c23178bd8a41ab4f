//! The effects of a change of an order: plain data that an adapter stores.

use time::OffsetDateTime;

use crate::{
    document::{DocumentKind, ObjectKey, StoredDocument},
    order::{
        Order,
        event::{EventChange, EventType, MailContent},
        stored::{Actor, Note, OrderChange, OrderStatus},
    },
    person::Doer,
};

/// The rows and columns that a change of an order stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderEffects {
    /// The instant of the change, and of the order's last change unless the version stays. `None` if the sides do
    /// not see it.
    pub at: Option<OffsetDateTime>,
    /// The client's data in place of the stored one.
    pub order: Option<Box<Order>>,
    /// Whether that moves the appointment.
    pub moves_appointment: bool,
    /// The end of the hold in place of the stored one.
    pub held_until: Option<Option<OffsetDateTime>>,
    /// Whether the version stays: the change is not one of people.
    pub keeps_version: bool,
    /// The new documents, by position.
    pub added: Vec<AddedDocument>,
    /// The document to sign that the first of them replaces.
    pub replaced: Option<u32>,
    /// The documents that lose their bytes and their names.
    pub withdrawn: Vec<WithdrawnDocument>,
    /// The new note.
    pub note: Option<Note>,
    /// The positions that a repeated request finds again: of the new documents, or of the new note. An amendment
    /// has [`AddedRange::NOTHING`].
    pub range: Option<AddedRange>,
    /// The entry of the history.
    pub entry: Option<OrderChange>,
    /// The events.
    pub events: Vec<NewEvent>,
    /// The status that follows from the change. The database adds its entry and its event behind those above.
    pub status: Option<FollowingStatus>,
}

/// A status that an order gets because of another change of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowingStatus {
    /// The status.
    pub status: OrderStatus,
    /// The side that made the change.
    pub actor: Actor,
    /// The instant, after that of the change.
    pub at: OffsetDateTime,
    /// The key or the person who made it.
    pub by: Option<Doer>,
}

impl OrderEffects {
    /// Names the key or the person who makes the change, in all that it stores.
    pub fn done_by(mut self, by: Option<Doer>) -> Self {
        self.entry.iter_mut().for_each(|entry| entry.by = by);
        self.note.iter_mut().for_each(|note| note.by = by);
        self.status.iter_mut().for_each(|status| status.by = by);
        self.added.iter_mut().for_each(|added| added.document.by = by);
        self
    }
}

/// A document that an order gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedDocument {
    /// Its kind.
    pub kind: DocumentKind,
    /// Its position among the documents of this kind.
    pub position: u32,
    /// The document. It is in the blob store, and the upload ledger has its key.
    pub document: StoredDocument,
}

/// A document that loses its bytes and its names. Its record stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithdrawnDocument {
    /// Its kind.
    pub kind: DocumentKind,
    /// Its position among the documents of this kind.
    pub position: u32,
    /// The key of its object, which the upload ledger condemns.
    pub key: ObjectKey,
    /// The name that it gets.
    pub name: String,
    /// Whether the retention withdraws it, and not its side.
    pub is_erased: bool,
}

/// An event that a change adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Its type.
    pub event: EventType,
    /// Its data besides the order.
    pub change: Option<EventChange>,
    /// The data that only its mails get.
    pub content: Option<MailContent>,
}

/// The documents that a request added to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddedRange {
    /// Position of the first of them.
    pub first_position: u32,
    /// Their number.
    pub count: u32,
    /// The number of documents that the order had after the addition, without withdrawn ones.
    pub total: u32,
}

impl AddedRange {
    /// The range of an amendment, which adds nothing.
    pub const NOTHING: Self = Self { first_position: 0, count: 0, total: 0 };
}

impl NewEvent {
    /// Returns an event that tells of a change.
    pub(super) fn telling(event: EventType, change: EventChange) -> Self {
        Self { event, change: Some(change), content: None }
    }
}
