//! Adding and replacing documents.

use time::OffsetDateTime;

use super::{
    before::{DocumentBefore, OrderBefore},
    effects::{AddedDocument, AddedRange, NewEvent, OrderEffects},
    refusal::Refusal,
};
use crate::{
    document::{DocumentKind, MAX_DOCUMENTS_PER_ORDER, StoredDocument},
    order::{
        event::{EventChange, EventType, MailContent},
        stored::{Actor, ChangeKind, OrderChange, OrderStatus},
    },
    precondition::OrderPrecondition,
};

/// Documents to add to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocuments {
    /// Their kind.
    pub kind: DocumentKind,
    /// The position of the document that they replace.
    pub replaces: Option<u32>,
    /// The documents. They are in the blob store, and the upload ledger has their keys.
    pub documents: Vec<StoredDocument>,
    /// The versions of the order that may get them.
    pub precondition: OrderPrecondition,
}

impl OrderBefore {
    /// Returns the positions that new documents of a kind get: those after the documents that the order
    /// has. `replaces` is the position of the document that they replace.
    ///
    /// # Errors
    /// A cancelled order takes no documents, no order takes more than [`MAX_DOCUMENTS_PER_ORDER`] of a
    /// kind, and only a current document is replaced.
    pub fn takes_documents(
        &self,
        kind: DocumentKind,
        count: usize,
        replaces: Option<u32>,
    ) -> Result<AddedRange, Refusal> {
        if OrderStatus::FINAL.contains(&self.status) {
            return Err(Refusal::Cancelled);
        }
        let stored = self.documents_of(kind).count();
        if stored.saturating_add(count) > MAX_DOCUMENTS_PER_ORDER {
            return Err(Refusal::TooMany { stored });
        }
        if replaces.is_some_and(|position| !self.may_be_replaced(kind, position)) {
            return Err(Refusal::NotReplaceable);
        }
        let kept = self.documents_of(kind).filter(|document| document.key.is_some()).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let total = number(kept.saturating_add(count));
        Ok(AddedRange { first_position: number(stored), count: number(count), total })
    }

    /// Returns whether a position has a document that is neither replaced nor withdrawn.
    pub fn may_be_replaced(&self, kind: DocumentKind, position: u32) -> bool {
        let is_current = |it: &DocumentBefore| it.key.is_some() && it.replaced_by.is_none();
        self.document(kind, position).is_some_and(is_current)
    }

    /// Returns the entry and the event of a change of documents of a kind.
    pub(super) fn of_documents(
        &self,
        event: EventType,
        kind: DocumentKind,
        entry: ChangeKind,
        at: OffsetDateTime,
    ) -> (OrderChange, NewEvent) {
        let (actor, documents) = (Actor::uploading(kind), entry.documents().unwrap_or_default());
        let told = EventChange::Documents { documents: documents.to_vec(), actor };
        (self.entry(entry, actor, at), NewEvent::telling(event, told))
    }
}

impl NewDocuments {
    /// Adds the documents. The list of documents shows an addition of documents to sign, so the history
    /// has no entry of it.
    pub(super) fn decide(
        &self,
        before: &OrderBefore,
        now: OffsetDateTime,
    ) -> Result<OrderEffects, Refusal> {
        let Self { kind, replaces, documents, precondition } = self;
        before.check(precondition)?;
        let range = before.takes_documents(*kind, documents.len(), *replaces)?;
        let at = before.changed_at(now);
        let positions = range.first_position..range.first_position.saturating_add(range.count);
        let recorded = |event, entry: fn(Vec<u32>) -> ChangeKind| {
            let entry = entry(positions.clone().collect());
            let (entry, event) = before.of_documents(event, *kind, entry, at);
            (Some(entry), event)
        };
        let (entry, event) = match (kind, replaces) {
            (DocumentKind::ToSign, None) => {
                let (event, positions) = (EventType::DocumentsAdded, positions.clone().collect());
                let content = Some(MailContent::Documents(positions));
                (None, NewEvent { event, change: None, content })
            }
            (DocumentKind::ToSign, Some(_)) => {
                recorded(EventType::DocumentsReplaced, ChangeKind::DocumentsReplaced)
            }
            (DocumentKind::Signed, _) => {
                recorded(EventType::SignedDocumentsAdded, ChangeKind::SignedDocumentsAdded)
            }
        };
        let added = positions.clone().zip(documents).map(|(position, document)| AddedDocument {
            kind: *kind,
            position,
            document: document.clone(),
        });
        Ok(OrderEffects {
            at: Some(at),
            added: added.collect(),
            replaced: *replaces,
            range: Some(range),
            entry,
            events: vec![event],
            ..OrderEffects::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        order::change::before::tests::{NOW, before, held, with_status},
        test_support::document,
    };

    fn new(kind: DocumentKind, replaces: Option<u32>, count: usize) -> NewDocuments {
        let documents = (0..count).map(|number| document(&format!("new {number}"), NOW)).collect();
        NewDocuments { kind, replaces, documents, precondition: OrderPrecondition::NONE }
    }

    fn added(new: &NewDocuments, before: &OrderBefore) -> OrderEffects {
        new.decide(before, NOW).unwrap()
    }

    fn positions(effects: &OrderEffects) -> Vec<u32> {
        effects.added.iter().map(|added| added.position).collect()
    }

    #[test]
    fn new_documents_follow_those_of_their_kind() {
        for (kind, first_position, total) in
            [(DocumentKind::ToSign, 2, 4), (DocumentKind::Signed, 1, 3)]
        {
            let new = new(kind, None, 2);
            let effects = added(&new, &before());
            assert_eq!(effects.range, Some(AddedRange { first_position, count: 2, total }));
            assert_eq!(positions(&effects), [first_position, first_position + 1]);
            let documents: Vec<_> = effects.added.iter().map(|it| it.document.clone()).collect();
            assert_eq!(documents, new.documents);
            assert!(effects.added.iter().all(|it| it.kind == kind));
        }
    }

    /// Its position stays taken, and the total leaves it out.
    #[test]
    fn withdrawn_document_keeps_its_position() {
        let mut before = before();
        before.documents[1].key = None;
        let range = added(&new(DocumentKind::ToSign, None, 1), &before).range;
        assert_eq!(range, Some(AddedRange { first_position: 2, count: 1, total: 2 }));
    }

    #[test]
    fn addition_to_sign_has_an_event_and_no_entry() {
        let effects = added(&new(DocumentKind::ToSign, None, 1), &before());
        assert_eq!((effects.entry, effects.replaced), (None, None));
        let (event, content) = (EventType::DocumentsAdded, MailContent::Documents(vec![2]));
        assert_eq!(effects.events, [NewEvent { event, change: None, content: Some(content) }]);
    }

    #[test]
    fn signed_documents_and_a_replacement_have_an_entry_of_their_side() {
        for (new, event, entry, actor) in [
            (
                new(DocumentKind::Signed, None, 2),
                EventType::SignedDocumentsAdded,
                ChangeKind::SignedDocumentsAdded(vec![1, 2]),
                Actor::Service,
            ),
            (
                new(DocumentKind::ToSign, Some(1), 1),
                EventType::DocumentsReplaced,
                ChangeKind::DocumentsReplaced(vec![2]),
                Actor::Client,
            ),
        ] {
            let effects = added(&new, &before());
            let documents = entry.documents().unwrap().to_vec();
            let stored = effects.entry.unwrap();
            assert_eq!((stored.kind, stored.actor), (entry, actor));
            let told = EventChange::Documents { documents, actor };
            assert_eq!(effects.events, [NewEvent::telling(event, told)]);
            assert_eq!(effects.replaced, new.replaces);
        }
    }

    #[test]
    fn only_a_current_document_is_replaced() {
        let mut before = before();
        before.documents.push(DocumentBefore { position: 2, ..before.documents[0].clone() });
        before.documents[0].key = None;
        before.documents[1].replaced_by = Some(2);
        let replaced = [0, 1, 2, 3, u32::MAX].map(|position| {
            new(DocumentKind::ToSign, Some(position), 1).decide(&before, NOW).is_ok()
        });
        assert_eq!(replaced, [false, false, true, false, false]);
        let refused = new(DocumentKind::ToSign, Some(0), 1).decide(&before, NOW);
        assert_eq!(refused, Err(Refusal::NotReplaceable));
    }

    /// Those of the other kind do not count.
    #[test]
    fn order_takes_no_more_than_the_greatest_number_of_documents_of_a_kind() {
        let stored = MAX_DOCUMENTS_PER_ORDER - 2;
        let first = before().documents[0].clone();
        let documents = (0..u32::try_from(stored).unwrap())
            .map(|position| DocumentBefore { position, ..first.clone() });
        let full = OrderBefore { documents: documents.collect(), ..before() };
        let add = |kind, count| new(kind, None, count).decide(&full, NOW).map(drop);
        assert_eq!(add(DocumentKind::ToSign, 2), Ok(()));
        assert_eq!(add(DocumentKind::ToSign, 3), Err(Refusal::TooMany { stored }));
        assert_eq!(add(DocumentKind::Signed, MAX_DOCUMENTS_PER_ORDER), Ok(()));
    }

    /// A held order does: only removing documents is barred.
    #[test]
    fn cancelled_order_takes_no_documents() {
        for kind in [DocumentKind::ToSign, DocumentKind::Signed] {
            for status in OrderStatus::USUAL {
                let outcome = new(kind, None, 1).decide(&with_status(&status), NOW).map(drop);
                let is_cancelled = status == OrderStatus::CANCELLED;
                assert_eq!(outcome, if is_cancelled { Err(Refusal::Cancelled) } else { Ok(()) });
            }
            assert!(new(kind, None, 1).decide(&held(), NOW).is_ok());
        }
    }

    #[test]
    fn other_version_takes_no_documents() {
        let precondition = OrderPrecondition::expecting(vec![NOW]);
        let new = NewDocuments { precondition, ..new(DocumentKind::ToSign, None, 1) };
        assert_eq!(new.decide(&before(), NOW), Err(Refusal::Changed));
    }
}
