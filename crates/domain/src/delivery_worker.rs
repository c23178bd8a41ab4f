//! Use case: deliver mails until the service stops.
//!
//! A slot that becomes free is filled at once: a slow mail holds up no other.

use std::{mem, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, select},
    stream::FuturesUnordered,
};

use crate::{
    background::Activity,
    delivery::DeliveryId,
    delivery_slots::DeliverySlots,
    order_traffic::{OrderTraffic, Pace, Signal},
    outcomes::{self, Outcomes},
    ports::StoreError,
    run_deliveries::{DeliveryReport, Mails, Outcome, Ready, RunDeliveries},
};

/// Longest pause when no delivery is due, no mail can be delivered, or the queue fails.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// Pause between two leases, in which more slots become free. A lease for each would cost more
/// than the mail.
pub(crate) const GATHER: Duration = Duration::from_millis(2);

/// Waits for a duration. The domain has no timer of its own.
pub type Sleep = fn(Duration) -> BoxFuture<'static, ()>;

/// What a step did.
#[derive(Debug, Default)]
pub struct DeliveryStep {
    /// Deliveries whose outcome is stored.
    pub reports: Vec<DeliveryReport>,
    /// Set when an outage begins or ends.
    pub outage: Option<OutageChange>,
    /// What could not be done. The worker tries it again.
    pub failure: Option<DeliveryFailure>,
}

/// The beginning or the end of a time in which no mail can be delivered.
#[derive(Debug, PartialEq, Eq)]
pub enum OutageChange {
    /// It began, with this error.
    Began(String),
    /// It ended.
    Ended,
}

/// A failure of the queue.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryFailure {
    /// Deliveries could not be leased.
    #[error("due deliveries could not be read")]
    Lease(#[source] StoreError),
    /// Outcomes could not be stored. The deliveries would be sent again if the worker ended now.
    #[error("the outcomes of {deliveries} deliveries could not be stored")]
    Settle {
        /// Number of outcomes.
        deliveries: usize,
        /// The reason.
        #[source]
        error: StoreError,
    },
}

/// Delivers mails, and sets the pace.
pub struct DeliveryWorker {
    deliveries: RunDeliveries,
    shared: Arc<DeliverySlots>,
    traffic: Arc<OrderTraffic>,
    dispatched: Arc<Signal>,
    sleep: Sleep,
    /// Maximum number of attempts in progress.
    slots: usize,
    /// The same for now: fewer while the relay is unavailable for some or all mails.
    open_slots: usize,
    running: FuturesUnordered<BoxFuture<'static, Happening>>,
    attempts: usize,
    leasing: Activity,
    outcomes: Outcomes<Outcome>,
    /// Attempts that found the relay available.
    found_available: u64,
    pace: Pace,
    in_outage: bool,
    is_stopping: bool,
}

enum Happening {
    Leased { asked: usize, result: Result<Vec<Ready>, StoreError> },
    LeasePaused,
    Attempted { outcome: Outcome, available_before: u64 },
    Settled { batch: Vec<Outcome>, result: Result<Vec<DeliveryId>, StoreError> },
    Gathered,
    SettlePaused,
}

impl DeliveryWorker {
    /// Returns a worker with up to `slots` attempts in progress, of those that it shares. It slows
    /// down while `traffic` grows, and looks for deliveries at once when `dispatched` is raised.
    pub fn new(
        deliveries: RunDeliveries,
        slots: usize,
        shared: Arc<DeliverySlots>,
        traffic: Arc<OrderTraffic>,
        dispatched: Arc<Signal>,
        sleep: Sleep,
    ) -> Self {
        let slots = slots.min(shared.share());
        Self {
            deliveries,
            shared,
            traffic,
            dispatched,
            sleep,
            slots,
            open_slots: slots,
            running: FuturesUnordered::new(),
            attempts: 0,
            leasing: Activity::Idle,
            outcomes: Outcomes::new(),
            found_available: 0,
            pace: Pace::new(slots),
            in_outage: false,
            is_stopping: false,
        }
    }

    /// Leases no more deliveries. Keep calling [`Self::step`] until [`Self::is_done`]: otherwise
    /// mails are sent again when the leases end.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Checks whether every leased delivery is settled after [`Self::stop`].
    pub fn is_done(&self) -> bool {
        self.is_stopping
            && self.leasing != Activity::Calling
            && self.attempts == 0
            && self.outcomes.are_stored()
    }

    /// Goes on until something happens, and returns it. Dropping the future of a call loses
    /// nothing; the next call continues.
    pub async fn step(&mut self) -> DeliveryStep {
        self.begin_gathering();
        self.begin_leasing();
        let Some(happening) = self.running.next().await else { return DeliveryStep::default() };
        match happening {
            Happening::Leased { asked, result } => self.leased(asked, result),
            Happening::LeasePaused => {
                self.leasing = Activity::Idle;
                DeliveryStep::default()
            }
            Happening::Attempted { outcome, available_before } => {
                self.attempts -= 1;
                self.shared.give_back(1);
                let outage = self.attempted(&outcome.mails, available_before);
                self.outcomes.add([outcome]);
                DeliveryStep { outage, ..DeliveryStep::default() }
            }
            Happening::Gathered => {
                self.begin_settling();
                DeliveryStep::default()
            }
            Happening::Settled { batch, result } => self.settled(batch, result),
            Happening::SettlePaused => {
                self.outcomes.end_batch();
                DeliveryStep::default()
            }
        }
    }

    /// Leases for the free slots. While the queue stores no outcomes, they fill the slots too.
    fn begin_leasing(&mut self) {
        let waiting = self.outcomes.waiting().saturating_sub(self.slots);
        let free = self.open_slots.saturating_sub(self.attempts + waiting);
        let must_wait = self.leasing != Activity::Idle || self.outcomes.is_failing();
        if must_wait || self.is_stopping || free == 0 {
            return;
        }
        let asked = self.shared.take(free.min(self.pace.size()));
        if asked == 0 {
            self.pause_leasing(GATHER, false);
            return;
        }
        self.leasing = Activity::Calling;
        let deliveries = self.deliveries.clone();
        self.run(async move { Happening::Leased { asked, result: deliveries.lease(asked).await } });
    }

    fn leased(&mut self, asked: usize, result: Result<Vec<Ready>, StoreError>) -> DeliveryStep {
        let ready = match result {
            Ok(ready) => ready,
            Err(error) => {
                self.shared.give_back(asked);
                self.pause_leasing(POLL, false);
                let failure = Some(DeliveryFailure::Lease(error));
                return DeliveryStep { failure, ..DeliveryStep::default() };
            }
        };
        self.shared.give_back(asked.saturating_sub(ready.len()));
        let pause = self.pace.pause(&self.traffic);
        if self.in_outage {
            self.pause_leasing(POLL, false);
        } else if ready.len() < asked {
            self.pause_leasing(POLL, true);
        } else {
            self.pause_leasing(pause.unwrap_or(GATHER), false);
        }
        for ready in ready {
            self.attempts += 1;
            let (deliveries, available_before) = (self.deliveries.clone(), self.found_available);
            self.run(async move {
                let outcome = deliveries.attempt(ready).await;
                Happening::Attempted { outcome, available_before }
            });
        }
        DeliveryStep::default()
    }

    fn pause_leasing(&mut self, pause: Duration, until_dispatched: bool) {
        self.leasing = Activity::Pausing;
        let (pause, dispatched) = ((self.sleep)(pause), Arc::clone(&self.dispatched));
        self.run(async move {
            if until_dispatched {
                select(pause, dispatched.raised().boxed()).await;
            } else {
                pause.await;
            }
            Happening::LeasePaused
        });
    }

    /// An attempt that finds the relay unavailable halves the open slots, and one that does not
    /// opens one more. So a relay that is down gets one mail at a time, and one that takes few
    /// connections gets as many.
    ///
    /// The relay is down if no other attempt found it available meanwhile.
    fn attempted(&mut self, mails: &Mails, available_before: u64) -> Option<OutageChange> {
        match mails {
            Mails::Unknown => None,
            Mails::CanBeDelivered => {
                self.found_available += 1;
                self.open_slots = self.slots.min(self.open_slots + 1);
                mem::take(&mut self.in_outage).then_some(OutageChange::Ended)
            }
            Mails::CannotBeDelivered(error) => {
                self.open_slots = (self.open_slots / 2).max(1);
                if self.in_outage || self.found_available > available_before {
                    return None;
                }
                self.in_outage = true;
                Some(OutageChange::Began(error.clone()))
            }
        }
    }

    fn begin_gathering(&mut self) {
        if self.outcomes.begin_gathering() {
            self.run((self.sleep)(outcomes::GATHER).map(|()| Happening::Gathered));
        }
    }

    fn begin_settling(&mut self) {
        let batch = self.outcomes.begin_batch();
        let deliveries = self.deliveries.clone();
        self.run(async move {
            let result = deliveries.settle(&batch).await;
            Happening::Settled { batch, result }
        });
    }

    fn settled(
        &mut self,
        batch: Vec<Outcome>,
        result: Result<Vec<DeliveryId>, StoreError>,
    ) -> DeliveryStep {
        match result {
            Ok(held) => {
                self.outcomes.end_batch();
                let reports = batch.into_iter().map(|outcome| outcome.report(&held)).collect();
                DeliveryStep { reports, ..DeliveryStep::default() }
            }
            Err(error) => {
                let pause = (self.sleep)(POLL);
                self.run(pause.map(|()| Happening::SettlePaused));
                let deliveries = self.outcomes.put_back(batch);
                let failure = Some(DeliveryFailure::Settle { deliveries, error });
                DeliveryStep { failure, ..DeliveryStep::default() }
            }
        }
    }

    fn run(&self, work: impl Future<Output = Happening> + Send + 'static) {
        self.running.push(work.boxed());
    }
}

#[cfg(test)]
#[path = "delivery_worker_tests.rs"]
mod tests;
