//! Use case: attempt to deliver the mails that follow an order.
//!
//! The module `delivery` defines the retry schedule, and `delivery::worker` the pace.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    panic::AssertUnwindSafe,
    sync::Arc,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use time::Duration;

use crate::{
    delivery::{
        Delivery, DeliveryId, Extent, LEASE, MAX_DELAY, MailSubject, Notification, due_within_limit,
    },
    order::{OrderId, StoredOrder},
    ports::{
        Attempted, Begun, Clock, DeliveryQueue, Entropy, FoundOrders, Lease, Notifier, NotifyError,
        ServiceRepo, Settlement, StoreError, error_chain,
    },
    signing_service::SigningService,
    use_cases::deliveries::worker::Deliveries,
};

/// Age at which a lease is renewed.
const RENEWED_AFTER: Duration = Duration::seconds(10);

/// Default of the greatest number of mails in progress.
pub const DELIVERIES_IN_FLIGHT: usize = 64;

/// Default of the greatest number of mails of a client to a recipient in an hour. It slows a stolen API
/// key down, and no office creates so many orders.
pub const MAILS_PER_RECIPIENT_HOUR: u32 = 200;

/// The error of a delivery above that number, while it waits.
pub const OVER_LIMIT: &str =
    "waits for the next hour: the recipient has reached its hourly limit of mails from this client";

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
    mail: Result<LeasedMail, NotifyError>,
}

/// The mail of a leased delivery.
enum LeasedMail {
    /// It may leave.
    Current(Box<Notification>),
    /// The order has changed: the mail would be wrong, its recipient is no party any more, or another mail tells it.
    Obsolete,
    /// The recipient has reached its hourly limit; this would be mail number N of the hour.
    AboveLimit(u64),
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
    is_stopping: bool,
    /// The leases of the attempts in progress, and when they were last taken or renewed, by the monotonic clock.
    held: HashMap<(DeliveryId, i64), Duration>,
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
            is_stopping: false,
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
        let now = self.run.clock.monotonic();
        let is_old = |since: &Duration| now - *since >= RENEWED_AFTER;
        let old: Vec<_> =
            self.held.iter().filter(|(_, since)| is_old(since)).map(|(lease, _)| *lease).collect();
        if !old.is_empty() {
            self.run.queue.renew(&old, self.run.clock.now().saturating_add(LEASE)).await?;
            self.held.extend(old.into_iter().map(|lease| (lease, now)));
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        self.run.notifier.stop();
    }

    fn attempt(&mut self, ready: Ready) -> BoxFuture<'static, Outcome> {
        self.held.insert((ready.lease.delivery.id, ready.lease.token), self.run.clock.monotonic());
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
                // At a stop, mails are given up early. That tells nothing about the relay.
                let is_known = self.in_outage || self.is_stopping;
                if is_known || self.found_available > outcome.available_before {
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
    /// Stores the records of signing services.
    pub services: Arc<dyn ServiceRepo>,
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
    /// Leases up to `limit` deliveries, reads their orders, and counts the mails that may leave. So a
    /// mail that would be wrong uses up no mail of its recipient.
    async fn lease(&self, limit: usize) -> Result<Vec<Ready>, StoreError> {
        let Some(now) = self.clock.now_to_lease() else { return Ok(Vec::new()) };
        let leases = self.queue.lease(now, LEASE, limit).await?;
        let orders = self.queue.orders_of(leases.iter().map(|lease| lease.delivery.order_id)).await;
        let services = self.services_of(&orders).await;
        let told = told_by_others(&leases, &orders, &services);
        let current = leases.iter().filter_map(|lease| {
            let current = current(&lease.delivery, &orders, &services).ok().flatten()?;
            let is_told = told.contains(&lease.delivery.id);
            (!is_told).then_some((lease.delivery.id, current.order.updated_at))
        });
        let begun = match &current.collect::<Vec<_>>()[..] {
            [] => Ok(Vec::new()),
            some => self.queue.begin(some, now, self.mails_per_recipient_hour).await,
        };
        let begun = begun.map(|begun| begun.into_iter().map(|one| (one.id, one)).collect());
        let ready = |lease: Lease| Ready {
            mail: if told.contains(&lease.delivery.id) {
                Ok(LeasedMail::Obsolete)
            } else {
                self.mail(&lease.delivery, &orders, &services, &begun)
            },
            lease,
        };
        Ok(leases.into_iter().map(ready).collect())
    }

    /// Returns the records of the signing services of orders.
    async fn services_of(
        &self,
        orders: &Result<FoundOrders, StoreError>,
    ) -> Result<Vec<SigningService>, StoreError> {
        let found = orders.iter().flat_map(HashMap::values).flatten();
        let ids: BTreeSet<_> = found.map(|order| order.order.signing_service_id).collect();
        match Vec::from_iter(ids) {
            none if none.is_empty() => Ok(Vec::new()),
            ids => self.services.find(&ids).await,
        }
    }

    /// Returns the mail of a delivery.
    fn mail(
        &self,
        delivery: &Delivery,
        orders: &Result<FoundOrders, StoreError>,
        services: &Result<Vec<SigningService>, StoreError>,
        begun: &Result<HashMap<DeliveryId, Begun>, StoreError>,
    ) -> Result<LeasedMail, NotifyError> {
        let Some(Current { order, service, extent }) = current(delivery, orders, services)? else {
            return Ok(LeasedMail::Obsolete);
        };
        let begun = begun.as_ref().map_err(not_read)?.get(&delivery.id);
        let limit = u64::from(self.mails_per_recipient_hour);
        let number = begun.and_then(|one| one.mail_of_hour);
        if let Some(number) = number.filter(|&number| limit > 0 && number > limit) {
            return Ok(LeasedMail::AboveLimit(number));
        }
        let Some(sequence) = begun.and_then(|one| one.sequence) else {
            return Err(NotifyError::Transient("the order is being changed".into()));
        };
        let task = &delivery.task;
        Ok(LeasedMail::Current(Box::new(Notification {
            message_key: task.message_key.clone(),
            recipient: task.recipient.clone(),
            subject: task.subject,
            audience: task.audience,
            extent,
            order: order.clone(),
            service: service.cloned(),
            content: task.content.clone(),
            sequence,
        })))
    }

    /// Attempts a delivery.
    async fn attempt(&self, Ready { lease, mail }: Ready) -> Outcome {
        let delivery = &lease.delivery;
        let limit = u64::from(self.mails_per_recipient_hour);
        let reaches_limit =
            matches!(mail, Ok(LeasedMail::AboveLimit(number)) if number == limit + 1);
        let (settlement, relay) = match mail {
            Err(error) => (self.after_failure(delivery, &error), unavailable(&error).map(Err)),
            Ok(LeasedMail::Obsolete) => (Settlement::Obsolete, None),
            Ok(LeasedMail::AboveLimit(number)) => {
                let (now, subject) = (self.clock.now(), delivery.task.subject);
                let due_at = due_within_limit(now, number, limit, subject);
                (Settlement::OverLimit { due_at, error: OVER_LIMIT.to_owned() }, None)
            }
            Ok(LeasedMail::Current(mail)) => match self.notify(&mail).await {
                Ok(()) => (Settlement::Done, Some(Ok(()))),
                Err(error) => {
                    let relay = unavailable(&error).map_or(Ok(()), Err);
                    (self.after_failure(delivery, &error), Some(relay))
                }
            },
        };
        let attempted = Attempted { id: delivery.id, token: lease.token, settlement };
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
        let mut next = delivery.next_attempt(now, is_outage, &*self.entropy);
        if next.is_none() && self.clock.now_to_erase().is_none() {
            // A clock that may be wrong makes no mail too old.
            next = Some(now.saturating_add(MAX_DELAY));
        }
        match next {
            Some(due_at) if is_outage => Settlement::Postpone { due_at, error },
            Some(due_at) if !is_final => Settlement::RetryAt { due_at, error },
            _ => Settlement::Fail { at: now, error },
        }
    }
}

/// A mail that may leave: its order and service as they are now, and how much of them it tells.
struct Current<'a> {
    order: &'a StoredOrder,
    service: Option<&'a SigningService>,
    extent: Extent,
}

/// Returns what a mail tells now. Returns `None` if it must not leave. It may not be true any more: a late
/// one must not put a cancelled appointment back into a calendar, or remove one that takes place. Its
/// recipient may be no party of the order any more.
fn current<'a>(
    delivery: &Delivery,
    orders: &'a Result<FoundOrders, StoreError>,
    services: &'a Result<Vec<SigningService>, StoreError>,
) -> Result<Option<Current<'a>>, NotifyError> {
    let order = match orders.as_ref().map_err(not_read)?.get(&delivery.order_id) {
        Some(Ok(order)) => order,
        Some(Err(error)) => return Err(not_read(error)),
        None => return Err(NotifyError::Permanent("the order does not exist".into())),
    };
    let task = &delivery.task;
    if !task.subject.is_true_of(task.content.as_ref(), delivery.created_at, order) {
        return Ok(None);
    }
    let mut services = services.as_ref().map_err(not_read)?.iter();
    let service = services.find(|service| service.id == order.order.signing_service_id);
    Ok(task.extent(order, service).map(|extent| Current { order, service, extent }))
}

/// Returns the leased mails about changes that another leased mail tells, too: that one leaves, now or later, with all
/// of the order. One that may have arrived tells nothing new: its recipient may take it for a copy.
fn told_by_others(
    leases: &[Lease],
    orders: &Result<FoundOrders, StoreError>,
    services: &Result<Vec<SigningService>, StoreError>,
) -> BTreeSet<DeliveryId> {
    let told = leases.iter().map(|lease| &lease.delivery).filter(|later| {
        leases.iter().map(|lease| &lease.delivery).any(|first| {
            let is_whole = first.task.subject != MailSubject::Changed;
            (is_whole || first.id < later.id)
                && first.order_id == later.order_id
                && first.unknown_outcomes == 0
                && first.task.tells(&later.task)
                && matches!(current(first, orders, services), Ok(Some(_)))
        })
    });
    told.map(|delivery| delivery.id).collect()
}

/// Returns the failure of a mail whose order cannot be read.
fn not_read(error: &StoreError) -> NotifyError {
    let cause = error_chain(error).into();
    match error {
        StoreError::Unavailable(_) => NotifyError::Unavailable(cause),
        StoreError::Internal(_) => NotifyError::Transient(cause),
    }
}

/// Returns why no mail can be delivered.
fn unavailable(error: &NotifyError) -> Option<String> {
    matches!(error, NotifyError::Unavailable(_)).then(|| error_chain(error))
}

#[cfg(test)]
#[path = "run_deliveries_tests.rs"]
mod tests;
