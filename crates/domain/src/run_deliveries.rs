//! Use case: deliver the mails that follow an order.
//!
//! The module `delivery` defines the retry schedule, and `delivery_worker` the pace.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, future::join_all};
use time::Duration;

use crate::{
    delivery::{Delivery, DeliveryId, Notification},
    order::OrderId,
    ports::{
        Clock, DeliveryQueue, Entropy, Lease, Notifier, NotifyError, Settlement, StoreError,
        error_chain,
    },
};

/// Duration of a lease: four times as long as a notifier may take.
const LEASE: Duration = Duration::minutes(2);

/// Default of the greatest number of mails to a recipient in an hour. It stops a stolen API key, and
/// no office creates so many orders.
pub const MAILS_PER_RECIPIENT_HOUR: u32 = 200;

/// The error of a delivery above that number.
pub const OVER_LIMIT: &str = "the recipient has had its mails of this hour";

/// The outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The delivery.
    pub id: DeliveryId,
    /// The order that the mail is about.
    pub order_id: OrderId,
    /// The outcome.
    pub outcome: DeliveryOutcome,
}

/// The outcome of one attempt, and whether it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The queue stored the settlement.
    Settled(Settlement),
    /// The attempt took longer than its lease. Another worker has the delivery.
    LeaseLost,
}

/// An attempt whose settlement the queue did not store.
#[derive(Debug, thiserror::Error)]
#[error("the outcome of delivery {} was not stored", .lease.delivery.id.0)]
pub struct Unsettled {
    #[source]
    error: StoreError,
    lease: Lease,
    settlement: Settlement,
}

/// Delivers mails.
#[derive(Clone)]
pub struct RunDeliveries {
    /// Stores deliveries.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Hands mails over.
    pub notifier: Arc<dyn Notifier>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness for the delays of retries.
    pub entropy: Arc<dyn Entropy>,
    /// Greatest number of mails to a recipient in an hour of the clock; 0 means no limit.
    pub mails_per_recipient_hour: u32,
}

impl RunDeliveries {
    /// Leases up to `limit` due deliveries, attempts them concurrently and settles each. Returns an
    /// empty list if no delivery is due.
    pub async fn run_batch(
        &self,
        limit: usize,
    ) -> Result<Vec<Result<DeliveryReport, Unsettled>>, StoreError> {
        let leases = self.queue.lease(self.clock.now(), LEASE, limit).await?;
        Ok(join_all(leases.into_iter().map(|lease| self.run(lease))).await)
    }

    /// Stores a settlement that the queue did not store. Delivers nothing.
    pub async fn settle_again(&self, unsettled: Unsettled) -> Result<DeliveryReport, Unsettled> {
        self.settle(unsettled.lease, unsettled.settlement).await
    }

    async fn run(&self, lease: Lease) -> Result<DeliveryReport, Unsettled> {
        let settlement = if self.is_over_limit(&lease) {
            Settlement::Fail { at: self.clock.now(), error: OVER_LIMIT.to_owned() }
        } else {
            match self.deliver(&lease.delivery).await {
                Ok(()) => Settlement::Done,
                Err(error) => self.after_failure(&lease.delivery, &error),
            }
        };
        self.settle(lease, settlement).await
    }

    fn is_over_limit(&self, lease: &Lease) -> bool {
        let limit = u64::from(self.mails_per_recipient_hour);
        limit > 0 && lease.mail_of_hour.is_some_and(|mail| mail > limit)
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<(), NotifyError> {
        let found = self.queue.order(delivery.order_id).await.map_err(|error| match error {
            StoreError::Unavailable(_) => NotifyError::Unavailable(error.into()),
            StoreError::Internal(_) => NotifyError::Transient(error.into()),
        })?;
        let order =
            found.ok_or_else(|| NotifyError::Permanent("the order does not exist".into()))?;
        let notification = Notification {
            message_key: delivery.task.message_key.clone(),
            recipient: delivery.task.recipient.clone(),
            order,
        };
        // A panic fails this mail only, not the other mails of the batch.
        let notified = AssertUnwindSafe(self.notifier.notify(&notification)).catch_unwind().await;
        notified.unwrap_or_else(|_| Err(NotifyError::Permanent("the notifier panicked".into())))
    }

    fn after_failure(&self, delivery: &Delivery, failure: &NotifyError) -> Settlement {
        let (now, error) = (self.clock.now(), error_chain(failure));
        let retry = match failure {
            NotifyError::Unavailable(_) => delivery
                .next_attempt_in_outage(now, &*self.entropy)
                .map(|due_at| Settlement::Postpone { due_at, error: error.clone() }),
            NotifyError::Transient(_) => delivery
                .next_attempt(now, &*self.entropy)
                .map(|due_at| Settlement::RetryAt { due_at, error: error.clone() }),
            NotifyError::Permanent(_) => None,
        };
        retry.unwrap_or(Settlement::Fail { at: now, error })
    }

    async fn settle(
        &self,
        lease: Lease,
        settlement: Settlement,
    ) -> Result<DeliveryReport, Unsettled> {
        let Delivery { id, order_id, .. } = lease.delivery;
        match self.queue.settle(id, lease.token, &settlement).await {
            Ok(true) => {
                let outcome = DeliveryOutcome::Settled(settlement);
                Ok(DeliveryReport { id, order_id, outcome })
            }
            Ok(false) => Ok(DeliveryReport { id, order_id, outcome: DeliveryOutcome::LeaseLost }),
            Err(error) => Err(Unsettled { error, lease, settlement }),
        }
    }
}

#[cfg(test)]
#[path = "run_deliveries_tests.rs"]
mod tests;
