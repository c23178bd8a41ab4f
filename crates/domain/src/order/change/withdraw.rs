//! Withdrawing a document.

use time::OffsetDateTime;

use super::{before::OrderBefore, effects::OrderEffects, refusal::Refusal};
use crate::{
    document::DocumentKind,
    order::{event::EventType, stored::ChangeKind},
    precondition::DocumentPrecondition,
};

/// Withdraws a document. Its position and its record stay. Withdrawing it again changes nothing. A
/// cancelled order permits it too.
pub(super) fn decide(
    kind: DocumentKind,
    position: u32,
    precondition: &DocumentPrecondition,
    before: &OrderBefore,
    now: OffsetDateTime,
) -> Result<Option<OrderEffects>, Refusal> {
    let document = before.document(kind, position).ok_or(Refusal::NoSuchOrder)?;
    // A withdrawn document has no version to compare.
    let Some(key) = &document.key else { return Ok(None) };
    let added_at = document.added_at.unwrap_or(before.created_at);
    if !precondition.is_true_of(&document.sha256, added_at) {
        return Err(Refusal::Changed);
    }
    if before.is_held(now) {
        return Err(Refusal::Held);
    }
    let at = before.changed_at(now);
    let entry = ChangeKind::Withdrawn(vec![position]);
    let (entry, event) = before.of_documents(EventType::DocumentWithdrawn, kind, entry, at);
    Ok(Some(OrderEffects {
        at: Some(at),
        withdrawn: vec![document.withdrawn(key, false)],
        entry: Some(entry),
        events: vec![event],
        ..OrderEffects::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        document::{ObjectKey, Sha256Digest},
        order::{
            change::{
                NewEvent, WithdrawnDocument,
                before::tests::{NOW, before, held, with_status},
            },
            event::EventChange,
            stored::{Actor, OrderStatus},
        },
        precondition::{Precondition, Versions},
    };

    fn withdraw(
        kind: DocumentKind,
        position: u32,
        before: &OrderBefore,
        now: OffsetDateTime,
    ) -> Result<Option<OrderEffects>, Refusal> {
        decide(kind, position, &DocumentPrecondition::NONE, before, now)
    }

    /// The bytes of a withdrawn document are gone.
    #[test]
    fn only_the_expected_bytes_are_withdrawn() {
        let own = before().documents[0].sha256;
        let any = Versions::Any;
        for (precondition, is_withdrawn) in [
            (Precondition::expecting(vec![own]), true),
            (Precondition::expecting(vec![Sha256Digest([1; 32])]), false),
            (Precondition::expecting(vec![]), false),
            (Precondition { excluded: any, ..Precondition::NONE }, false),
        ] {
            let outcome = decide(DocumentKind::ToSign, 0, &precondition, &before(), NOW);
            let expected = if is_withdrawn { Ok(true) } else { Err(Refusal::Changed) };
            assert_eq!(outcome.map(|effects| effects.is_some()), expected, "{precondition:?}");
        }
    }

    #[test]
    fn withdrawn_document_loses_its_key_and_its_name() {
        for (kind, position, key, actor) in [
            (DocumentKind::ToSign, 1, "b", Actor::Client),
            (DocumentKind::Signed, 0, "c", Actor::Service),
        ] {
            let effects = withdraw(kind, position, &before(), NOW).unwrap().unwrap();
            let withdrawn = WithdrawnDocument {
                kind,
                position,
                key: ObjectKey::from_stored(key.to_owned()),
                name: "document.pdf".to_owned(),
                is_erased: false,
            };
            assert_eq!(effects.withdrawn, [withdrawn]);
            let entry = effects.entry.unwrap();
            assert_eq!((entry.kind, entry.actor), (ChangeKind::Withdrawn(vec![position]), actor));
            let told = EventChange::Documents { documents: vec![position], actor };
            assert_eq!(effects.events, [NewEvent::telling(EventType::DocumentWithdrawn, told)]);
        }
    }

    /// Also if the order is on hold.
    #[test]
    fn withdrawing_twice_changes_nothing() {
        for mut before in [before(), held()] {
            before.documents[0].key = None;
            assert_eq!(withdraw(DocumentKind::ToSign, 0, &before, NOW), Ok(None));
        }
    }

    #[test]
    fn held_order_keeps_its_documents_until_the_hold_ends() {
        assert_eq!(withdraw(DocumentKind::ToSign, 0, &held(), NOW), Err(Refusal::Held));
        let until = held().held_until.unwrap();
        assert!(withdraw(DocumentKind::ToSign, 0, &held(), until).is_ok());
    }

    #[test]
    fn unknown_document_is_not_withdrawn() {
        for (kind, position) in [(DocumentKind::ToSign, 2), (DocumentKind::Signed, 1)] {
            for before in [before(), held()] {
                assert_eq!(withdraw(kind, position, &before, NOW), Err(Refusal::NoSuchOrder));
            }
        }
    }

    #[test]
    fn document_is_withdrawn_in_any_status() {
        for status in OrderStatus::USUAL {
            let outcome = withdraw(DocumentKind::ToSign, 0, &with_status(&status), NOW);
            assert!(outcome.unwrap().is_some(), "{status:?}");
        }
    }
}
