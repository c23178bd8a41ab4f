//! Use case: attempt to deliver the mails that follow an order.
//!
//! The module `delivery` defines the retry schedule, and `delivery_worker` the pace.

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use time::Duration;

use crate::{
    delivery::{Delivery, DeliveryId, Notification},
    order::{OrderId, StoredOrder},
    ports::{
        Attempted, Clock, DeliveryQueue, Entropy, Lease, Notifier, NotifyError, Settlement,
        StoreError, error_chain,
    },
};

/// Duration of a lease: four times as long as a notifier may take.
pub(crate) const LEASE: Duration = Duration::minutes(2);

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

/// A leased delivery with the order that the mail is about, or the reason why there is none.
pub(crate) struct Ready {
    lease: Lease,
    order: Result<Arc<StoredOrder>, NotifyError>,
}

/// The outcome of an attempt that is not stored yet.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) order_id: OrderId,
    pub(crate) attempted: Attempted,
    pub(crate) mails: Mails,
}

/// What an attempt shows about mails in general.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mails {
    /// The notifier took this mail, or rejected it alone.
    CanBeDelivered,
    /// No mail can be delivered, for this reason.
    CannotBeDelivered(String),
    /// Nothing: the attempt did not get as far as the notifier.
    Unknown,
}

impl Outcome {
    /// Returns the report. `held` are the deliveries whose settlements were stored.
    pub(crate) fn report(self, held: &[DeliveryId]) -> DeliveryReport {
        let Attempted { id, settlement, .. } = self.attempted;
        let outcome = if held.contains(&id) {
            DeliveryOutcome::Settled(settlement)
        } else {
            DeliveryOutcome::LeaseLost
        };
        DeliveryReport { id, order_id: self.order_id, outcome }
    }
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
    /// Leases up to `limit` due deliveries and reads their orders.
    pub(crate) async fn lease(&self, limit: usize) -> Result<Vec<Ready>, StoreError> {
        let leases = self.queue.lease(self.clock.now(), LEASE, limit).await?;
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let mut ids: Vec<OrderId> = leases.iter().map(|lease| lease.delivery.order_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let found = self.queue.orders(&ids).await.map(|orders| {
            let shared = |(id, order): (_, Result<_, _>)| (id, order.map(Arc::new));
            orders.into_iter().map(shared).collect::<HashMap<_, _>>()
        });
        let ready = |lease: Lease| {
            let order = match &found {
                Ok(orders) => match orders.get(&lease.delivery.order_id) {
                    Some(Ok(order)) => Ok(Arc::clone(order)),
                    Some(Err(unreadable)) => {
                        Err(NotifyError::Transient(error_chain(unreadable).into()))
                    }
                    None => Err(NotifyError::Permanent("the order does not exist".into())),
                },
                Err(error) => Err(match error {
                    StoreError::Unavailable(_) => {
                        NotifyError::Unavailable(error_chain(error).into())
                    }
                    StoreError::Internal(_) => NotifyError::Transient(error_chain(error).into()),
                }),
            };
            Ready { lease, order }
        };
        Ok(leases.into_iter().map(ready).collect())
    }

    /// Attempts a delivery.
    pub(crate) async fn attempt(&self, Ready { lease, order }: Ready) -> Outcome {
        let (settlement, mails) = if self.is_over_limit(&lease) {
            let error = OVER_LIMIT.to_owned();
            (Settlement::Fail { at: self.clock.now(), error }, Mails::Unknown)
        } else {
            let (delivered, otherwise) = match order {
                Ok(order) => (self.deliver(&lease.delivery, &order).await, Mails::CanBeDelivered),
                Err(error) => (Err(error), Mails::Unknown),
            };
            match delivered {
                Ok(()) => (Settlement::Done, otherwise),
                Err(error) => {
                    let mails = match &error {
                        NotifyError::Unavailable(_) => {
                            Mails::CannotBeDelivered(error_chain(&error))
                        }
                        NotifyError::Transient(_) | NotifyError::Permanent(_) => otherwise,
                    };
                    (self.after_failure(&lease.delivery, &error), mails)
                }
            }
        };
        let Lease { delivery: Delivery { id, order_id, .. }, token, .. } = lease;
        Outcome { order_id, attempted: Attempted { id, token, settlement }, mails }
    }

    /// Stores outcomes. Returns the deliveries whose leases were held.
    pub(crate) async fn settle(&self, batch: &[Outcome]) -> Result<Vec<DeliveryId>, StoreError> {
        let attempted: Vec<_> = batch.iter().map(|outcome| outcome.attempted.clone()).collect();
        self.queue.settle(&attempted).await
    }

    fn is_over_limit(&self, lease: &Lease) -> bool {
        let limit = u64::from(self.mails_per_recipient_hour);
        limit > 0 && lease.mail_of_hour.is_some_and(|mail| mail > limit)
    }

    async fn deliver(
        &self,
        delivery: &Delivery,
        order: &Arc<StoredOrder>,
    ) -> Result<(), NotifyError> {
        let notification = Notification {
            message_key: delivery.task.message_key.clone(),
            recipient: delivery.task.recipient.clone(),
            order: StoredOrder::clone(order),
        };
        // A panic fails this mail only, not the other mails in progress.
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
}

#[cfg(test)]
#[path = "run_deliveries_tests.rs"]
mod tests;
