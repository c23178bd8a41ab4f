//! Use case: attempt to deliver the mails that follow an order.
//!
//! The module `delivery` defines the retry schedule, and `delivery::worker` the pace.

use std::{collections::HashMap, mem, panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use time::{Duration, OffsetDateTime};

use crate::{
    delivery::{
        Delivery, DeliveryId, MailSubject, Notification, Recipient, due_within_limit,
        worker::Deliveries,
    },
    order::{OrderId, OrderStatus},
    ports::{
        Attempted, Clock, DeliveryQueue, Entropy, FoundOrders, Lease, Notifier, NotifyError,
        Settlement, StoreError, error_chain,
    },
};

/// Duration of a lease. Attempts that take longer renew theirs.
pub(crate) const LEASE: Duration = Duration::minutes(2);

/// Age at which a lease is renewed.
const RENEWED_AFTER: Duration = Duration::seconds(30);

/// Default of the greatest number of mails in progress.
pub const DELIVERIES_IN_FLIGHT: usize = 64;

/// Default of the greatest number of mails of a client to a recipient in an hour. It slows a stolen API
/// key down, and no office creates so many orders.
pub const MAILS_PER_RECIPIENT_HOUR: u32 = 200;

/// The error of a delivery above that number, while it waits.
pub const OVER_LIMIT: &str =
    "waits for the next hour: the recipient has had its mails of this hour from this client";

/// The outcome of one delivery step.
#[derive(Debug, PartialEq, Eq)]
pub enum MailReport {
    /// The outcome of an attempt is stored.
    Attempt(DeliveryReport),
    /// The recipient of this delivery has had its mails of the hour. Its further ones wait, and are not
    /// reported.
    LimitReached(DeliveryId, OrderId),
    /// No mail can be delivered from now on, for this reason.
    OutageBegan(String),
    /// Mails can be delivered again.
    OutageEnded,
}

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

/// A leased delivery with its mail, or the reason why there is none.
pub struct Ready {
    lease: Lease,
    /// `None` if the order has changed, and the mail would be wrong.
    mail: Result<Option<Notification>, NotifyError>,
}

/// The outcome of an attempt that is not stored yet.
#[derive(Debug, Clone)]
pub struct Outcome {
    order_id: OrderId,
    attempted: Attempted,
    /// Whether mails can be delivered in general, or why not. `None` if the attempt did not get as
    /// far as the notifier.
    relay: Option<Result<(), String>>,
    /// Whether it is the first delivery of the hour above the limit of its recipient.
    reaches_limit: bool,
    /// The attempts that had found the relay available when this one began.
    available_before: u64,
}

impl DeliveryOutcome {
    /// Returns the outcome of an attempt whose lease was held or lost when it was settled.
    pub(crate) fn of(settlement: &Settlement, is_held: bool) -> Self {
        if is_held { Self::Settled(settlement.clone()) } else { Self::LeaseLost }
    }
}

/// The mails, and what is known about the relay.
pub struct MailDeliveries {
    run: RunDeliveries,
    /// Maximum number of attempts in progress.
    slots: usize,
    /// The same for now: fewer while the relay is unavailable for some or all mails.
    open_slots: usize,
    /// Attempts that found the relay available.
    found_available: u64,
    in_outage: bool,
    /// The leases of the attempts in progress, and when they were last taken or renewed.
    held: HashMap<(DeliveryId, i64), OffsetDateTime>,
}

impl MailDeliveries {
    /// Returns the mails with up to `slots` attempts in progress.
    pub fn new(run: RunDeliveries, slots: usize) -> Self {
        Self {
            run,
            slots,
            open_slots: slots,
            found_available: 0,
            in_outage: false,
            held: HashMap::new(),
        }
    }
}

impl Deliveries for MailDeliveries {
    type Ready = Ready;
    type Outcome = Outcome;
    type Report = MailReport;

    /// Mails that wait for a slow relay take no slot.
    fn capacity(&self) -> usize {
        self.open_slots + self.run.notifier.waiting()
    }

    fn is_in_outage(&self) -> bool {
        self.in_outage
    }

    async fn lease(&self, limit: usize) -> Result<Vec<Ready>, StoreError> {
        self.run.lease(limit).await
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        let now = self.run.clock.now();
        let is_old = |since: &OffsetDateTime| now - *since >= RENEWED_AFTER;
        let old: Vec<_> =
            self.held.iter().filter(|(_, since)| is_old(since)).map(|(lease, _)| *lease).collect();
        if !old.is_empty() {
            self.run.queue.renew(&old, now.saturating_add(LEASE)).await?;
            self.held.extend(old.into_iter().map(|lease| (lease, now)));
        }
        Ok(())
    }

    fn attempt(&mut self, ready: Ready) -> BoxFuture<'static, Outcome> {
        self.held.insert((ready.lease.delivery.id, ready.lease.token), self.run.clock.now());
        let (run, available_before) = (self.run.clone(), self.found_available);
        async move { Outcome { available_before, ..run.attempt(ready).await } }.boxed()
    }

    /// An attempt that finds the relay unavailable halves the open slots, and one that does not
    /// opens one more. So a relay that is down gets one mail at a time, and one that takes few
    /// connections gets as many.
    ///
    /// The relay is down if no other attempt found it available meanwhile.
    fn attempted(&mut self, outcome: &Outcome) -> Option<MailReport> {
        self.held.remove(&(outcome.attempted.id, outcome.attempted.token));
        if outcome.reaches_limit {
            let Outcome { attempted, order_id, .. } = outcome;
            return Some(MailReport::LimitReached(attempted.id, *order_id));
        }
        match outcome.relay.as_ref()? {
            Ok(()) => {
                self.found_available += 1;
                self.open_slots = self.slots.min(self.open_slots + 1);
                mem::take(&mut self.in_outage).then_some(MailReport::OutageEnded)
            }
            Err(error) => {
                self.open_slots = (self.open_slots / 2).max(1);
                if self.in_outage || self.found_available > outcome.available_before {
                    return None;
                }
                self.in_outage = true;
                Some(MailReport::OutageBegan(error.clone()))
            }
        }
    }

    async fn settle(&self, ended: &[Outcome]) -> Result<Vec<MailReport>, StoreError> {
        let attempted: Vec<_> = ended.iter().map(|outcome| outcome.attempted.clone()).collect();
        let held = self.run.queue.settle(&attempted).await?;
        let report = |Outcome { order_id, attempted: Attempted { id, settlement, .. }, .. }: &_| {
            let outcome = DeliveryOutcome::of(settlement, held.contains(id));
            MailReport::Attempt(DeliveryReport { id: *id, order_id: *order_id, outcome })
        };
        Ok(ended.iter().map(report).collect())
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
    /// Greatest number of mails of a client to a recipient in an hour of the clock; 0 means no limit.
    pub mails_per_recipient_hour: u32,
}

impl RunDeliveries {
    /// Leases up to `limit` due deliveries and reads their orders.
    async fn lease(&self, limit: usize) -> Result<Vec<Ready>, StoreError> {
        let leases = self.queue.lease(self.clock.now(), LEASE, limit).await?;
        let leaving = leases.iter().filter(|lease| self.above_limit(lease).is_none());
        let recipients: Vec<_> = leaving
            .map(|Lease { delivery: Delivery { order_id, task, .. }, .. }| Recipient {
                order_id: *order_id,
                address: task.recipient.clone(),
                audience: task.audience,
            })
            .collect();
        // Remembers them before it reads the orders: an order that is cancelled after that tells them.
        let begun = match &recipients[..] {
            [] => Ok(Vec::new()),
            some => self.queue.begin(some).await,
        };
        let orders = match begun {
            Ok(sequences) => {
                let orders = self.queue.orders_of(recipients.iter().map(|one| one.order_id)).await;
                orders.map(|orders| (orders, sequences.into_iter().collect()))
            }
            Err(error) => Err(error),
        };
        let ready = |lease: Lease| Ready { mail: mail(&lease.delivery, &orders), lease };
        Ok(leases.into_iter().map(ready).collect())
    }

    /// Returns which mail of the hour it is, if that is above the limit of its recipient.
    fn above_limit(&self, lease: &Lease) -> Option<u64> {
        let limit = u64::from(self.mails_per_recipient_hour);
        lease.mail_of_hour.filter(|&number| limit > 0 && number > limit)
    }

    /// Attempts a delivery.
    async fn attempt(&self, Ready { lease, mail }: Ready) -> Outcome {
        let delivery = &lease.delivery;
        let limit = u64::from(self.mails_per_recipient_hour);
        let above = self.above_limit(&lease);
        let (settlement, relay) = if let Some(number) = above {
            let due_at = due_within_limit(self.clock.now(), number, limit, delivery.task.subject);
            (Settlement::OverLimit { due_at, error: OVER_LIMIT.to_owned() }, None)
        } else {
            match mail {
                Err(error) => (self.after_failure(delivery, &error), unavailable(&error).map(Err)),
                Ok(None) => (Settlement::Obsolete, None),
                Ok(Some(mail)) => match self.notify(&mail).await {
                    Ok(()) => (Settlement::Done, Some(Ok(()))),
                    Err(error) => {
                        let relay = unavailable(&error).map_or(Ok(()), Err);
                        (self.after_failure(delivery, &error), Some(relay))
                    }
                },
            }
        };
        let attempted = Attempted { id: delivery.id, token: lease.token, settlement };
        let reaches_limit = above == Some(limit + 1);
        let order_id = delivery.order_id;
        Outcome { order_id, attempted, relay, reaches_limit, available_before: 0 }
    }

    /// Hands a mail over. A panic fails this mail only, not the other mails in progress.
    async fn notify(&self, mail: &Notification) -> Result<(), NotifyError> {
        let notified = AssertUnwindSafe(self.notifier.notify(mail)).catch_unwind().await;
        notified.unwrap_or_else(|_| Err(NotifyError::Permanent("the notifier panicked".into())))
    }

    fn after_failure(&self, delivery: &Delivery, failure: &NotifyError) -> Settlement {
        let (now, error) = (self.clock.now(), error_chain(failure));
        let is_outage = matches!(failure, NotifyError::Unavailable(_));
        let is_final = matches!(failure, NotifyError::Permanent(_));
        if matches!(failure, NotifyError::Unknown(_)) {
            return match delivery.next_after_unknown(now) {
                Some(due_at) => Settlement::Unknown { due_at, error },
                None => Settlement::Fail { at: now, error },
            };
        }
        match delivery.next_attempt(now, is_outage, &*self.entropy) {
            Some(due_at) if is_outage => Settlement::Postpone { due_at, error },
            Some(due_at) if !is_final => Settlement::RetryAt { due_at, error },
            _ => Settlement::Fail { at: now, error },
        }
    }
}

/// Orders, and the numbers of their changes.
type Orders = Result<(FoundOrders, HashMap<OrderId, u32>), StoreError>;

/// Returns the mail of a delivery, if it is still true: a late mail must not put a cancelled appointment
/// back into a calendar, or remove one that takes place.
fn mail(
    Delivery { order_id, task, .. }: &Delivery,
    orders: &Orders,
) -> Result<Option<Notification>, NotifyError> {
    let (order, sequence) = match orders
        .as_ref()
        .map(|(orders, sequences)| (orders.get(order_id), sequences.get(order_id)))
    {
        Ok((Some(Ok(order)), sequence)) => (order.clone(), sequence),
        Ok((None, _)) => return Err(NotifyError::Permanent("the order does not exist".into())),
        Err(error @ StoreError::Unavailable(_)) => {
            return Err(NotifyError::Unavailable(error_chain(error).into()));
        }
        Err(error) | Ok((Some(Err(error)), _)) => {
            return Err(NotifyError::Transient(error_chain(error).into()));
        }
    };
    let is_cancelled = order.status == OrderStatus::CANCELLED;
    if is_cancelled != (task.subject == MailSubject::Cancelled) {
        return Ok(None);
    }
    let Some(&sequence) = sequence else {
        return Err(NotifyError::Transient("another transaction is changing the order".into()));
    };
    Ok(Some(Notification {
        service: None,
        previous: None,
        note: None,
        message_key: task.message_key.clone(),
        recipient: task.recipient.clone(),
        subject: task.subject,
        audience: task.audience,
        order,
        sequence,
    }))
}

/// Returns why no mail can be delivered.
fn unavailable(error: &NotifyError) -> Option<String> {
    matches!(error, NotifyError::Unavailable(_)).then(|| error_chain(error))
}

#[cfg(test)]
#[path = "run_deliveries_tests.rs"]
mod tests;
