//! Use case: deliver what follows an order.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, future::join_all};
use time::Duration;

use crate::{
    delivery::{Delivery, DeliveryId, Notification, RetryPolicy},
    order::OrderId,
    ports::{
        Clock, DeliveryQueue, Entropy, Lease, Notifier, NotifyError, OrderRepo, Settlement,
        StoreError, error_chain,
    },
};

/// How the delivery of one follow-up went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The follow-up.
    pub id: DeliveryId,
    /// Its order.
    pub order_id: OrderId,
    /// What became of it.
    pub outcome: DeliveryOutcome,
}

/// What became of a follow-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It is done.
    Delivered,
    /// It failed and is tried again, each time later; the text says why.
    Retried(String),
    /// Nobody's mail was taken, for the reason in the text; it is tried again every few seconds.
    Postponed(String),
    /// It failed for good and waits for an operator; the text says why.
    Failed(String),
    /// It was delivered or failed after its lease had passed to another worker, which has the say
    /// now.
    LeaseLost,
}

/// A delivery of which the queue does not know.
#[derive(Debug, thiserror::Error)]
#[error("the queue does not know what became of a follow-up")]
pub struct Unsettled {
    #[source]
    error: StoreError,
    delivery: DeliveryReport,
    token: i64,
    settlement: Settlement,
}

/// Delivers follow-ups.
#[derive(Clone)]
pub struct RunDeliveries {
    /// Where follow-ups wait.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Where orders are kept.
    pub orders: Arc<dyn OrderRepo>,
    /// Who delivers mails.
    pub notifier: Arc<dyn Notifier>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Randomness for the jitter of retries.
    pub entropy: Arc<dyn Entropy>,
    /// When a failed delivery is tried again, and when it is given up.
    pub retry: RetryPolicy,
}

impl RunDeliveries {
    /// How long a worker has for what it leased: four times what a notifier may take.
    pub const LEASE: Duration = Duration::minutes(2);

    /// Leases up to `limit` due follow-ups, delivers them side by side and settles each. An empty
    /// answer means that nothing is due.
    pub async fn run_once(
        &self,
        limit: usize,
    ) -> Result<Vec<Result<DeliveryReport, Unsettled>>, StoreError> {
        let leases = self.queue.lease(self.clock.now(), Self::LEASE, limit).await?;
        Ok(join_all(leases.into_iter().map(|lease| self.work_on(lease))).await)
    }

    async fn work_on(&self, lease: Lease) -> Result<DeliveryReport, Unsettled> {
        let Lease { delivery, token } = lease;
        let (settlement, outcome) = match self.deliver(&delivery).await {
            Ok(()) => (Settlement::Done, DeliveryOutcome::Delivered),
            Err(failure) => self.after_failure(&delivery, &failure),
        };
        self.settle(
            DeliveryReport { id: delivery.id, order_id: delivery.order_id, outcome },
            token,
            settlement,
        )
        .await
    }

    /// Tries once more what the queue did not take. Until it does, and once the lease has ended,
    /// another worker delivers the same again.
    pub async fn settle_again(&self, unsettled: Unsettled) -> Result<DeliveryReport, Unsettled> {
        let Unsettled { delivery, token, settlement, .. } = unsettled;
        self.settle(delivery, token, settlement).await
    }

    async fn settle(
        &self,
        delivery: DeliveryReport,
        token: i64,
        settlement: Settlement,
    ) -> Result<DeliveryReport, Unsettled> {
        match self.queue.settle(delivery.id, token, &settlement).await {
            Ok(true) => Ok(delivery),
            Ok(false) => Ok(DeliveryReport { outcome: DeliveryOutcome::LeaseLost, ..delivery }),
            Err(error) => Err(Unsettled { error, delivery, token, settlement }),
        }
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<(), NotifyError> {
        let found = self.orders.find(delivery.order_id).await.map_err(|error| match error {
            StoreError::Unavailable(_) => NotifyError::Unavailable(error.into()),
            StoreError::Internal(_) => NotifyError::Transient(error.into()),
        })?;
        let order = found.ok_or_else(|| NotifyError::Permanent("the order is gone".into()))?;
        let notification = Notification {
            message_key: delivery.task.message_key.clone(),
            recipient: delivery.task.recipient.clone(),
            order,
        };
        // One mail that breaks the program that writes it must not stop all the others.
        let notified = AssertUnwindSafe(self.notifier.notify(&notification)).catch_unwind().await;
        notified.unwrap_or_else(|_| Err(NotifyError::Permanent("the notifier panicked".into())))
    }

    fn after_failure(
        &self,
        delivery: &Delivery,
        failure: &NotifyError,
    ) -> (Settlement, DeliveryOutcome) {
        let now = self.clock.now();
        let text = error_chain(failure);
        let again = match failure {
            NotifyError::Unavailable(_) => {
                let due_at =
                    self.retry.next_attempt_in_outage(delivery.created_at, now, &*self.entropy);
                due_at.map(|due_at| {
                    (
                        Settlement::Postpone { due_at, error: text.clone() },
                        DeliveryOutcome::Postponed(text.clone()),
                    )
                })
            }
            NotifyError::Transient(_) => {
                let due_at = self.retry.next_attempt(
                    delivery.created_at,
                    delivery.attempts + 1,
                    now,
                    &*self.entropy,
                );
                due_at.map(|due_at| {
                    (
                        Settlement::RetryAt { due_at, error: text.clone() },
                        DeliveryOutcome::Retried(text.clone()),
                    )
                })
            }
            NotifyError::Permanent(_) => None,
        };
        again.unwrap_or_else(|| {
            (Settlement::Fail { at: now, error: text.clone() }, DeliveryOutcome::Failed(text))
        })
    }
}

#[cfg(test)]
#[path = "run_deliveries_tests.rs"]
mod tests;
