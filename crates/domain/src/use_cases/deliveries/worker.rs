//! Use case: deliver mails, or webhooks, until the service stops.
//!
//! A worker repeats one cycle: store the outcomes of the attempts that have ended, lease deliveries
//! for the free slots, wait. Attempts go on all the time, so a slow one holds up no other.

use std::{pin::pin, time::Duration};

use futures_util::{
    StreamExt as _,
    future::{BoxFuture, Either, pending, select},
    stream::FuturesUnordered,
};

use crate::{ports::StoreError, use_cases::background::BatchSize};

/// Pause between two leases while nothing happens.
pub(crate) const POLL: Duration = Duration::from_millis(250);

/// Pause between two leases while attempts end. It bounds the statements of a worker, so that orders
/// keep most of the database.
pub(crate) const PAUSE: Duration = Duration::from_millis(15);

/// Pause after a failure of the queue, and between two attempts in an outage.
pub(crate) const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// Waits for a duration. The domain has no timer of its own.
pub type Sleep = fn(Duration) -> BoxFuture<'static, ()>;

/// The outcome of a step.
#[derive(Debug)]
pub struct DeliveryStep<R> {
    /// The outcome.
    pub reports: Vec<R>,
    /// The failure of a part of the step. The worker tries it again.
    pub failure: Option<DeliveryFailure>,
}

/// A failure of the queue.
#[derive(Debug)]
pub enum DeliveryFailure {
    /// Deliveries could not be leased.
    Lease(StoreError),
    /// Outcomes could not be stored. The deliveries would be sent again if the worker ended now.
    Settle {
        /// Number of outcomes.
        deliveries: usize,
        /// The reason.
        error: StoreError,
    },
}

/// The deliveries of one kind, and what is known about their destinations.
pub trait Deliveries: Send + Sync {
    /// A leased delivery.
    type Ready: Send;
    /// The outcome of an attempt that is not stored yet.
    type Outcome: Send + Sync + 'static;
    /// An outcome that is stored, or the change of a destination.
    type Report: Send;

    /// Returns the number of attempts that may be in progress now; at least one.
    fn capacity(&self) -> usize;

    /// Returns whether no delivery can succeed now, so that leases pause.
    fn is_in_outage(&self) -> bool {
        false
    }

    /// Leases up to `limit` deliveries.
    fn lease(
        &self,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Self::Ready>, StoreError>> + Send;

    /// Renews the leases of attempts that take long.
    fn renew(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Begins an attempt.
    fn attempt(&mut self, ready: Self::Ready) -> BoxFuture<'static, Self::Outcome>;

    /// Notes what an attempt shows about its destination.
    fn attempted(&mut self, outcome: &Self::Outcome) -> Option<Self::Report>;

    /// Stores outcomes.
    fn settle(
        &self,
        ended: &[Self::Outcome],
    ) -> impl Future<Output = Result<Vec<Self::Report>, StoreError>> + Send;
}

/// Delivers deliveries of one kind, and sets the pace.
pub struct DeliveryWorker<D: Deliveries> {
    deliveries: D,
    sleep: Sleep,
    running: FuturesUnordered<BoxFuture<'static, D::Outcome>>,
    /// Outcomes that the destination does not know of.
    ended: Vec<D::Outcome>,
    /// Outcomes to store.
    unsettled: Vec<D::Outcome>,
    /// How many of them a call gets.
    settled_at_once: BatchSize,
    pauses: bool,
    /// Whether the last lease got some, and may have left others.
    may_have_more: bool,
    is_stopping: bool,
}

impl<D: Deliveries> DeliveryWorker<D> {
    /// Returns a worker that has nothing in progress.
    pub fn new(deliveries: D, sleep: Sleep) -> Self {
        Self {
            deliveries,
            sleep,
            running: FuturesUnordered::new(),
            ended: Vec::new(),
            unsettled: Vec::new(),
            settled_at_once: BatchSize::new(usize::MAX),
            pauses: false,
            may_have_more: false,
            is_stopping: false,
        }
    }

    /// Leases no more deliveries. Keep calling [`Self::step`] and [`Self::wait`] until
    /// [`Self::is_done`]: otherwise deliveries are sent again when the leases end.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Checks whether every leased delivery is settled after [`Self::stop`].
    pub fn is_done(&self) -> bool {
        let is_idle = self.running.is_empty() && self.ended.is_empty() && self.unsettled.is_empty();
        self.is_stopping && is_idle
    }

    /// Stores the outcomes that there are, and leases for the free slots. Leases nothing while
    /// outcomes cannot be stored. Do not drop the future: outcomes may be stored twice.
    pub async fn step(&mut self) -> DeliveryStep<D::Report> {
        let mut reports = Vec::new();
        self.may_have_more = false;
        self.note_ended(&mut reports);
        let settled = self.settle(&mut reports).await;
        // Attempts that ended meanwhile have free slots, too.
        self.note_ended(&mut reports);
        let renewed = self.renew().await;
        let failure = match settled.and(renewed) {
            Ok(()) => self.lease().await.err(),
            Err(failure) => Some(failure),
        };
        self.pauses = failure.is_some() || self.deliveries.is_in_outage();
        DeliveryStep { reports, failure }
    }

    /// Waits until the next step is due: for the end of an attempt, but not longer than a pause.
    /// Dropping the future loses nothing.
    pub async fn wait(&mut self) {
        let Self { sleep, running, ended, unsettled, may_have_more, .. } = self;
        if self.pauses {
            return during((sleep)(OUTAGE_PAUSE), running, ended).await;
        }
        if ended.is_empty() && unsettled.is_empty() && !*may_have_more {
            match select((sleep)(POLL), pin!(next(running))).await {
                Either::Left(_) => return,
                Either::Right((outcome, _)) => ended.push(outcome),
            }
        }
        during((sleep)(PAUSE), running, ended).await;
    }

    fn note_ended(&mut self, reports: &mut Vec<D::Report>) {
        for outcome in self.ended.drain(..) {
            reports.extend(self.deliveries.attempted(&outcome));
            self.unsettled.push(outcome);
        }
    }

    async fn settle(&mut self, reports: &mut Vec<D::Report>) -> Result<(), DeliveryFailure> {
        while !self.unsettled.is_empty() {
            let count = self.unsettled.len().min(self.settled_at_once.get());
            let settled = self.deliveries.settle(&self.unsettled[..count]);
            match during(settled, &mut self.running, &mut self.ended).await {
                Ok(settled) => {
                    reports.extend(settled);
                    self.unsettled.drain(..count);
                    self.settled_at_once.worked();
                }
                Err(error) => {
                    self.settled_at_once.failed(count);
                    let deliveries = self.unsettled.len();
                    return Err(DeliveryFailure::Settle { deliveries, error });
                }
            }
        }
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), DeliveryFailure> {
        let renewed = self.deliveries.renew();
        let renewed = during(renewed, &mut self.running, &mut self.ended).await;
        renewed.map_err(DeliveryFailure::Lease)
    }

    async fn lease(&mut self) -> Result<(), DeliveryFailure> {
        let free = self.deliveries.capacity().saturating_sub(self.running.len());
        if self.is_stopping || free == 0 {
            return Ok(());
        }
        let leased = self.deliveries.lease(free);
        let leased = during(leased, &mut self.running, &mut self.ended).await;
        let leased = leased.map_err(DeliveryFailure::Lease)?;
        self.may_have_more = !leased.is_empty();
        for ready in leased {
            self.running.push(self.deliveries.attempt(ready));
        }
        Ok(())
    }
}

/// Returns the outcome of the next attempt that ends; never, if none is in progress.
async fn next<T>(running: &mut FuturesUnordered<BoxFuture<'static, T>>) -> T {
    match running.next().await {
        Some(outcome) => outcome,
        None => pending().await,
    }
}

/// Waits for `work` while attempts go on and end.
async fn during<T, R>(
    work: impl Future<Output = R>,
    running: &mut FuturesUnordered<BoxFuture<'static, T>>,
    ended: &mut Vec<T>,
) -> R {
    let mut work = pin!(work);
    loop {
        let outcome = match select(work.as_mut(), pin!(next(running))).await {
            Either::Left((done, _)) => return done,
            Either::Right((outcome, _)) => outcome,
        };
        ended.push(outcome);
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
