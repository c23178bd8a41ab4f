//! The decision on every change of an order.
//!
//! A storage adapter locks the order and loads [`OrderBefore`]. [`OrderCommand::decide`] returns the
//! [`OrderEffects`], which the adapter writes in the same transaction. A change of status or notary is
//! one statement instead: `status` has its rules.

mod amend;
mod documents;
mod erasure;
mod hold;
mod note;
mod status;
mod withdraw;

pub use amend::Amendment;
pub use documents::{AddedRange, NewDocuments};
pub use erasure::{Age, Due, Retained};
pub use note::{MAX_NOTES, NewNote};

use time::OffsetDateTime;

use super::{
    Order,
    event::{EventChange, EventType, MailContent},
    stored::{Actor, ChangeKind, Notary, Note, OrderChange, OrderStatus, StoredOrder, after},
};
use crate::document::{DocumentKind, ObjectKey, StoredDocument};

/// A change of an order, besides that of its status or its notary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderCommand {
    /// Replaces the client's data of the order (`PUT`).
    Amend(Amendment),
    /// Adds documents, one of which may replace another.
    AddDocuments(NewDocuments),
    /// Withdraws the document of a kind at a position.
    Withdraw {
        /// Its kind.
        kind: DocumentKind,
        /// Its position among the documents of this kind.
        position: u32,
    },
    /// Adds a note.
    AddNote(NewNote),
    /// Puts the order on hold, or ends its hold.
    Hold {
        /// The end of the hold; `None` ends it at once.
        until: Option<OffsetDateTime>,
    },
    /// Withdraws all documents of both sides, because their retention is over.
    EraseDocuments,
}

/// An order as a decision finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBefore {
    /// Whether the order is erased.
    pub is_erased: bool,
    /// The status.
    pub status: OrderStatus,
    /// The number of the notary.
    pub notary_id: Option<i64>,
    /// Who the notary is.
    pub notary: Option<Notary>,
    /// The instant of the last change.
    pub updated_at: OffsetDateTime,
    /// Until when an operator keeps the order from erasure.
    pub held_until: Option<OffsetDateTime>,
    /// The client's data. Only an amendment needs it.
    pub order: Option<Box<Order>>,
    /// The documents of the kind at stake by position; of both kinds for an erasure.
    pub documents: Vec<DocumentBefore>,
    /// The number of notes. Only a new note needs it.
    pub notes: usize,
}

/// A document as a decision finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentBefore {
    /// Its kind.
    pub kind: DocumentKind,
    /// Its position among the documents of this kind.
    pub position: u32,
    /// The key of its object; `None` if it is withdrawn.
    pub key: Option<ObjectKey>,
    /// Its name.
    pub name: String,
    /// The position of the document that replaced it.
    pub replaced_by: Option<u32>,
}

/// What a change of an order stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderEffects {
    /// The instant of the change, and of the order's last change. `None` if the sides do not see it.
    pub at: Option<OffsetDateTime>,
    /// The client's data in place of the stored one.
    pub order: Option<Box<Order>>,
    /// The end of the hold in place of the stored one.
    pub held_until: Option<Option<OffsetDateTime>>,
    /// The last change before an erasure of documents, from which the retention of the order counts.
    pub erased_after: Option<OffsetDateTime>,
    /// The new documents, by position.
    pub added: Vec<AddedDocument>,
    /// The document to sign that the first of them replaces.
    pub replaced: Option<u32>,
    /// The documents that lose their bytes and their names.
    pub withdrawn: Vec<WithdrawnDocument>,
    /// The new note.
    pub note: Option<Note>,
    /// The positions that a repeated request finds again: of the new documents, or of the new note.
    pub range: Option<AddedRange>,
    /// The entry of the history.
    pub entry: Option<OrderChange>,
    /// The events.
    pub events: Vec<NewEvent>,
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
    /// What it tells besides the order.
    pub change: Option<EventChange>,
    /// What only its mails tell.
    pub content: Option<MailContent>,
}

/// The reason why a change of an order is refused. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The owner has no such order, or the order no such document.
    #[error("the owner has no such order or document")]
    NoSuchOrder,
    /// An operator has erased the order.
    #[error("the order was erased")]
    Erased,
    /// The order is no expected version.
    #[error("the order has changed")]
    Changed,
    /// The order is cancelled, and does not change any more.
    #[error("the order is cancelled")]
    Cancelled,
    /// The order is signed or completed, and cannot be cancelled.
    #[error("the order is signed or completed")]
    Closed,
    /// The appointment is over: the client cannot change the order any more.
    #[error("the appointment of the order is over")]
    Over,
    /// The order is on hold: its documents stay.
    #[error("the order is on hold")]
    Held,
    /// The order would have too many documents.
    #[error("the order would have too many documents")]
    TooMany {
        /// Documents of the kind that it has.
        stored: usize,
    },
    /// The order has [`MAX_NOTES`] notes.
    #[error("the order has as many notes as it can have")]
    TooManyNotes,
    /// The document to replace does not exist, or is replaced or withdrawn.
    #[error("the document cannot be replaced")]
    NotReplaceable,
}

impl OrderCommand {
    /// Decides on the change of an order at `now`. Returns what it stores; `None` if it changes nothing.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn decide(
        &self,
        before: &OrderBefore,
        now: OffsetDateTime,
    ) -> Result<Option<OrderEffects>, Refusal> {
        if before.is_erased {
            return Err(Refusal::Erased);
        }
        match self {
            Self::Amend(amendment) => amendment.decide(before, now),
            Self::AddDocuments(new) => new.decide(before, now).map(Some),
            Self::Withdraw { kind, position } => withdraw::decide(*kind, *position, before, now),
            Self::AddNote(note) => note.decide(before, now).map(Some),
            Self::Hold { until } => Ok(Some(hold::decide(*until))),
            Self::EraseDocuments => erasure::decide(before, now),
        }
    }
}

impl OrderBefore {
    /// Returns what a decision finds of an order that was read whole.
    pub fn of(order: &StoredOrder) -> Self {
        let documents = |kind| {
            (0..).zip(order.documents_of(kind)).map(move |(position, document)| DocumentBefore {
                kind,
                position,
                key: document.key.clone(),
                name: document.name.clone(),
                replaced_by: document.replaced_by,
            })
        };
        Self {
            is_erased: false,
            status: order.status.clone(),
            notary_id: order.notary_id,
            notary: order.notary.clone(),
            updated_at: order.updated_at,
            held_until: order.held_until,
            order: Some(order.order.clone()),
            documents: DocumentKind::ALL.into_iter().flat_map(documents).collect(),
            notes: order.notes.len(),
        }
    }

    /// Returns the instant of a change at `now`: instants of one order increase.
    fn changed_at(&self, now: OffsetDateTime) -> OffsetDateTime {
        after(self.updated_at, now)
    }

    /// Refuses an order that is no expected version. `None` expects any.
    fn expect_version(&self, expected: Option<&[OffsetDateTime]>) -> Result<(), Refusal> {
        if expected.is_none_or(|versions| versions.contains(&self.updated_at)) {
            Ok(())
        } else {
            Err(Refusal::Changed)
        }
    }

    /// Returns the documents of a kind.
    fn documents_of(&self, kind: DocumentKind) -> impl Iterator<Item = &DocumentBefore> {
        self.documents.iter().filter(move |document| document.kind == kind)
    }

    /// Returns the document of a kind at a position.
    fn document(&self, kind: DocumentKind, position: u32) -> Option<&DocumentBefore> {
        self.documents_of(kind).find(|document| document.position == position)
    }

    /// Returns the entry of the history of a change that leaves status and notary.
    fn entry(&self, kind: ChangeKind, actor: Actor, at: OffsetDateTime) -> OrderChange {
        let (status, notary_id) = (self.status.clone(), self.notary_id);
        OrderChange { at, kind, status, notary_id, actor, reason: None }
    }
}

impl DocumentBefore {
    /// Withdraws the document. Its name may name a person, so only the extension stays.
    fn withdrawn(&self, key: &ObjectKey, is_erased: bool) -> WithdrawnDocument {
        let (kind, position, key) = (self.kind, self.position, key.clone());
        let name = crate::document::withdrawn_name(&self.name);
        WithdrawnDocument { kind, position, key, name, is_erased }
    }
}

impl NewEvent {
    /// Returns an event that tells of a change.
    fn telling(event: EventType, change: EventChange) -> Self {
        Self { event, change: Some(change), content: None }
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, macros::datetime};

    use super::*;
    use crate::test_support::{document, stored_order};

    /// The instant of the last change of [`before`].
    pub(super) const SEEN: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
    /// The instant of the changes.
    pub(super) const NOW: OffsetDateTime = datetime!(2026-11-21 13:00 UTC);

    /// Returns an order with two documents to sign, `a` and `b`, and the signed one `c`.
    pub(super) fn before() -> OrderBefore {
        let documents = vec![document("a", SEEN), document("b", SEEN)];
        let signed_documents = vec![document("c", SEEN)];
        OrderBefore::of(&StoredOrder { documents, signed_documents, ..stored_order(SEEN) })
    }

    /// Returns an order with a status.
    pub(super) fn with_status(status: &OrderStatus) -> OrderBefore {
        OrderBefore { status: status.clone(), ..before() }
    }

    /// Returns an order that is on hold at [`NOW`].
    pub(super) fn held() -> OrderBefore {
        OrderBefore { held_until: Some(NOW + Duration::MICROSECOND), ..before() }
    }

    /// Returns a command of each kind that changes [`before`].
    fn commands() -> Vec<OrderCommand> {
        let mut order = stored_order(SEEN).order;
        order.signing.lender = Some("A bank".to_owned());
        let new = |kind, replaces| {
            OrderCommand::AddDocuments(NewDocuments {
                kind,
                replaces,
                documents: vec![document("d", NOW)],
            })
        };
        vec![
            OrderCommand::Amend(Amendment { expected: None, order }),
            new(DocumentKind::ToSign, None),
            new(DocumentKind::ToSign, Some(0)),
            new(DocumentKind::Signed, None),
            OrderCommand::Withdraw { kind: DocumentKind::Signed, position: 0 },
            OrderCommand::AddNote(NewNote { author: Actor::Client, text: "a".to_owned() }),
            OrderCommand::EraseDocuments,
        ]
    }

    #[test]
    fn erased_order_does_not_change() {
        let erased = OrderBefore { is_erased: true, ..before() };
        for command in commands().into_iter().chain([OrderCommand::Hold { until: Some(NOW) }]) {
            assert_eq!(command.decide(&erased, NOW), Err(Refusal::Erased), "{command:?}");
        }
    }

    /// Whatever the clock of the instance.
    #[test]
    fn instants_of_one_order_increase() {
        let next = SEEN + Duration::MICROSECOND;
        for command in commands() {
            for (now, at) in [(NOW, NOW), (SEEN, next), (SEEN - Duration::DAY, next)] {
                let effects = command.decide(&before(), now).unwrap().unwrap();
                assert_eq!(effects.at, Some(at), "{command:?}");
                assert!(effects.entry.is_none_or(|entry| entry.at == at));
                assert!(effects.note.is_none_or(|note| note.at == at));
            }
        }
    }

    /// An addition to sign has no entry: the list of documents shows it.
    #[test]
    fn change_has_one_event_a_kind_and_its_entry_keeps_status_and_notary() {
        let assigned =
            OrderBefore { status: OrderStatus::ASSIGNED, notary_id: Some(7), ..before() };
        for command in commands() {
            let effects = command.decide(&assigned, NOW).unwrap().unwrap();
            let events = if command == OrderCommand::EraseDocuments { 2 } else { 1 };
            assert_eq!(effects.events.len(), events, "{command:?}");
            let Some(entry) = effects.entry else { continue };
            assert_eq!((entry.status, entry.notary_id), (OrderStatus::ASSIGNED, Some(7)));
            assert_eq!(entry.reason, None);
        }
    }
}
