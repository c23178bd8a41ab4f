//! Replacing the client's data of an order.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::{
    before::OrderBefore,
    effects::{AddedRange, FollowingStatus, NewEvent, OrderEffects},
    refusal::Refusal,
};
use crate::{
    order::{
        EmailAddress, Order,
        event::{EventChange, EventType, MailContent},
        record::OrderColumns,
        stored::{Actor, ChangeKind, OrderChange, OrderStatus, after},
    },
    precondition::OrderPrecondition,
};

/// Maximum number of addresses of the client's side that know an order: its contacts, and those that have
/// had mails of it. Each of them gets a mail if the order is cancelled.
pub const MAX_TOLD: usize = 200;

/// An order as its client wants it to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amendment {
    /// The versions of the order that may be changed.
    pub precondition: OrderPrecondition,
    /// The order as it is to be. Its file number and its signing service are those that it has.
    pub order: Box<Order>,
    /// Whether an order that takes no changes any more is refused also if nothing would change: the request is
    /// to create another one then.
    pub only_open: bool,
}

impl Amendment {
    /// Returns what is stored in place of the order; `None` if every field is so already. The trace stays
    /// that of the creation.
    pub(super) fn decide(
        &self,
        before: &OrderBefore,
        now: OffsetDateTime,
    ) -> Result<Option<OrderEffects>, Refusal> {
        let Some(found) = &before.order else { return Err(Refusal::NoSuchOrder) };
        if self.only_open {
            before.status.permits_amendment()?;
        }
        before.check(&self.precondition)?;
        let changed = found.fields_changed_by(&self.order);
        if changed.is_empty() {
            return Ok(None);
        }
        before.status.permits_amendment()?;
        let contacts = self.order.contacts.recipients();
        let known: BTreeSet<_> =
            before.told.iter().chain(&contacts).map(EmailAddress::as_str).collect();
        let is_new = |contact: &EmailAddress| !before.told.contains(contact);
        if known.len() > MAX_TOLD && contacts.iter().any(is_new) {
            return Err(Refusal::TooManyAddresses);
        }
        let at = before.changed_at(now);
        // No order of this version fails to become a record.
        let previous = OrderColumns::of(found).ok().map(MailContent::Previous);
        let told = EventChange::Fields { changed: changed.clone() };
        let old_values = Some(found.old_values(&changed));
        let entry = before.entry(ChangeKind::Changed(changed), Actor::Client, at);
        let following = status_after(&before.status, found, &self.order);
        let order = Order { trace: found.trace.clone(), ..(*self.order).clone() };
        Ok(Some(OrderEffects {
            at: Some(at),
            moves_appointment: found.is_moved_by(&self.order),
            order: Some(Box::new(order)),
            range: Some(AddedRange::NOTHING),
            entry: Some(OrderChange { before: old_values, ..entry }),
            events: vec![NewEvent {
                content: previous,
                ..NewEvent::telling(EventType::OrderChanged, told)
            }],
            status: following.map(|status| {
                // Instants of one order increase.
                FollowingStatus { status, actor: Actor::Client, at: after(at, at), by: None }
            }),
            ..OrderEffects::default()
        }))
    }
}

/// Returns the status that follows from an amendment of an order in a status; `None` if it stays. A confirmation
/// belongs to its appointment: when or where changes, so the signing service must confirm again.
fn status_after(status: &OrderStatus, found: &Order, amended: &Order) -> Option<OrderStatus> {
    (*status == OrderStatus::CONFIRMED && found.is_moved_by(amended))
        .then_some(OrderStatus::ASSIGNED)
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;
    use crate::{
        appointment::{AppointmentTime, Zone},
        order::{
            SigningLocation,
            change::before::tests::{NOW, SEEN, before, with_status},
        },
        trace_context::TraceContext,
    };

    fn amendment(lender: Option<&str>, expected: Option<Vec<OffsetDateTime>>) -> Amendment {
        let mut order = before().order.unwrap();
        order.signing.lender = lender.map(str::to_owned);
        let precondition = expected.map_or_else(Default::default, OrderPrecondition::expecting);
        Amendment { precondition, order, only_open: false }
    }

    #[test]
    fn amendment_stores_the_new_order_and_tells_its_fields() {
        let mut before = before();
        let trace =
            TraceContext { traceparent: "00-1".to_owned(), tracestate: Some("a=1".to_owned()) };
        before.order.as_mut().unwrap().trace = Some(trace.clone());
        let new = amendment(Some("A bank"), Some(vec![NOW, SEEN]));
        let effects = new.decide(&before, NOW).unwrap().unwrap();
        let changed = vec!["/signingDetailsFormData/lender".to_owned()];
        let stored = effects.order.unwrap();
        assert_eq!(stored.trace, Some(trace), "the trace stays that of the creation");
        assert_eq!(Order { trace: None, ..*stored }, *new.order);
        let entry = effects.entry.unwrap();
        assert_eq!(entry.kind, ChangeKind::Changed(changed.clone()));
        assert_eq!(entry.actor, Actor::Client);
        assert_eq!(entry.before, Some(before.order.as_ref().unwrap().old_values(&changed)));
        assert!(!effects.moves_appointment);
        let [event] = &effects.events[..] else { panic!() };
        assert_eq!(event.event, EventType::OrderChanged);
        assert_eq!(event.change, Some(EventChange::Fields { changed }));
        let previous = OrderColumns::of(&before.order.unwrap()).unwrap();
        assert_eq!(event.content, Some(MailContent::Previous(previous)));
    }

    /// Returns the status that follows from a change of the order's appointment or location, or of another field.
    fn following(status: &OrderStatus, change: impl Fn(&mut Order)) -> Option<FollowingStatus> {
        let mut new = amendment(None, None);
        change(&mut new.order);
        new.decide(&with_status(status), NOW).unwrap().unwrap().status
    }

    #[test]
    fn confirmed_order_that_is_moved_is_assigned_again() {
        let other_date = |order: &mut Order| order.appointment.date += Duration::DAY;
        let other_zone =
            |order: &mut Order| order.appointment.zone = Zone::named("America/Denver").unwrap();
        let other_type = |order: &mut Order| order.appointment.time = AppointmentTime::Anytime;
        let other_property = |order: &mut Order| order.signing.property.city = "Austin".to_owned();
        let other_place = |order: &mut Order| {
            let place = SigningLocation { city: None, ..order.signing.signing_location() };
            order.signing.location = Some(place);
        };
        let moves: [&dyn Fn(&mut Order); 5] =
            [&other_date, &other_zone, &other_type, &other_property, &other_place];
        for (number, change) in moves.into_iter().enumerate() {
            let following = following(&OrderStatus::CONFIRMED, change).unwrap();
            assert_eq!(following.status, OrderStatus::ASSIGNED, "{number}");
            assert_eq!(following.actor, Actor::Client);
            assert!(following.at > NOW, "instants of one order increase");
        }
    }

    /// Also the property, if the signing is elsewhere.
    #[test]
    fn confirmation_survives_a_change_of_anything_else() {
        let lender = |order: &mut Order| order.signing.lender = Some("A bank".to_owned());
        assert_eq!(following(&OrderStatus::CONFIRMED, lender), None);
        let mut before = with_status(&OrderStatus::CONFIRMED);
        let found = before.order.as_mut().unwrap();
        found.signing.location = Some(found.signing.signing_location());
        let mut order = found.clone();
        order.signing.property.city = "Austin".to_owned();
        let precondition = OrderPrecondition::NONE;
        let new = Amendment { precondition, order, only_open: false };
        assert_eq!(new.decide(&before, NOW).unwrap().unwrap().status, None);
    }

    #[test]
    fn order_that_is_not_confirmed_keeps_its_status() {
        for status in [OrderStatus::NEW, OrderStatus::ASSIGNED] {
            let other_date = |order: &mut Order| order.appointment.date += Duration::DAY;
            assert_eq!(following(&status, other_date), None, "{status:?}");
        }
    }

    #[test]
    fn amendment_of_nothing_changes_nothing_in_any_status() {
        for status in OrderStatus::USUAL {
            let nothing = amendment(None, Some(vec![SEEN]));
            assert_eq!(nothing.decide(&with_status(&status), NOW), Ok(None));
        }
    }

    #[test]
    fn cancelled_order_and_one_that_is_over_are_not_amended() {
        for status in OrderStatus::USUAL {
            let outcome = amendment(Some("A bank"), None).decide(&with_status(&status), NOW);
            let expected = match status.as_str() {
                "CANCELLED" => Err(Refusal::Cancelled),
                "SIGNED" | "DID_NOT_SIGN" | "COMPLETED" => Err(Refusal::Over),
                _ => Ok(true),
            };
            assert_eq!(outcome.map(|effects| effects.is_some()), expected, "{status:?}");
        }
    }

    /// Whatever the version: another order is created then.
    #[test]
    fn amendment_of_an_open_order_alone_is_refused_when_it_is_closed() {
        for status in OrderStatus::USUAL {
            for lender in [None, Some("A bank")] {
                let new = Amendment { only_open: true, ..amendment(lender, None) };
                let outcome = new.decide(&with_status(&status), NOW).map(|it| it.is_some());
                let expected = status.permits_amendment().map(|()| lender.is_some());
                assert_eq!(outcome, expected, "{status:?}");
            }
            let stale = Amendment { only_open: true, ..amendment(None, Some(vec![NOW])) };
            let outcome = stale.decide(&with_status(&status), NOW).map(|it| it.is_some());
            let expected = status.permits_amendment().and(Err(Refusal::Changed));
            assert_eq!(outcome, expected, "{status:?}");
        }
    }

    #[test]
    fn amendment_that_more_than_the_greatest_number_of_addresses_would_know_is_refused() {
        let address = |text: &str| EmailAddress::try_from(text.to_owned()).unwrap();
        let told = |count: usize| (0..count).map(|one| address(&format!("a{one}@example.com")));
        let mut new = amendment(Some("A bank"), None);
        let contact = new.order.contacts.order_contact_email.clone();
        for (before_it, is_told, expected) in [
            (MAX_TOLD - 1, false, Ok(true)),
            (MAX_TOLD, false, Err(Refusal::TooManyAddresses)),
            (MAX_TOLD - 1, true, Ok(true)),
            // Whatever was told once, an amendment that adds no address is none too many.
            (2 * MAX_TOLD, true, Ok(true)),
        ] {
            let told = told(before_it).chain(is_told.then(|| contact.clone())).collect();
            let before = OrderBefore { told, ..before() };
            let outcome = new.decide(&before, NOW).map(|effects| effects.is_some());
            assert_eq!(outcome, expected, "{before_it} {is_told}");
        }
        // Each spelling is remembered, so each counts.
        let spellings = (0..MAX_TOLD).map(|one| address(&format!("A{one}@example.com")));
        let before = OrderBefore { told: spellings.collect(), ..before() };
        new.order.contacts.order_contact_email = address("a0@example.com");
        assert_eq!(new.decide(&before, NOW), Err(Refusal::TooManyAddresses));
    }

    #[test]
    fn version_is_checked_before_anything_else() {
        for expected in [vec![], vec![NOW]] {
            for (lender, status) in [
                (None, OrderStatus::NEW),
                (Some("A bank"), OrderStatus::NEW),
                (Some("A bank"), OrderStatus::CANCELLED),
            ] {
                let outcome =
                    amendment(lender, Some(expected.clone())).decide(&with_status(&status), NOW);
                assert_eq!(outcome, Err(Refusal::Changed));
            }
        }
    }
}
