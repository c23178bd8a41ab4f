//! Use case: store the accesses that requests have left.

use std::{sync::Arc, time::Duration};

use crate::use_cases::accesses::recorder::AccessRecorder;
use crate::{
    ports::{AccessLog, StoreError},
    use_cases::background::{FirstFailure, Step},
};

/// Pause between two steps. With the time of a step, at most a second of accesses is lost by a crash.
const PAUSE: Duration = Duration::from_millis(500);

/// Stores accesses, so that no read waits for the database.
pub struct KeepAccesses {
    log: Arc<dyn AccessLog>,
    recorder: Arc<AccessRecorder>,
    failure: FirstFailure,
}

impl KeepAccesses {
    /// Returns a worker that stores the accesses of a run.
    pub fn new(log: Arc<dyn AccessLog>, recorder: Arc<AccessRecorder>) -> Self {
        Self { log, recorder, failure: FirstFailure::default() }
    }

    /// Stores the oldest accesses that wait. After a failure, the next step stores them. Only the first of
    /// several failures in a row is an error.
    pub async fn step(&mut self) -> Step<()> {
        let stored = self.recorder.store(&*self.log).await;
        let pause = if matches!(stored, Ok(true)) { Duration::ZERO } else { PAUSE };
        Step { result: self.failure.report(stored.map(drop)), pause }
    }

    /// Ends the run after the last step. Leaves it open if accesses wait that could not be stored.
    pub async fn end(&self) -> Result<(), StoreError> {
        self.recorder.end(&*self.log).await
    }
}

#[cfg(test)]
mod tests {
    use ::time::{OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        access::{DONE, RunId},
        ports::MockAccessLog,
        test_support::{access_facts, clock, down},
        use_cases::accesses::recorder::{BATCH, BegunAccess},
    };

    const NOW: OffsetDateTime = datetime!(2026-11-28 12:00 UTC);

    fn worker(log: MockAccessLog, recorder: &Arc<AccessRecorder>) -> KeepAccesses {
        KeepAccesses::new(Arc::new(log), Arc::clone(recorder))
    }

    /// Returns a recorder with so many accesses.
    fn recorder(accesses: usize) -> Arc<AccessRecorder> {
        let recorder = Arc::new(AccessRecorder::new(RunId(7), clock(NOW)));
        for _ in 0..accesses {
            BegunAccess::new(recorder.clone(), access_facts()).end(DONE.to_owned());
        }
        recorder
    }

    #[tokio::test]
    async fn failed_accesses_are_stored_later_and_reported_once() {
        let mut log = MockAccessLog::new();
        let mut replies = [false, false, true].into_iter();
        log.expect_store()
            .withf(|stored| stored.len() == 2)
            .times(3)
            .returning(move |_| if replies.next() == Some(true) { Ok(()) } else { Err(down()) });
        let recorder = recorder(2);
        let mut worker = worker(log, &recorder);
        for is_reported in [true, false, false] {
            // The run stays open while accesses wait.
            worker.end().await.unwrap();
            let step = worker.step().await;
            assert_eq!((step.result.is_err(), step.pause), (is_reported, PAUSE));
        }
        // Nothing is left.
        assert!(worker.step().await.result.is_ok());
    }

    #[tokio::test]
    async fn full_batch_is_followed_by_the_next_without_pause() {
        let mut log = MockAccessLog::new();
        let mut sizes = [BATCH, 1].into_iter();
        log.expect_store().times(2).returning(move |stored| {
            assert_eq!(Some(stored.len()), sizes.next());
            Ok(())
        });
        let mut worker = worker(log, &recorder(BATCH + 1));
        assert_eq!(worker.step().await.pause, Duration::ZERO);
        assert_eq!(worker.step().await.pause, PAUSE);
    }

    #[tokio::test]
    async fn run_ends_with_its_last_number() {
        let mut log = MockAccessLog::new();
        log.expect_store().once().returning(|_| Ok(()));
        log.expect_end()
            .once()
            // The clock stands, and the instants of a run increase.
            .withf(|run, last, at| {
                (*run, *last, *at) == (RunId(7), 3, NOW + ::time::Duration::microseconds(2))
            })
            .returning(|_, _, _| Ok(()));
        worker(MockAccessLog::new(), &recorder(0)).end().await.unwrap();
        let mut worker = worker(log, &recorder(3));
        worker.step().await.result.unwrap();
        worker.end().await.unwrap();
    }
}
