//! Use case: change an order, its status or its notary, or cancel it.

use std::sync::Arc;

use time::OffsetDateTime;

use crate::{
    api_key::{ApiKey, Owner, Party},
    order::{
        Actor, Order, OrderId, OrderRequest, OrderStatus, ParsedOrder, SigningServiceId,
        StoredOrder,
        change_request::{CancelRequest, ChangeRequest},
    },
    ports::{Clock, ListedOrder, OrderAmendment, OrderReader, OrderRepo, OrderUpdate},
    request::{Violation, ViolationCode},
    use_cases::order_error::OrderError,
};

/// Changes orders.
#[derive(Clone)]
pub struct ChangeOrder {
    /// Stores orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Reads orders.
    pub reader: Arc<dyn OrderReader>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// The side that asks for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changer {
    /// An owner of the order.
    pub owner: Owner,
    /// The side.
    pub actor: Actor,
    /// The signing service to whose orders a key is limited.
    pub only_service: Option<SigningServiceId>,
}

impl Changer {
    /// Returns the side of a key.
    pub fn of(key: &ApiKey) -> Self {
        let actor = match key.party() {
            Party::Client(_) => Actor::Client,
            Party::Service(_) => Actor::Service,
        };
        Self { owner: key.owner(), actor, only_service: key.key.signing_service }
    }
}

impl ChangeOrder {
    /// Sets the status and the notary of an order, and returns it. A request that changes nothing leaves
    /// no trace. `expected` has the versions that the client has seen, by the instant of the order's last
    /// change; `None` changes any version.
    ///
    /// # Errors
    /// - [`OrderError::Changed`]: the order is no expected version.
    /// - [`OrderError::Cancelled`]: a cancelled order does not change.
    /// - [`OrderError::Closed`]: a signed or completed order cannot be cancelled.
    pub async fn change(
        &self,
        changer: Changer,
        id: OrderId,
        request: &ChangeRequest,
        expected: Option<Vec<OffsetDateTime>>,
    ) -> Result<ListedOrder, OrderError> {
        let ChangeRequest { status, notary_id } = request.clone();
        let update = self.update(changer, id, expected);
        let update = OrderUpdate { status, notary_id, ..update };
        if let Some(changed) = self.store(&update).await? {
            return Ok(changed);
        }
        let found = self.find(changer, id).await?;
        let order = &found.stored;
        if !is_expected(&update, order) {
            return Err(OrderError::Changed);
        }
        let changes_nothing = update.status.as_ref().is_none_or(|status| *status == order.status)
            && update.notary_id.is_none_or(|notary_id| notary_id == order.notary_id);
        if changes_nothing { Ok(found) } else { Err(refusal(&update, order)) }
    }

    /// Replaces what the client has said of an order, and returns it with the names of the `utc…` fields
    /// that disagree with the service's own conversion. A request that changes nothing leaves no trace.
    ///
    /// # Errors
    /// - [`OrderError::Rejected`]: all violations, also another file number or signing service.
    /// - [`OrderError::Changed`]: the order is no expected version.
    /// - [`OrderError::Cancelled`]: a cancelled order does not change.
    /// - [`OrderError::Over`]: after the appointment, the client does not change the order.
    pub async fn amend(
        &self,
        changer: Changer,
        id: OrderId,
        request: OrderRequest,
        expected: Option<Vec<OffsetDateTime>>,
    ) -> Result<(ListedOrder, Vec<&'static str>), OrderError> {
        let found = self.find(changer, id).await?;
        let immutable = immutable(&request, &found.stored.order);
        let ParsedOrder { order, utc_disagreements } = match request.parse() {
            Ok(parsed) if immutable.is_empty() => parsed,
            parsed => {
                let mut violations = parsed.err().unwrap_or_default();
                for violation in immutable {
                    // One that breaks its rule has its violation.
                    if violations.iter().all(|other| other.pointer != violation.pointer) {
                        violations.push(violation);
                    }
                }
                return Err(OrderError::rejected(violations));
            }
        };
        let (owner, at) = (changer.owner, self.clock.now());
        let amendment = OrderAmendment { owner, id, expected, order, at };
        Ok((self.orders.amend(&amendment).await?, utc_disagreements))
    }

    /// Cancels an order, and returns it. Cancelling it again changes nothing, whatever the client has
    /// seen.
    ///
    /// # Errors
    /// - [`OrderError::Changed`]: the order is no expected version.
    /// - [`OrderError::Closed`]: a signed or completed order cannot be cancelled.
    pub async fn cancel(
        &self,
        changer: Changer,
        id: OrderId,
        request: &CancelRequest,
        expected: Option<Vec<OffsetDateTime>>,
    ) -> Result<ListedOrder, OrderError> {
        let (status, reason) = (Some(OrderStatus::CANCELLED), request.reason.clone());
        let update = self.update(changer, id, expected);
        let update = OrderUpdate { status, reason, ..update };
        if let Some(cancelled) = self.store(&update).await? {
            return Ok(cancelled);
        }
        let found = self.find(changer, id).await?;
        let order = &found.stored;
        if order.status == OrderStatus::CANCELLED {
            return Ok(found);
        }
        if is_expected(&update, order) {
            Err(refusal(&update, order))
        } else {
            Err(OrderError::Changed)
        }
    }

    /// Returns a change of nothing.
    fn update(
        &self,
        Changer { owner, actor, only_service }: Changer,
        id: OrderId,
        expected: Option<Vec<OffsetDateTime>>,
    ) -> OrderUpdate {
        let at = self.clock.now();
        let (status, notary_id, reason) = (None, None, None);
        OrderUpdate { owner, only_service, id, expected, status, notary_id, at, actor, reason }
    }

    /// Returns the changed order; `None` if nothing was changed.
    async fn store(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, OrderError> {
        if update.status.is_none() && update.notary_id.is_none() {
            return Ok(None);
        }
        Ok(self.orders.update(update).await?)
    }

    async fn find(&self, changer: Changer, id: OrderId) -> Result<ListedOrder, OrderError> {
        let found = OrderError::unless_erased(self.reader.listed(changer.owner, id).await?)?;
        let service = found.stored.order.signing_service_id;
        if changer.only_service.is_some_and(|only| only != service) {
            return Err(OrderError::Forbidden);
        }
        Ok(found)
    }
}

/// Returns the fields of a request that must be those of the order, and are not.
fn immutable(request: &OrderRequest, order: &Order) -> Vec<Violation> {
    let is_other_number =
        request.file_number().is_some_and(|number| number != order.file_number.as_str());
    let is_other_service =
        request.signing_service_id().is_some_and(|id| id != order.signing_service_id.0);
    [
        (is_other_number, "/signingDetailsFormData/fileNumber"),
        (is_other_service, "/signingServiceId"),
    ]
    .into_iter()
    .filter(|(is_other, _)| *is_other)
    .map(|(_, pointer)| Violation {
        pointer: pointer.into(),
        code: ViolationCode::Immutable,
        detail: "must be that of the order".into(),
    })
    .collect()
}

fn is_expected(update: &OrderUpdate, order: &StoredOrder) -> bool {
    update.expected.as_ref().is_none_or(|versions| versions.contains(&order.updated_at))
}

/// Returns why an order was not changed. If there is no reason any more, another request has changed the
/// order meanwhile.
fn refusal(update: &OrderUpdate, order: &StoredOrder) -> OrderError {
    let cancels = update.status.as_ref() == Some(&OrderStatus::CANCELLED);
    if order.status == OrderStatus::CANCELLED {
        OrderError::Cancelled
    } else if cancels && OrderStatus::CLOSED.contains(&order.status) {
        OrderError::Closed
    } else {
        OrderError::contended()
    }
}

#[cfg(test)]
#[path = "change_order_tests.rs"]
mod tests;
