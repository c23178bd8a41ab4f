//! A row of the table of workers.

use std::sync::Arc;

use anyhow::Result;
use domain::use_cases::{
    background::{Step, Worker},
    store_waiting::{StoreWaiting, WaitingFacts},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::outages::{DATABASE, Outages};

/// The tasks of the service. They end only after a failure or a stop.
pub(crate) type Tasks = JoinSet<Result<()>>;

/// Held by everything that leaves accesses. The worker that stores them ends after the last one is dropped.
pub(crate) type LeavesAccesses = Arc<DropGuard>;

/// A worker, and what is said about its steps.
pub(super) struct Row {
    /// The text of the log about a step that failed.
    failure: &'static str,
    /// The dependency that a successful step shows to work.
    dependency: &'static str,
    worker: Box<dyn Steps>,
    /// Whether it stores what requests leave: it stores the rest after the stop, and hides its failures but the
    /// first, so that a step without one shows nothing.
    is_storing: bool,
    /// The event before its first step; `None` if it waits for none.
    begin: Option<CancellationToken>,
}

impl Row {
    /// Returns a worker, and what reports the work of a step.
    pub(super) fn new<W: Worker + 'static>(
        failure: &'static str,
        dependency: &'static str,
        worker: W,
        report: impl FnMut(W::Done) + Send + 'static,
    ) -> Self {
        Self {
            failure,
            dependency,
            worker: Box::new(Reported { worker, report }),
            is_storing: false,
            begin: None,
        }
    }

    /// Returns the worker, which waits for this before its first step.
    pub(super) fn after(self, begin: &CancellationToken) -> Self {
        Self { begin: Some(begin.clone()), ..self }
    }

    /// Returns a worker that stores facts in the database.
    pub(super) fn storing(failure: &'static str, facts: impl WaitingFacts + 'static) -> Self {
        let row = Self::new(failure, DATABASE, StoreWaiting::new(facts), drop);
        Self { is_storing: true, ..row }
    }

    /// Repeats the steps until the stop.
    pub(super) async fn run(
        mut self,
        outages: Arc<Outages>,
        stop: CancellationToken,
    ) -> Result<()> {
        if let Some(begin) = &self.begin
            && stop.run_until_cancelled(begin.cancelled()).await.is_none()
        {
            return Ok(());
        }
        loop {
            let is_stopped = stop.is_cancelled();
            if is_stopped && !self.is_storing {
                return Ok(());
            }
            let Step { result, pause } = self.worker.step().await;
            match result {
                Ok(()) if self.is_storing => {}
                Ok(()) => outages.worked(self.dependency),
                Err(error) => outages.failed(self.dependency, self.failure, &error),
            }
            if is_stopped && !pause.is_zero() {
                return Ok(());
            }
            let _ = stop.run_until_cancelled(sleep(pause)).await;
        }
    }
}

/// The steps of any worker.
trait Steps: Send {
    fn step(&mut self) -> BoxFuture<'_, Step<()>>;
}

struct Reported<W, R> {
    worker: W,
    report: R,
}

impl<W: Worker, R: FnMut(W::Done) + Send> Steps for Reported<W, R> {
    fn step(&mut self) -> BoxFuture<'_, Step<()>> {
        async {
            let Step { result, pause } = self.worker.step().await;
            Step { result: result.map(&mut self.report), pause }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use contract_tests::fakes::ManualClock;

    use super::*;

    /// A worker with two more batches to store. Counts its steps.
    struct Batches(Arc<AtomicUsize>);

    impl Worker for Batches {
        type Done = ();

        async fn step(&mut self) -> Step<()> {
            let is_last = self.0.fetch_add(1, Ordering::Relaxed) == 2;
            let pause = if is_last { Duration::from_secs(60) } else { Duration::ZERO };
            Step { result: Ok(()), pause }
        }
    }

    #[tokio::test]
    async fn worker_begins_after_what_it_waits_for() {
        for is_given in [false, true] {
            let (steps, begin) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
            if is_given {
                begin.cancel();
            }
            let row = Row::new("it failed", DATABASE, Batches(steps.clone()), drop).after(&begin);
            let outages = Arc::new(Outages::new(Arc::new(ManualClock::default())));
            assert!(row.run(outages, CancellationToken::new()).now_or_never().is_none());
            assert_eq!(steps.load(Ordering::Relaxed) > 0, is_given);
        }
    }

    #[tokio::test]
    async fn only_storing_worker_goes_on_after_the_stop_until_nothing_waits() {
        for (is_storing, expected) in [(true, 3), (false, 0)] {
            let (steps, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
            stop.cancel();
            let row = Row::new("it failed", DATABASE, Batches(steps.clone()), drop);
            let outages = Arc::new(Outages::new(Arc::new(ManualClock::default())));
            Row { is_storing, ..row }.run(outages, stop).await.unwrap();
            assert_eq!(steps.load(Ordering::Relaxed), expected);
        }
    }
}
