//! Adding a note.

use time::OffsetDateTime;

use super::{
    before::OrderBefore,
    effects::{AddedRange, NewEvent, OrderEffects},
    refusal::Refusal,
};
use crate::{
    order::{
        event::{EventChange, EventType, MailContent},
        stored::{Actor, Note},
    },
    precondition::OrderPrecondition,
};

/// Maximum number of notes of an order.
pub const MAX_NOTES: usize = 1_000;

/// A note to add to an order.
#[derive(Clone, PartialEq, Eq)]
pub struct NewNote {
    /// The side that writes it.
    pub author: Actor,
    /// Its text.
    pub text: String,
    /// The versions of the order that may get it.
    pub precondition: OrderPrecondition,
}

conceal!(NewNote);

impl NewNote {
    /// Adds the note behind those that the order has. A cancelled order takes notes too: both sides may
    /// still have to explain.
    pub(super) fn decide(
        &self,
        before: &OrderBefore,
        now: OffsetDateTime,
    ) -> Result<OrderEffects, Refusal> {
        before.check(&self.precondition)?;
        let position = u32::try_from(before.notes).ok().filter(|_| before.notes < MAX_NOTES);
        let first_position = position.ok_or(Refusal::TooManyNotes)?;
        let Self { author, text, .. } = self.clone();
        let at = before.changed_at(now);
        let event = NewEvent::telling(EventType::NoteAdded, EventChange::Note { author });
        let content = Some(MailContent::Note { author, text: text.clone() });
        Ok(OrderEffects {
            at: Some(at),
            note: Some(Note { at, author, text, by: None }),
            range: Some(AddedRange { first_position, count: 1, total: 0 }),
            events: vec![NewEvent { content, ..event }],
            ..OrderEffects::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{
        change::before::tests::{NOW, before, with_status},
        stored::OrderStatus,
    };

    fn note(author: Actor) -> NewNote {
        let precondition = OrderPrecondition::NONE;
        NewNote { author, text: "Ring twice.".to_owned(), precondition }
    }

    /// Only the mail has the text.
    #[test]
    fn note_has_an_event_with_its_author_and_a_mail_with_its_text() {
        for author in [Actor::Client, Actor::Service, Actor::Operator] {
            let effects = note(author).decide(&before(), NOW).unwrap();
            let text = "Ring twice.".to_owned();
            assert!(effects.note == Some(Note { at: NOW, author, text: text.clone(), by: None }));
            assert_eq!(effects.entry, None);
            let [event] = &effects.events[..] else { panic!() };
            assert_eq!(event.event, EventType::NoteAdded);
            assert_eq!(event.change, Some(EventChange::Note { author }));
            assert_eq!(event.content, Some(MailContent::Note { author, text }));
        }
    }

    #[test]
    fn order_takes_no_more_than_the_greatest_number_of_notes() {
        let add = |notes| {
            let before = OrderBefore { notes, ..before() };
            note(Actor::Client).decide(&before, NOW).map(|effects| effects.range.unwrap())
        };
        for (notes, first_position) in [(0, 0), (MAX_NOTES - 1, 999)] {
            assert_eq!(add(notes), Ok(AddedRange { first_position, count: 1, total: 0 }));
        }
        for notes in [MAX_NOTES, usize::MAX] {
            assert_eq!(add(notes), Err(Refusal::TooManyNotes));
        }
    }

    #[test]
    fn other_version_takes_no_note() {
        let precondition = OrderPrecondition::expecting(vec![NOW]);
        let note = NewNote { precondition, ..note(Actor::Client) };
        assert_eq!(note.decide(&before(), NOW), Err(Refusal::Changed));
    }

    #[test]
    fn order_takes_notes_in_any_status() {
        for status in OrderStatus::USUAL {
            assert!(note(Actor::Client).decide(&with_status(&status), NOW).is_ok(), "{status:?}");
        }
    }
}
