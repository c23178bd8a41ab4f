//! Use case: deliver webhooks until the service stops.
//!
//! A slot that becomes free is filled at once. An endpoint has up to [`PER_ENDPOINT`] slots, and one
//! whose last attempt did not succeed has one. All such endpoints together leave a part of the slots
//! to others, so endpoints that hang hold up none that works.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, select},
    stream::FuturesUnordered,
};

use crate::{
    background::Activity,
    delivery_slots::DeliverySlots,
    delivery_worker::{DeliveryFailure, GATHER, POLL, Sleep},
    order_traffic::{OrderTraffic, Signal},
    outcomes::{self, Outcomes},
    ports::{StoreError, WebhookSlots, WebhooksSettled},
    run_webhooks::{ReadyWebhook, RunWebhooks, WebhookOutcome, WebhookReport},
    webhook::EndpointId,
};

/// Maximum number of attempts in progress at an endpoint.
pub const PER_ENDPOINT: usize = 4;

/// Maximum number of deliveries that a slot leases at once for an endpoint that works. It attempts
/// them one after the other, until one fails: they all fit into a lease.
const IN_A_ROW: usize = 4;

/// Returns how many of `share` slots the endpoints may have together whose last attempt did not
/// succeed. The rest is small, because the attempts at endpoints that work are short; and new
/// endpoints wait for those that hang.
fn unproven_share(share: usize) -> usize {
    share.saturating_sub((share / 6).max(1)).max(1)
}

/// What a step did.
#[derive(Debug, Default)]
pub struct WebhookStep {
    /// Deliveries whose outcome is stored.
    pub reports: Vec<WebhookReport>,
    /// Endpoints that were disabled because their receiver is gone.
    pub gone: Vec<EndpointId>,
    /// What could not be done. The worker tries it again.
    pub failure: Option<DeliveryFailure>,
}

/// Delivers webhooks, and sets the pace.
pub struct WebhookWorker {
    webhooks: RunWebhooks,
    slots: Arc<DeliverySlots>,
    traffic: Arc<OrderTraffic>,
    due: Arc<Signal>,
    sleep: Sleep,
    running: FuturesUnordered<BoxFuture<'static, Happening>>,
    attempts: Attempts,
    leasing: Activity,
    outcomes: Outcomes<WebhookOutcome>,
    orders: u64,
    is_stopping: bool,
}

/// The attempts in progress.
#[derive(Default)]
struct Attempts {
    all: usize,
    /// Those of each endpoint, and whether its last attempt had succeeded before.
    of_endpoints: HashMap<EndpointId, (usize, bool)>,
}

impl Attempts {
    fn unproven(&self) -> usize {
        let unproven = self.of_endpoints.values().filter(|(_, is_proven)| !is_proven);
        unproven.map(|(attempts, _)| attempts).sum()
    }

    fn of(&self, endpoint: EndpointId) -> usize {
        self.of_endpoints.get(&endpoint).map_or(0, |(attempts, _)| *attempts)
    }

    fn begin(&mut self, endpoint: EndpointId, is_proven: bool) {
        self.all += 1;
        let (attempts, proven) = self.of_endpoints.entry(endpoint).or_default();
        *attempts += 1;
        *proven = is_proven;
    }

    fn end(&mut self, endpoint: EndpointId) {
        self.all = self.all.saturating_sub(1);
        if let Some((attempts, _)) = self.of_endpoints.get_mut(&endpoint) {
            *attempts -= 1;
            if *attempts == 0 {
                self.of_endpoints.remove(&endpoint);
            }
        }
    }
}

enum Happening {
    Leased { asked: usize, result: Result<Vec<ReadyWebhook>, StoreError> },
    LeasePaused,
    Attempted { outcome: WebhookOutcome, rest: VecDeque<ReadyWebhook> },
    Settled { batch: Vec<WebhookOutcome>, result: Result<WebhooksSettled, StoreError> },
    Gathered,
    SettlePaused,
}

impl WebhookWorker {
    /// Returns a worker that shares `slots`. It slows down while `traffic` grows, and looks for
    /// deliveries at once when `due` is raised.
    pub fn new(
        webhooks: RunWebhooks,
        slots: Arc<DeliverySlots>,
        traffic: Arc<OrderTraffic>,
        due: Arc<Signal>,
        sleep: Sleep,
    ) -> Self {
        Self {
            webhooks,
            slots,
            traffic,
            due,
            sleep,
            running: FuturesUnordered::new(),
            attempts: Attempts::default(),
            leasing: Activity::Idle,
            outcomes: Outcomes::new(),
            orders: 0,
            is_stopping: false,
        }
    }

    /// Leases no more deliveries. Keep calling [`Self::step`] until [`Self::is_done`]: otherwise
    /// deliveries are sent again when the leases end.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Checks whether every leased delivery is settled after [`Self::stop`].
    pub fn is_done(&self) -> bool {
        self.is_stopping
            && self.leasing != Activity::Calling
            && self.attempts.all == 0
            && self.outcomes.are_stored()
    }

    /// Goes on until something happens, and returns it. Dropping the future of a call loses
    /// nothing; the next call continues.
    pub async fn step(&mut self) -> WebhookStep {
        self.begin_gathering();
        self.begin_leasing();
        let Some(happening) = self.running.next().await else { return WebhookStep::default() };
        match happening {
            Happening::Leased { asked, result } => return self.leased(asked, result),
            Happening::LeasePaused => self.leasing = Activity::Idle,
            Happening::Attempted { outcome, rest } => self.attempted(outcome, rest),
            Happening::Gathered => self.begin_settling(),
            Happening::Settled { batch, result } => return self.settled(batch, result),
            Happening::SettlePaused => self.outcomes.end_batch(),
        }
        WebhookStep::default()
    }

    /// Leases for the free slots. While the queue stores no outcomes, they fill the slots too.
    fn begin_leasing(&mut self) {
        let share = self.slots.share();
        let waiting = self.outcomes.waiting().saturating_sub(share);
        let free = share.saturating_sub(self.attempts.all + waiting);
        let must_wait = self.leasing != Activity::Idle || self.outcomes.is_failing();
        if must_wait || self.is_stopping || free == 0 {
            return;
        }
        let asked = self.slots.take(free);
        if asked == 0 {
            self.pause_leasing(GATHER);
            return;
        }
        self.leasing = Activity::Calling;
        let busy = self.attempts.of_endpoints.iter().map(|(endpoint, (attempts, _))| {
            (*endpoint, PER_ENDPOINT.saturating_sub(*attempts) * IN_A_ROW)
        });
        let slots = WebhookSlots {
            limit: asked,
            unproven: unproven_share(share).saturating_sub(self.attempts.unproven()),
            per_endpoint: PER_ENDPOINT * IN_A_ROW,
            busy: busy.collect(),
        };
        let webhooks = self.webhooks.clone();
        self.run(async move { Happening::Leased { asked, result: webhooks.lease(&slots).await } });
    }

    fn leased(
        &mut self,
        asked: usize,
        result: Result<Vec<ReadyWebhook>, StoreError>,
    ) -> WebhookStep {
        let ready = match result {
            Ok(ready) => ready,
            Err(error) => {
                self.slots.give_back(asked);
                self.pause_leasing(POLL);
                let failure = Some(DeliveryFailure::Lease(error));
                return WebhookStep { failure, ..WebhookStep::default() };
            }
        };
        let orders = mem::replace(&mut self.orders, self.traffic.count());
        if ready.len() >= asked {
            // There are more deliveries than slots.
            self.due.raise();
        }
        let rows = self.rows(ready);
        self.slots.give_back(asked.saturating_sub(rows.len()));
        for row in rows {
            if let Some(first) = row.front() {
                self.attempts.begin(first.lease.delivery.endpoint, first.lease.is_proven);
            }
            self.attempt_first(row);
        }
        self.pause_leasing(self.traffic.pause_since(orders).unwrap_or(GATHER));
        WebhookStep::default()
    }

    /// Divides deliveries among the free slots of their endpoints. Each row needs a slot.
    fn rows(&self, ready: Vec<ReadyWebhook>) -> Vec<VecDeque<ReadyWebhook>> {
        let mut of_endpoints: Vec<(EndpointId, Vec<VecDeque<ReadyWebhook>>, usize)> = Vec::new();
        let mut index = HashMap::new();
        for webhook in ready {
            let endpoint = webhook.lease.delivery.endpoint;
            let at = *index.entry(endpoint).or_insert_with(|| {
                of_endpoints.push((endpoint, Vec::new(), 0));
                of_endpoints.len() - 1
            });
            let free = PER_ENDPOINT.saturating_sub(self.attempts.of(endpoint)).max(1);
            let (_, rows, next) = &mut of_endpoints[at];
            if rows.len() < free {
                rows.push(VecDeque::from([webhook]));
            } else {
                rows[*next % free].push_back(webhook);
                *next += 1;
            }
        }
        of_endpoints.into_iter().flat_map(|(_, rows, _)| rows).collect()
    }

    fn attempt_first(&mut self, mut row: VecDeque<ReadyWebhook>) {
        let Some(first) = row.pop_front() else { return };
        let webhooks = self.webhooks.clone();
        self.run(async move {
            Happening::Attempted { outcome: webhooks.attempt(first).await, rest: row }
        });
    }

    /// Goes on with the deliveries of the slot, unless one has failed: the endpoint may hang.
    fn attempted(&mut self, outcome: WebhookOutcome, rest: VecDeque<ReadyWebhook>) {
        let (is_success, endpoint) = (outcome.is_success(), outcome.attempted.endpoint);
        self.outcomes.add([outcome]);
        if is_success && !self.is_stopping && !rest.is_empty() {
            self.attempt_first(rest);
            return;
        }
        let released = rest.into_iter().map(|ready| self.webhooks.release(ready));
        self.outcomes.add(released);
        self.attempts.end(endpoint);
        self.slots.give_back(1);
        // More deliveries may wait for a slot of this endpoint.
        self.due.raise();
    }

    /// Waits, then until deliveries may be due.
    fn pause_leasing(&mut self, pause: Duration) {
        self.leasing = Activity::Pausing;
        let (pause, poll) = ((self.sleep)(pause), (self.sleep)(POLL));
        let due = Arc::clone(&self.due);
        self.run(async move {
            pause.await;
            select(poll, due.raised().boxed()).await;
            Happening::LeasePaused
        });
    }

    fn begin_gathering(&mut self) {
        if self.outcomes.begin_gathering() {
            self.run((self.sleep)(outcomes::GATHER).map(|()| Happening::Gathered));
        }
    }

    fn begin_settling(&mut self) {
        let batch = self.outcomes.begin_batch();
        let webhooks = self.webhooks.clone();
        self.run(async move {
            let result = webhooks.settle(&batch).await;
            Happening::Settled { batch, result }
        });
    }

    fn settled(
        &mut self,
        batch: Vec<WebhookOutcome>,
        result: Result<WebhooksSettled, StoreError>,
    ) -> WebhookStep {
        match result {
            Ok(WebhooksSettled { held, disabled }) => {
                self.outcomes.end_batch();
                let reports = batch.into_iter().map(|outcome| outcome.report(&held)).collect();
                WebhookStep { reports, gone: disabled, failure: None }
            }
            Err(error) => {
                let pause = (self.sleep)(POLL);
                self.run(pause.map(|()| Happening::SettlePaused));
                let deliveries = self.outcomes.put_back(batch);
                let failure = Some(DeliveryFailure::Settle { deliveries, error });
                WebhookStep { failure, ..WebhookStep::default() }
            }
        }
    }

    fn run(&self, work: impl Future<Output = Happening> + Send + 'static) {
        self.running.push(work.boxed());
    }
}

#[cfg(test)]
#[path = "webhook_worker_tests.rs"]
mod tests;
