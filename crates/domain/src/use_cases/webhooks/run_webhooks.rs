//! Use case: attempt to deliver webhooks.
//!
//! The module `webhook` defines the retry schedule, and `delivery::worker` the pace. An attempt is one
//! idle socket, so many may be in progress. An endpoint that works has up to [`PER_ENDPOINT`](crate::webhook::PER_ENDPOINT), and one
//! whose last attempt did not succeed within [`SLOW`], or that has none yet, has one. An attempt at
//! such an endpoint, or one that takes longer, counts apart from those at endpoints that work: it takes
//! none of their slots.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    panic::AssertUnwindSafe,
    sync::Arc,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use time::{Duration, OffsetDateTime};

use crate::{
    api_key::Party,
    delivery::{LEASE, OUTAGE_DELAY},
    order::OrderId,
    ports::{
        Clock, DeliveryQueue, EndpointEffect, Entropy, FoundOrders, SecretBox, Settlement,
        StoreError, WebhookAnswer, WebhookAttempted, WebhookError, WebhookLease, WebhookQueue,
        WebhookRequest, WebhookSender, WebhookSlots, WebhooksSettled, error_chain,
    },
    use_cases::{
        deliveries::{run_deliveries::DeliveryOutcome, worker::Deliveries},
        webhooks::manage_webhooks::{NO_KEY, secret_context},
    },
    webhook::{
        AttemptOutcome, AttemptRecord, EndpointId, EventType, KEPT_ATTEMPTS, WebhookDelivery,
        WebhookDeliveryId, order_body, test_body,
    },
};

/// The outcome of an attempt whose order was erased.
const ORDER_ERASED: &str = "order_erased";

/// The outcome of an attempt whose secret the key of the service does not decrypt.
pub const SECRET_UNREADABLE: &str = "secret_unreadable";

/// Default of the greatest number of attempts in progress.
pub const WEBHOOKS_IN_FLIGHT: usize = 1_024;

/// Maximum number of attempts in progress at the endpoints of a party that work, and again at its
/// others.
const PER_PARTY: usize = 64;

/// An endpoint is slow if an attempt that succeeded took longer.
pub const SLOW: Duration = Duration::seconds(5);

/// Delay after which a secret that cannot be read is read again. An operator must mend that.
const UNREADABLE_DELAY: Duration = Duration::MINUTE;

/// The outcome of one delivery step.
#[derive(Debug, PartialEq, Eq)]
pub enum WebhooksReport {
    /// The outcome of an attempt is stored.
    Attempt(WebhookReport),
    /// An endpoint was disabled because its receiver is gone.
    Gone(EndpointId),
}

/// The outcome of one attempt of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookReport {
    /// The delivery.
    pub id: WebhookDeliveryId,
    /// Its endpoint.
    pub endpoint: EndpointId,
    /// The order of its event.
    pub order_id: Option<OrderId>,
    /// The outcome.
    pub outcome: DeliveryOutcome,
}

/// A leased delivery with its request, or the outcome of one that cannot be attempted. No endpoint is
/// at fault then.
pub struct ReadyWebhook {
    lease: WebhookLease,
    request: Result<WebhookRequest, Unready>,
}

/// The settlement of a delivery that cannot be attempted, and the error that its client sees.
struct Unready(Settlement, Option<&'static str>);

/// The outcome of an attempt that is not stored yet.
#[derive(Debug, Clone)]
pub struct WebhookOutcome {
    order_id: Option<OrderId>,
    attempted: WebhookAttempted,
}

/// The webhooks, and the attempts in progress.
pub struct WebhookDeliveries {
    run: RunWebhooks,
    slots: usize,
    in_progress: HashMap<WebhookDeliveryId, RunningAttempt>,
}

/// An attempt in progress.
struct RunningAttempt {
    party: Party,
    /// Whether the last attempt at the endpoint had succeeded in time.
    is_proven: bool,
    /// By the monotonic clock.
    began: Duration,
}

impl WebhookDeliveries {
    /// Returns the webhooks with up to `slots` attempts in progress.
    pub fn new(run: RunWebhooks, slots: usize) -> Self {
        Self { run, slots: slots.max(1), in_progress: HashMap::new() }
    }

    /// Returns the free slots. A quarter is for endpoints that work alone.
    fn free_slots(&self, limit: usize) -> WebhookSlots {
        let now = self.run.clock.monotonic();
        let unproven = (self.slots - self.slots / 4).max(1);
        let mut slots =
            WebhookSlots { limit: 0, unproven, per_party: PER_PARTY, busy: BTreeMap::new() };
        for RunningAttempt { party, is_proven, began } in self.in_progress.values() {
            slots.take(*party, *is_proven && now - *began <= SLOW);
        }
        WebhookSlots { limit, ..slots }
    }
}

impl Deliveries for WebhookDeliveries {
    type Ready = ReadyWebhook;
    type Outcome = WebhookOutcome;
    type Report = WebhooksReport;

    fn capacity(&self) -> usize {
        self.slots
    }

    async fn lease(&self, limit: usize) -> Result<Vec<ReadyWebhook>, StoreError> {
        self.run.lease(&self.free_slots(limit)).await
    }

    fn attempt(&mut self, ready: ReadyWebhook) -> BoxFuture<'static, WebhookOutcome> {
        let WebhookLease { ref delivery, is_proven, party, .. } = ready.lease;
        let attempt = RunningAttempt { party, is_proven, began: self.run.clock.monotonic() };
        self.in_progress.insert(delivery.id, attempt);
        let run = self.run.clone();
        async move { run.attempt(ready).await }.boxed()
    }

    fn attempted(&mut self, outcome: &WebhookOutcome) -> Option<WebhooksReport> {
        self.in_progress.remove(&outcome.attempted.id);
        None
    }

    async fn settle(&self, ended: &[WebhookOutcome]) -> Result<Vec<WebhooksReport>, StoreError> {
        let attempted: Vec<_> = ended.iter().map(|outcome| outcome.attempted.clone()).collect();
        let WebhooksSettled { held, disabled } = self.run.queue.settle(&attempted).await?;
        let report = |WebhookOutcome { order_id, attempted }: &WebhookOutcome| {
            let WebhookAttempted { id, endpoint, settlement, .. } = attempted;
            let outcome = DeliveryOutcome::of(settlement, held.contains(id));
            let (id, endpoint, order_id) = (*id, *endpoint, *order_id);
            WebhooksReport::Attempt(WebhookReport { id, endpoint, order_id, outcome })
        };
        let gone = disabled.into_iter().map(WebhooksReport::Gone);
        Ok(ended.iter().map(report).chain(gone).collect())
    }
}

/// Delivers webhooks.
#[derive(Clone)]
pub struct RunWebhooks {
    /// Stores webhook deliveries.
    pub queue: Arc<dyn WebhookQueue>,
    /// Reads orders.
    pub orders: Arc<dyn DeliveryQueue>,
    /// Sends webhooks.
    pub sender: Arc<dyn WebhookSender>,
    /// Decrypts secrets; `None` without a key.
    pub secrets: Option<Arc<dyn SecretBox>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness for the delays of retries.
    pub entropy: Arc<dyn Entropy>,
}

impl RunWebhooks {
    /// Leases due deliveries and makes their requests.
    async fn lease(&self, slots: &WebhookSlots) -> Result<Vec<ReadyWebhook>, StoreError> {
        let Some(now) = self.clock.now_to_lease() else { return Ok(Vec::new()) };
        let leases = self.queue.lease(now, LEASE, slots).await?;
        let ids = leases.iter().filter_map(|lease| lease.delivery.order_id);
        let orders = self.orders.orders_of(ids).await;
        let ready =
            |lease: WebhookLease| ReadyWebhook { request: self.request(&lease, &orders), lease };
        Ok(leases.into_iter().map(ready).collect())
    }

    /// Attempts a delivery.
    async fn attempt(&self, ReadyWebhook { lease, request }: ReadyWebhook) -> WebhookOutcome {
        match request {
            Ok(request) => {
                // A panic fails this delivery only, not the others in progress.
                let sent = AssertUnwindSafe(self.sender.send(&request)).catch_unwind().await;
                let answer = sent.unwrap_or(Err(WebhookError::Protocol));
                self.after(lease, request.timestamp, &answer)
            }
            Err(Unready(settlement, error)) => {
                let outcome = error.map(|error| AttemptOutcome::Error(error.to_owned()));
                // What waits for an operator has the error once.
                let last = lease.delivery.attempts.last().map(|last| &last.outcome);
                let outcome = outcome.filter(|outcome| last != Some(outcome));
                Self::outcome(lease, self.clock.now(), settlement, outcome, EndpointEffect::None)
            }
        }
    }

    /// Returns the request of a delivery that is attempted now, or why there is none.
    fn request(
        &self,
        lease: &WebhookLease,
        orders: &Result<FoundOrders, StoreError>,
    ) -> Result<WebhookRequest, Unready> {
        let timestamp = self.clock.now();
        let later = |delay: Duration, error: String, noted: Option<&'static str>| {
            let due_at = timestamp.saturating_add(delay);
            Unready(Settlement::Postpone { due_at, error }, noted)
        };
        let unreadable = |error: &dyn Error| later(UNREADABLE_DELAY, error_chain(error), None);
        let WebhookDelivery { event, ref change, order_id, created_at, endpoint, .. } =
            lease.delivery;
        let order = match (order_id, orders) {
            (None, _) => None,
            (Some(_), _) if event == EventType::OrderErased => None,
            (Some(_), Err(error)) => return Err(later(OUTAGE_DELAY, error_chain(error), None)),
            (Some(id), Ok(orders)) => match orders.get(&id) {
                Some(Ok(order)) => Some(order),
                Some(Err(error)) => return Err(unreadable(error)),
                None => {
                    let error = ORDER_ERASED.to_owned();
                    let failed = Settlement::Fail { at: timestamp, error };
                    return Err(Unready(failed, Some(ORDER_ERASED)));
                }
            },
        };
        let body = match (&lease.body, order) {
            (Some(body), _) => Ok(body.clone()),
            // A delivery that version 0.1.0 added has no body.
            (None, Some(order)) => order_body(event, change.as_ref(), created_at, order),
            (None, None) => test_body(created_at, endpoint),
        };
        // Only the trace of the request that created the order is stored.
        let created = order.filter(|_| event == EventType::OrderCreated);
        let sealed = |error| later(UNREADABLE_DELAY, error, Some(SECRET_UNREADABLE));
        let key = self.secrets.as_ref().ok_or_else(|| sealed(NO_KEY.to_owned()))?;
        let open = |sealed: &Vec<u8>| key.open(sealed, &secret_context(lease.party));
        let current = open(&lease.secrets.current).map_err(|error| sealed(error_chain(&error)))?;
        let live = lease.secrets.clone().live(timestamp);
        // The key of an earlier one may be lost, and the reason for the rotation.
        let earlier = live.older.iter().filter_map(|(sealed, _)| open(sealed).ok());
        Ok(WebhookRequest {
            party: lease.party,
            url: lease.url.clone(),
            id: lease.delivery.message_id(),
            timestamp,
            body: body.map_err(|error| unreadable(&error))?,
            secrets: std::iter::once(current).chain(earlier).collect(),
            trace: created.and_then(|order| order.order.trace.clone()),
        })
    }

    /// Judges an answer: 2xx is a success, 410 disables the endpoint, and anything else is retried.
    fn after(
        &self,
        lease: WebhookLease,
        sent_at: OffsetDateTime,
        answer: &Result<WebhookAnswer, WebhookError>,
    ) -> WebhookOutcome {
        let at = self.clock.now();
        let (outcome, error, retry_after) = match answer {
            Ok(WebhookAnswer { status, retry_after }) => {
                (AttemptOutcome::Status(*status), format!("status {status}"), *retry_after)
            }
            Err(error) => (AttemptOutcome::Error(error.to_string()), error.to_string(), None),
        };
        let (settlement, effect) = match outcome {
            AttemptOutcome::Status(200..=299) if at - sent_at > SLOW => {
                (Settlement::Done, EndpointEffect::Slow)
            }
            AttemptOutcome::Status(200..=299) => (Settlement::Done, EndpointEffect::Succeeded),
            AttemptOutcome::Status(410) => (Settlement::Fail { at, error }, EndpointEffect::Gone),
            AttemptOutcome::Status(_) | AttemptOutcome::Error(_) => {
                let settlement = match lease.delivery.next_attempt(at, retry_after, &*self.entropy)
                {
                    Some(due_at) => Settlement::RetryAt { due_at, error },
                    None => Settlement::Fail { at, error },
                };
                (settlement, EndpointEffect::Failed)
            }
        };
        Self::outcome(lease, at, settlement, Some(outcome), effect)
    }

    fn outcome(
        WebhookLease { delivery, token, url, .. }: WebhookLease,
        at: OffsetDateTime,
        settlement: Settlement,
        outcome: Option<AttemptOutcome>,
        effect: EndpointEffect,
    ) -> WebhookOutcome {
        let mut attempts = delivery.attempts;
        attempts.extend(outcome.map(|outcome| AttemptRecord { at, outcome }));
        attempts.drain(..attempts.len().saturating_sub(KEPT_ATTEMPTS));
        let (id, endpoint) = (delivery.id, delivery.endpoint);
        let attempted =
            WebhookAttempted { id, token, endpoint, url, at, settlement, attempts, effect };
        WebhookOutcome { order_id: delivery.order_id, attempted }
    }
}

#[cfg(test)]
#[path = "run_webhooks_tests.rs"]
mod tests;
