//! Erasing an order, or its documents alone, and when a retention is over.

use time::{Date, Duration, OffsetDateTime, UtcOffset};

use super::{
    before::OrderBefore,
    effects::{NewEvent, OrderEffects},
    refusal::Refusal,
};
use crate::{
    document::DocumentKind,
    order::{
        event::{ErasedFrom, EventChange, EventType},
        stored::{Actor, ChangeKind},
    },
};

/// The things that a retention erases: whole orders, or their documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retained {
    /// Orders.
    Orders,
    /// The documents of orders alone.
    Documents,
}

/// Number of entries of histories that one step of a retention erases, beside its first order.
pub const ERASED_ENTRIES: i64 = 10_000;

/// Decides whether a step of a retention erases one more order, with which it has so many entries of histories. Other
/// writes need not wait for several long histories.
pub fn has_room(orders: usize, entries: i64) -> bool {
    orders == 0 || entries <= ERASED_ENTRIES
}

/// The orders or documents that are due: their orders' appointment and last change lie before `before`.
/// An order with no time of day has its appointment until its date is over everywhere. Orders on hold
/// at `now` are never due. The erasure of its documents by the retention is no change of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Whether orders or documents are erased.
    pub what: Retained,
    /// The end of the retention.
    pub before: OffsetDateTime,
    /// The instant of the question, and of the erasure.
    pub now: OffsetDateTime,
}

/// The instants of an order from which a retention counts, besides its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// Its creation.
    pub created_at: OffsetDateTime,
    /// The specific time, or the start of the time range.
    pub starts_at: Option<OffsetDateTime>,
    /// The end of the time range.
    pub ends_at: Option<OffsetDateTime>,
    /// The date of the appointment in its zone.
    pub signing_date: Option<Date>,
    /// The last erasure of its documents by the retention of version 0.1.0, which was a change of the order.
    pub documents_erased_at: Option<OffsetDateTime>,
    /// The last change before that erasure.
    pub last_change_at: Option<OffsetDateTime>,
}

impl Due {
    /// Returns the last date that was over everywhere before the end of the retention.
    pub fn last_date(&self) -> Date {
        // A date ends last in the zone of UTC-12.
        self.before.saturating_sub(Duration::hours(36)).to_offset(UtcOffset::UTC).date()
    }

    /// Returns whether an order is due. Storage adapters find such orders with a query of the same rule.
    pub fn covers(&self, order: &OrderBefore, age: &Age) -> bool {
        let is_before = |instant: OffsetDateTime| instant < self.before;
        let is_erasure = age.documents_erased_at == Some(order.updated_at);
        let last_change = match self.what {
            Retained::Orders if is_erasure => age.last_change_at.unwrap_or(order.updated_at),
            Retained::Orders | Retained::Documents => order.updated_at,
        };
        let appointment_is_over = match (age.ends_at.or(age.starts_at), age.signing_date) {
            (Some(end), _) => is_before(end),
            (None, Some(date)) => date <= self.last_date(),
            (None, None) => true,
        };
        let is_old = is_before(age.created_at) && is_before(last_change) && appointment_is_over;
        is_old && order.may_be_erased(self.now).is_ok()
    }
}

impl OrderBefore {
    /// Refuses the erasure of an order that is erased already or on hold at `now`.
    ///
    /// # Errors
    /// [`Refusal::Erased`], [`Refusal::Held`]
    pub fn may_be_erased(&self, now: OffsetDateTime) -> Result<(), Refusal> {
        if self.is_erased {
            Err(Refusal::Erased)
        } else if self.is_held(now) {
            Err(Refusal::Held)
        } else {
            Ok(())
        }
    }
}

/// Returns the event of an erasure. Storage adapters add it when they have removed all others of the order.
pub fn erasure_event(erased: ErasedFrom) -> NewEvent {
    NewEvent::telling(EventType::OrderErased, EventChange::Erased(erased))
}

/// Withdraws all documents of an order for the operator. One entry tells of both kinds, and one event of
/// each.
pub(super) fn decide(
    before: &OrderBefore,
    now: OffsetDateTime,
) -> Result<Option<OrderEffects>, Refusal> {
    before.may_be_erased(now)?;
    let withdrawn =
        before.documents.iter().filter_map(|it| Some(it.withdrawn(it.key.as_ref()?, true)));
    let withdrawn: Vec<_> = withdrawn.collect();
    if withdrawn.is_empty() {
        return Ok(None);
    }
    let at = before.changed_at(now);
    let events = DocumentKind::ALL.into_iter().filter_map(|kind| {
        let own = withdrawn.iter().filter(|document| document.kind == kind);
        let documents: Vec<u32> = own.map(|document| document.position).collect();
        let is_any = !documents.is_empty();
        let told = EventChange::Documents { documents, actor: Actor::uploading(kind) };
        is_any.then(|| NewEvent::telling(EventType::DocumentWithdrawn, told))
    });
    Ok(Some(OrderEffects {
        at: Some(at),
        keeps_version: true,
        entry: Some(before.entry(ChangeKind::DocumentsErased, Actor::Operator, at)),
        events: events.collect(),
        withdrawn,
        ..OrderEffects::default()
    }))
}

#[cfg(test)]
mod tests {
    use time::macros::{date, datetime};

    use super::*;
    use crate::order::change::before::tests::{NOW, SEEN, before, held};

    const END: OffsetDateTime = datetime!(2026-12-10 12:00 UTC);
    const AGE: Age = Age {
        created_at: SEEN,
        starts_at: None,
        ends_at: None,
        signing_date: None,
        documents_erased_at: None,
        last_change_at: None,
    };

    fn due(what: Retained, before: OffsetDateTime) -> Due {
        Due { what, before, now: NOW }
    }

    /// Asserts that orders and documents are due after `last` alone.
    #[track_caller]
    fn assert_due_after(last: OffsetDateTime, order: &OrderBefore, age: &Age) {
        for what in [Retained::Orders, Retained::Documents] {
            assert!(!due(what, last).covers(order, age));
            assert!(due(what, last + Duration::MICROSECOND).covers(order, age));
        }
    }

    #[test]
    fn order_is_due_after_its_appointment_its_creation_and_its_last_change() {
        let changed = OrderBefore { updated_at: END, ..before() };
        assert_due_after(SEEN, &before(), &AGE);
        assert_due_after(END, &changed, &AGE);
        assert_due_after(END, &before(), &Age { created_at: END, ..AGE });
        assert_due_after(END, &before(), &Age { starts_at: Some(END), ..AGE });
        let range = Age { starts_at: Some(SEEN), ends_at: Some(END), ..AGE };
        let on_a_date = Age { signing_date: Some(date!(2027 - 01 - 01)), ..range };
        assert_due_after(END, &before(), &range);
        assert_due_after(END, &before(), &on_a_date);
    }

    /// It ends last in the zone of UTC-12.
    #[test]
    fn order_without_a_time_of_day_is_due_when_its_date_is_over_everywhere() {
        let age = Age { signing_date: Some(date!(2026 - 12 - 01)), ..AGE };
        let over = datetime!(2026-12-02 12:00 UTC);
        for what in [Retained::Orders, Retained::Documents] {
            assert!(!due(what, over - Duration::MICROSECOND).covers(&before(), &age));
            assert!(due(what, over).covers(&before(), &age));
        }
    }

    #[test]
    fn held_or_erased_order_is_not_due() {
        let erased = OrderBefore { is_erased: true, ..before() };
        for what in [Retained::Orders, Retained::Documents] {
            assert!(!due(what, END).covers(&held(), &AGE));
            assert!(!due(what, END).covers(&erased, &AGE));
            let later = Due { now: held().held_until.unwrap(), ..due(what, END) };
            assert!(later.covers(&held(), &AGE));
        }
    }

    #[test]
    fn erasure_of_documents_does_not_prolong_the_retention_of_the_order() {
        let (before_it, erased) = (SEEN, SEEN + Duration::DAY);
        let order = OrderBefore { updated_at: erased, ..before() };
        let age = Age { documents_erased_at: Some(erased), last_change_at: Some(before_it), ..AGE };
        let just_after = before_it + Duration::MICROSECOND;
        assert!(due(Retained::Orders, just_after).covers(&order, &age));
        assert!(!due(Retained::Documents, just_after).covers(&order, &age));
        // A change after it does.
        let changed = OrderBefore { updated_at: erased + Duration::DAY, ..before() };
        assert_due_after(changed.updated_at, &changed, &age);
    }

    #[test]
    fn held_order_is_not_erased_and_an_erased_one_is_gone() {
        assert_eq!(before().may_be_erased(NOW), Ok(()));
        assert_eq!(held().may_be_erased(NOW), Err(Refusal::Held));
        assert_eq!(held().may_be_erased(held().held_until.unwrap()), Ok(()));
        let erased = OrderBefore { is_erased: true, ..held() };
        assert_eq!(erased.may_be_erased(NOW), Err(Refusal::Erased));
        assert_eq!(decide(&held(), NOW), Err(Refusal::Held));
    }

    #[test]
    fn erasure_of_documents_withdraws_those_that_are_left() {
        let mut before = before();
        before.documents[0].key = None;
        let effects = decide(&before, NOW).unwrap().unwrap();
        let withdrawn: Vec<_> =
            effects.withdrawn.iter().map(|it| (it.kind, it.position, it.is_erased)).collect();
        assert_eq!(withdrawn, [(DocumentKind::ToSign, 1, true), (DocumentKind::Signed, 0, true)]);
        assert_eq!((effects.at, effects.keeps_version), (Some(NOW), true));
        let entry = effects.entry.unwrap();
        assert_eq!((entry.kind, entry.actor), (ChangeKind::DocumentsErased, Actor::Operator));
        let told = |position, actor| {
            let told = EventChange::Documents { documents: vec![position], actor };
            NewEvent::telling(EventType::DocumentWithdrawn, told)
        };
        assert_eq!(effects.events, [told(1, Actor::Client), told(0, Actor::Service)]);
    }

    #[test]
    fn erasure_of_no_documents_changes_nothing() {
        let mut before = before();
        before.documents.iter_mut().for_each(|document| document.key = None);
        assert_eq!(decide(&before, NOW), Ok(None));
    }

    #[test]
    fn step_takes_its_first_order_and_others_up_to_the_bound() {
        assert!(has_room(0, ERASED_ENTRIES + 1));
        assert!(has_room(1, ERASED_ENTRIES));
        assert!(!has_room(1, ERASED_ENTRIES + 1));
    }
}
