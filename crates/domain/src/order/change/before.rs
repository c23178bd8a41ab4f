//! An order as a decision finds it.

use time::OffsetDateTime;

use super::{
    effects::{AddedRange, OrderEffects, WithdrawnDocument},
    refusal::Refusal,
};
use crate::{
    document::{DocumentKind, ObjectKey, Sha256Digest},
    order::{
        EmailAddress, Order,
        stored::{Actor, ChangeKind, Notary, OrderChange, OrderStatus, StoredOrder, after},
    },
    precondition::OrderPrecondition,
};

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
    /// The last reason of the status. Only a new reason needs it.
    pub reason: Option<String>,
    /// The instant of creation.
    pub created_at: OffsetDateTime,
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
    /// The addresses of the client's side that have had mails of the order. Only an amendment needs them.
    pub told: Vec<EmailAddress>,
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
    /// SHA-256 of the bytes.
    pub sha256: Sha256Digest,
    /// The instant when the order got it; `None` if it was created with it.
    pub added_at: Option<OffsetDateTime>,
    /// The position of the document that replaced it.
    pub replaced_by: Option<u32>,
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
                sha256: document.sha256,
                added_at: Some(document.created_at),
                replaced_by: document.replaced_by,
            })
        };
        Self {
            is_erased: false,
            status: order.status.clone(),
            notary_id: order.notary_id,
            notary: order.notary.clone(),
            reason: order.reason_of_status().map(str::to_owned),
            created_at: order.created_at,
            updated_at: order.updated_at,
            held_until: order.held_until,
            order: Some(order.order.clone()),
            documents: DocumentKind::ALL.into_iter().flat_map(documents).collect(),
            notes: order.notes.len(),
            told: Vec::new(),
        }
    }

    /// Returns the instant of a change at `now`: instants of one order increase.
    pub(super) fn changed_at(&self, now: OffsetDateTime) -> OffsetDateTime {
        after(self.updated_at, now)
    }

    /// Refuses a change whose precondition is false.
    ///
    /// # Errors
    /// [`Refusal::Changed`]
    pub fn check(&self, precondition: &OrderPrecondition) -> Result<(), Refusal> {
        let is_true = precondition.is_true_of(&self.updated_at, self.updated_at);
        if is_true { Ok(()) } else { Err(Refusal::Changed) }
    }

    /// Returns what is stored under the idempotency key of a request at `now` with these effects: the instant as of
    /// which the order is its answer, and what it added. `version` is that of an amended order. A request without
    /// effects is answered with the version that it has found, however old that is.
    pub fn answer(
        &self,
        effects: Option<&OrderEffects>,
        version: Option<OffsetDateTime>,
        now: OffsetDateTime,
    ) -> (OffsetDateTime, Option<AddedRange>) {
        effects.map_or_else(
            || (self.updated_at, Some(AddedRange::NOTHING)),
            |effects| (version.or(effects.at).unwrap_or(now), effects.range),
        )
    }

    /// Returns the documents of a kind.
    pub(super) fn documents_of(&self, kind: DocumentKind) -> impl Iterator<Item = &DocumentBefore> {
        self.documents.iter().filter(move |document| document.kind == kind)
    }

    /// Returns the document of a kind at a position.
    pub(super) fn document(&self, kind: DocumentKind, position: u32) -> Option<&DocumentBefore> {
        self.documents_of(kind).find(|document| document.position == position)
    }

    /// Returns the entry of the history of a change that leaves status and notary.
    pub(super) fn entry(&self, kind: ChangeKind, actor: Actor, at: OffsetDateTime) -> OrderChange {
        let (status, notary_id) = (self.status.clone(), self.notary_id);
        OrderChange { kind, status, notary_id, actor, ..OrderChange::created(at) }
    }
}

impl DocumentBefore {
    /// Withdraws the document. Its name may name a person, so only the extension stays.
    pub(super) fn withdrawn(&self, key: &ObjectKey, is_erased: bool) -> WithdrawnDocument {
        let (kind, position, key) = (self.kind, self.position, key.clone());
        let name = crate::document::withdrawn_name(&self.name);
        WithdrawnDocument { kind, position, key, name, is_erased }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use time::{Duration, macros::datetime};

    use super::*;
    use crate::test_support::{document, stored_order};

    /// The instant of the last change of [`before`].
    pub(in crate::order::change) const SEEN: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
    /// The instant of the changes.
    pub(in crate::order::change) const NOW: OffsetDateTime = datetime!(2026-11-21 13:00 UTC);

    /// Returns an order with two documents to sign, `a` and `b`, and the signed one `c`.
    pub(in crate::order::change) fn before() -> OrderBefore {
        let documents = vec![document("a", SEEN), document("b", SEEN)];
        let signed_documents = vec![document("c", SEEN)];
        OrderBefore::of(&StoredOrder { documents, signed_documents, ..stored_order(SEEN) })
    }

    /// Returns an order with a status.
    pub(in crate::order::change) fn with_status(status: &OrderStatus) -> OrderBefore {
        OrderBefore { status: status.clone(), ..before() }
    }

    /// Returns an order that is on hold at [`NOW`].
    pub(in crate::order::change) fn held() -> OrderBefore {
        OrderBefore { held_until: Some(NOW + Duration::MICROSECOND), ..before() }
    }
    /// Whatever the clock says.
    #[test]
    fn request_that_changes_nothing_is_answered_as_of_the_last_change() {
        for now in [NOW, SEEN - Duration::HOUR] {
            assert_eq!(before().answer(None, None, now), (SEEN, Some(AddedRange::NOTHING)));
        }
        let changed = OrderEffects { at: Some(NOW), ..OrderEffects::default() };
        let later = NOW + Duration::MICROSECOND;
        for (version, at) in [(None, NOW), (Some(later), later)] {
            assert_eq!(before().answer(Some(&changed), version, SEEN), (at, None));
        }
    }
}
