//! Use case: change the status or the notary of an order, or cancel it.

use std::sync::Arc;

use crate::{
    api_key::{ApiKey, Owner, Party},
    order::{
        Actor, OrderChange, OrderId, OrderStatus, SigningServiceId, StoredOrder, after,
        change_request::{CancelRequest, ChangeRequest},
    },
    ports::{Clock, OrderReader, OrderRepo, OrderUpdate},
    use_cases::order_error::OrderError,
};

/// Attempts at an order that others change at the same time: each failed one is a change of another
/// request.
const ATTEMPTS: usize = 1_000;

/// The status, the notary and the reason of a change.
type Decision = (OrderStatus, Option<i64>, Option<String>);

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
    /// Sets the status and the notary of an order, and returns it with its history. A request that
    /// changes nothing leaves no trace. `is_expected` decides whether the order is the one that the
    /// client has seen.
    ///
    /// # Errors
    /// - [`OrderError::Changed`]: the order is not as expected.
    /// - [`OrderError::Cancelled`]: a cancelled order does not change.
    /// - [`OrderError::Closed`]: a signed or completed order cannot be cancelled.
    pub async fn change(
        &self,
        changer: Changer,
        id: OrderId,
        request: &ChangeRequest,
        is_expected: impl Fn(&StoredOrder) -> bool,
    ) -> Result<StoredOrder, OrderError> {
        let decide = |order: &StoredOrder| {
            if !is_expected(order) {
                return Err(OrderError::Changed);
            }
            let status = request.status.clone().unwrap_or_else(|| order.status.clone());
            let notary_id = request.notary_id.unwrap_or(order.notary_id);
            if (&status, notary_id) == (&order.status, order.notary_id) {
                return Ok(None);
            }
            if order.status == OrderStatus::CANCELLED {
                return Err(OrderError::Cancelled);
            }
            Ok(Some((status, notary_id, None)))
        };
        self.update(changer, id, decide).await
    }

    /// Cancels an order, and returns it with its history. Cancelling it again changes nothing,
    /// whatever the client has seen.
    ///
    /// # Errors
    /// - [`OrderError::Changed`]: the order is not as expected.
    /// - [`OrderError::Closed`]: a signed or completed order cannot be cancelled.
    pub async fn cancel(
        &self,
        changer: Changer,
        id: OrderId,
        request: &CancelRequest,
        is_expected: impl Fn(&StoredOrder) -> bool,
    ) -> Result<StoredOrder, OrderError> {
        let decide = |order: &StoredOrder| {
            if order.status == OrderStatus::CANCELLED {
                return Ok(None);
            }
            if !is_expected(order) {
                return Err(OrderError::Changed);
            }
            Ok(Some((OrderStatus::CANCELLED, order.notary_id, request.reason.clone())))
        };
        self.update(changer, id, decide).await
    }

    /// Stores the status, the notary and the reason that `decide` gives an order, and returns the
    /// order; unchanged if it gives none. Decides anew while other requests change the order.
    async fn update(
        &self,
        changer: Changer,
        id: OrderId,
        decide: impl Fn(&StoredOrder) -> Result<Option<Decision>, OrderError>,
    ) -> Result<StoredOrder, OrderError> {
        for _ in 0..ATTEMPTS {
            let order = self.find(changer, id).await?;
            let Some((status, notary_id, reason)) = decide(&order)? else { return Ok(order) };
            let is_closed = [OrderStatus::SIGNED, OrderStatus::COMPLETED].contains(&order.status);
            if is_closed && status == OrderStatus::CANCELLED {
                return Err(OrderError::Closed);
            }
            let at = after(order.updated_at, self.clock.now());
            let change = OrderChange { at, status, notary_id, actor: changer.actor, reason };
            if let Some(changed) = self.store(changer, order, change).await? {
                return Ok(changed);
            }
        }
        Err(OrderError::contended())
    }

    async fn find(&self, changer: Changer, id: OrderId) -> Result<StoredOrder, OrderError> {
        let order = OrderError::unless_kept(self.reader.order(changer.owner, id).await?)?;
        if changer.only_service.is_some_and(|service| service != order.order.signing_service_id) {
            return Err(OrderError::Forbidden);
        }
        Ok(order)
    }

    /// Returns the changed order; `None` if another request has changed it since it was read.
    async fn store(
        &self,
        changer: Changer,
        mut order: StoredOrder,
        change: OrderChange,
    ) -> Result<Option<StoredOrder>, OrderError> {
        let (owner, id, seen) = (changer.owner, order.id, order.updated_at);
        let update = OrderUpdate { owner, id, seen, change };
        if !self.orders.update(&update).await? {
            return Ok(None);
        }
        let OrderUpdate { change, .. } = update;
        order.status = change.status.clone();
        order.notary_id = change.notary_id;
        order.updated_at = change.at;
        order.changes.push(change);
        Ok(Some(order))
    }
}

#[cfg(test)]
#[path = "change_order_tests.rs"]
mod tests;
