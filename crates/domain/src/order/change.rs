//! The decision on every change of an order.
//!
//! A storage adapter locks the order and loads [`OrderBefore`]. [`OrderCommand::decide`] returns the
//! [`OrderEffects`], which the adapter writes in the same transaction. A change of status or notary is
//! one statement instead: `status` has its rules.

mod amend;
mod before;
mod documents;
mod effects;
mod erasure;
mod hold;
mod note;
mod reason;
mod refusal;
mod status;
mod withdraw;

pub use amend::{Amendment, MAX_TOLD};
pub use before::{DocumentBefore, OrderBefore};
pub use documents::NewDocuments;
pub use effects::{
    AddedDocument, AddedRange, FollowingStatus, NewEvent, OrderEffects, WithdrawnDocument,
};
pub use erasure::{Age, Due, ERASED_ENTRIES, Retained, erasure_event, has_room};
pub use note::{MAX_NOTES, NewNote};
pub use reason::NewReason;
pub use refusal::Refusal;

use time::OffsetDateTime;

use crate::{document::DocumentKind, precondition::DocumentPrecondition};

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
        /// The versions of the document that may be withdrawn.
        precondition: DocumentPrecondition,
    },
    /// Adds a note.
    AddNote(NewNote),
    /// Says why the documents are not signed.
    GiveReason(NewReason),
    /// Puts the order on hold, or ends its hold.
    Hold {
        /// The end of the hold; `None` ends it at once.
        until: Option<OffsetDateTime>,
    },
    /// Withdraws all documents of both sides, because their retention is over.
    EraseDocuments,
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
            Self::Withdraw { kind, position, precondition } => {
                withdraw::decide(*kind, *position, precondition, before, now)
            }
            Self::AddNote(note) => note.decide(before, now).map(Some),
            Self::GiveReason(new) => new.decide(before, now),
            Self::Hold { until } => Ok(Some(hold::decide(*until))),
            Self::EraseDocuments => erasure::decide(before, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::{
        before::tests::{NOW, SEEN, before},
        *,
    };
    use crate::{
        order::stored::{Actor, OrderStatus},
        precondition::OrderPrecondition,
        test_support::{document, stored_order},
    };

    /// Returns a command of each kind that changes [`before`].
    fn commands() -> Vec<OrderCommand> {
        let mut order = stored_order(SEEN).order;
        order.signing.lender = Some("A bank".to_owned());
        let new = |kind, replaces| {
            OrderCommand::AddDocuments(NewDocuments {
                kind,
                replaces,
                documents: vec![document("d", NOW)],
                precondition: OrderPrecondition::NONE,
            })
        };
        vec![
            OrderCommand::Amend(Amendment {
                precondition: OrderPrecondition::NONE,
                order,
                only_open: false,
            }),
            new(DocumentKind::ToSign, None),
            new(DocumentKind::ToSign, Some(0)),
            new(DocumentKind::Signed, None),
            OrderCommand::Withdraw {
                kind: DocumentKind::Signed,
                position: 0,
                precondition: DocumentPrecondition::NONE,
            },
            OrderCommand::AddNote(NewNote {
                author: Actor::Client,
                text: "a".to_owned(),
                precondition: OrderPrecondition::NONE,
            }),
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
