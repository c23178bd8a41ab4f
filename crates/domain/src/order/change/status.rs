//! Changing the status or the notary, and cancelling.
//!
//! One statement changes the order, and does nothing if these rules forbid it: it gets its lists of
//! statuses from here. What is decided here afterwards is why it did nothing.

use super::{before::OrderBefore, refusal::Refusal};
use crate::{
    order::{
        change_request::{CancelRequest, ChangeRequest},
        stored::OrderStatus,
    },
    precondition::OrderPrecondition,
};

impl OrderStatus {
    /// The states in which an order does not change any more.
    pub const FINAL: [Self; 1] = [Self::CANCELLED];

    /// The states in which an order cannot be cancelled.
    pub const CLOSED: [Self; 2] = [Self::SIGNED, Self::COMPLETED];

    /// The states in which the client cannot change an order: the appointment is over.
    pub const OVER: [Self; 3] = [Self::SIGNED, Self::DID_NOT_SIGN, Self::COMPLETED];

    /// Refuses a change of the client's data in a state in which the order takes none.
    ///
    /// # Errors
    /// [`Refusal::Cancelled`], [`Refusal::Over`]
    pub fn permits_amendment(&self) -> Result<(), Refusal> {
        if Self::FINAL.contains(self) {
            Err(Refusal::Cancelled)
        } else if Self::OVER.contains(self) {
            Err(Refusal::Over)
        } else {
            Ok(())
        }
    }
}

impl ChangeRequest {
    /// Returns whether the request changes the order. A version that must not be changed is refused, also if
    /// nothing would change.
    ///
    /// # Errors
    /// [`Refusal::Changed`], [`Refusal::Cancelled`], [`Refusal::Closed`]
    pub fn decide(
        &self,
        before: &OrderBefore,
        precondition: &OrderPrecondition,
    ) -> Result<bool, Refusal> {
        before.check(precondition)?;
        let changes = self.status.as_ref().is_some_and(|status| *status != before.status)
            || self.notary_id.is_some_and(|notary_id| notary_id != before.notary_id)
            || self.notary.as_ref().is_some_and(|notary| *notary != before.notary);
        if !changes {
            return Ok(false);
        }
        if OrderStatus::FINAL.contains(&before.status) {
            return Err(Refusal::Cancelled);
        }
        let cancels = self.status == Some(OrderStatus::CANCELLED);
        if cancels && OrderStatus::CLOSED.contains(&before.status) {
            return Err(Refusal::Closed);
        }
        Ok(true)
    }
}

impl CancelRequest {
    /// Returns whether the request cancels the order. Cancelling it again changes nothing, whatever
    /// version the client has seen.
    ///
    /// # Errors
    /// [`Refusal::Changed`], [`Refusal::Closed`]
    pub fn decide(before: &OrderBefore, precondition: &OrderPrecondition) -> Result<bool, Refusal> {
        if before.status == OrderStatus::CANCELLED {
            let may_repeat = precondition.is_true_of_repeat(&before.updated_at);
            return if may_repeat { Ok(false) } else { Err(Refusal::Changed) };
        }
        let status = Some(OrderStatus::CANCELLED);
        ChangeRequest { status, ..ChangeRequest::default() }.decide(before, precondition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        order::{
            change::before::tests::{NOW, SEEN, before, with_status},
            stored::Notary,
        },
        precondition::Versions,
    };

    fn to(status: OrderStatus) -> ChangeRequest {
        ChangeRequest { status: Some(status), ..ChangeRequest::default() }
    }

    fn notary(name: &str) -> Notary {
        Notary { name: name.to_owned(), phone: None, email: None }
    }

    #[test]
    fn cancelled_order_does_not_change() {
        let cancelled = with_status(&OrderStatus::CANCELLED);
        let assigns = ChangeRequest { notary_id: Some(Some(7)), ..to(OrderStatus::CANCELLED) };
        for request in [to(OrderStatus::NEW), assigns] {
            assert_eq!(
                request.decide(&cancelled, &OrderPrecondition::NONE),
                Err(Refusal::Cancelled)
            );
        }
    }

    #[test]
    fn signed_or_completed_order_changes_and_is_not_cancelled() {
        for closed in OrderStatus::CLOSED {
            let before = with_status(&closed);
            assert_eq!(to(OrderStatus::NEW).decide(&before, &OrderPrecondition::NONE), Ok(true));
            assert_eq!(
                to(OrderStatus::CANCELLED).decide(&before, &OrderPrecondition::NONE),
                Err(Refusal::Closed)
            );
            assert_eq!(
                CancelRequest::decide(&before, &OrderPrecondition::NONE),
                Err(Refusal::Closed)
            );
        }
    }

    #[test]
    fn order_in_any_other_status_is_cancelled() {
        for status in OrderStatus::USUAL {
            if !OrderStatus::CLOSED.contains(&status) && !OrderStatus::FINAL.contains(&status) {
                assert_eq!(
                    CancelRequest::decide(&with_status(&status), &OrderPrecondition::NONE),
                    Ok(true)
                );
            }
        }
    }

    #[test]
    fn change_to_what_is_there_changes_nothing_in_any_status() {
        for status in OrderStatus::USUAL {
            let before = OrderBefore {
                notary_id: Some(7),
                notary: Some(notary("Pat")),
                ..with_status(&status)
            };
            let same = ChangeRequest {
                notary_id: Some(Some(7)),
                notary: Some(Some(notary("Pat"))),
                ..to(status)
            };
            for request in [same, ChangeRequest::default()] {
                assert_eq!(
                    request.decide(&before, &OrderPrecondition::expecting(vec![SEEN])),
                    Ok(false)
                );
            }
        }
    }

    #[test]
    fn each_field_changes_an_order() {
        let before = OrderBefore { notary_id: Some(7), notary: Some(notary("Pat")), ..before() };
        for request in [
            to(OrderStatus::ASSIGNED),
            ChangeRequest { notary_id: Some(None), ..ChangeRequest::default() },
            ChangeRequest { notary: Some(Some(notary("Kim"))), ..ChangeRequest::default() },
            ChangeRequest { notary: Some(None), ..ChangeRequest::default() },
        ] {
            assert_eq!(request.decide(&before, &OrderPrecondition::NONE), Ok(true));
        }
    }

    #[test]
    fn unexpected_version_is_refused_before_anything_else() {
        for before in [before(), with_status(&OrderStatus::SIGNED)] {
            for expected in [vec![], vec![NOW]].map(OrderPrecondition::expecting) {
                let outcomes = [
                    ChangeRequest::default().decide(&before, &expected),
                    to(OrderStatus::CANCELLED).decide(&before, &expected),
                    CancelRequest::decide(&before, &expected),
                ];
                assert_eq!(outcomes, [Err(Refusal::Changed); 3]);
            }
        }
    }

    #[test]
    fn cancelling_twice_changes_nothing_whatever_version_was_seen() {
        let cancelled = with_status(&OrderStatus::CANCELLED);
        for expected in [vec![], vec![SEEN]].map(OrderPrecondition::expecting) {
            assert_eq!(CancelRequest::decide(&cancelled, &expected), Ok(false));
        }
        let none = OrderPrecondition { excluded: Versions::Any, ..OrderPrecondition::NONE };
        assert_eq!(CancelRequest::decide(&cancelled, &none), Err(Refusal::Changed));
    }
}
