//! Giving the reason of a signing without signatures later, or another one.

use time::OffsetDateTime;

use super::{
    before::OrderBefore,
    effects::{NewEvent, OrderEffects},
    refusal::Refusal,
};
use crate::{
    order::{
        event::{ChangedOrder, EventChange, EventType, MailContent, NotaryThen},
        stored::{Actor, ChangeKind, OrderChange, OrderStatus},
    },
    precondition::OrderPrecondition,
};

/// Why the documents of an order are not signed, which its status says already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReason {
    /// The side that says it.
    pub actor: Actor,
    /// The reason.
    pub reason: String,
    /// The versions of the order that may get it.
    pub precondition: OrderPrecondition,
}

impl NewReason {
    /// Adds an entry to the history. Changes nothing if the order has the reason, or another status meanwhile.
    pub(super) fn decide(
        &self,
        before: &OrderBefore,
        now: OffsetDateTime,
    ) -> Result<Option<OrderEffects>, Refusal> {
        before.check(&self.precondition)?;
        let is_known = before.reason.as_ref() == Some(&self.reason);
        if before.status != OrderStatus::DID_NOT_SIGN || is_known {
            return Ok(None);
        }
        let at = before.changed_at(now);
        let status = before.status.as_str().to_owned();
        let change = EventChange::Order(ChangedOrder {
            order_status: status.clone(),
            previous_status: status,
            notary_id: before.notary_id,
            actor: self.actor,
            notary_changed: Some(false),
        });
        // As the database stores it with a change of status.
        let notary = NotaryThen { notary_id: before.notary_id, notary: before.notary.clone() };
        let event = NewEvent::telling(EventType::OrderUpdated, change);
        let entry = before.entry(ChangeKind::Status, self.actor, at);
        Ok(Some(OrderEffects {
            at: Some(at),
            entry: Some(OrderChange { reason: Some(self.reason.clone()), ..entry }),
            events: vec![NewEvent { content: Some(MailContent::Notary(notary)), ..event }],
            ..OrderEffects::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        delivery::MailSubject,
        order::change::before::tests::{NOW, with_status},
    };

    fn new_reason(reason: &str) -> NewReason {
        let precondition = OrderPrecondition::NONE;
        NewReason { actor: Actor::Service, reason: reason.to_owned(), precondition }
    }

    fn not_signed(reason: Option<&str>) -> OrderBefore {
        let reason = reason.map(str::to_owned);
        OrderBefore { reason, notary_id: Some(7), ..with_status(&OrderStatus::DID_NOT_SIGN) }
    }

    #[test]
    fn new_reason_has_an_entry_and_a_mail() {
        for before in [not_signed(None), not_signed(Some("ill"))] {
            let effects = new_reason("late").decide(&before, NOW).unwrap().unwrap();
            let entry = effects.entry.unwrap();
            assert_eq!((entry.kind, entry.status), (ChangeKind::Status, before.status.clone()));
            assert_eq!((entry.reason.as_deref(), entry.at), (Some("late"), NOW));
            let [event] = &effects.events[..] else { panic!() };
            let subject = MailSubject::of(event.event, event.change.as_ref());
            assert_eq!(subject, Some(MailSubject::NotSigned));
        }
    }

    #[test]
    fn known_reason_and_other_status_change_nothing() {
        let signed = with_status(&OrderStatus::SIGNED);
        for before in [not_signed(Some("late")), signed] {
            assert_eq!(new_reason("late").decide(&before, NOW), Ok(None));
        }
    }

    #[test]
    fn other_version_gets_no_reason() {
        let precondition = OrderPrecondition::expecting(vec![NOW]);
        let new = NewReason { precondition, ..new_reason("late") };
        assert_eq!(new.decide(&not_signed(None), NOW), Err(Refusal::Changed));
    }
}
