//! Use case: store the accesses that requests have left.

use std::{sync::Arc, time::Duration};

use super::recorder::AccessRecorder;
use crate::{
    access::Access,
    ports::{AccessLog, StoreError},
    use_cases::store_waiting::WaitingFacts,
};

/// The accesses of a run that wait, and the log.
#[derive(Clone)]
pub struct KeepAccesses {
    /// Stores them.
    pub log: Arc<dyn AccessLog>,
    /// Has those that are not stored yet.
    pub recorder: Arc<AccessRecorder>,
}

impl KeepAccesses {
    /// Stores that the run has ended, so that its last numbers can be missed. A run without an access has no
    /// row, and one whose accesses have not ended or still wait stays open.
    pub async fn end(&self) -> Result<(), StoreError> {
        match self.recorder.ending() {
            Some((run, last_number, at)) => self.log.end(run, last_number, at).await,
            None => Ok(()),
        }
    }
}

impl WaitingFacts for KeepAccesses {
    type Fact = Access;

    /// All of a second, at 32,000 reads a second: each commit costs the readers of SQLite their page caches, and
    /// rows of a larger batch share pages.
    const BATCH: usize = 32_768;
    /// With the time of a step, at most two seconds of accesses are lost by a crash.
    const PAUSE: Duration = Duration::from_secs(1);

    fn take(&self, limit: usize) -> (Vec<Access>, bool) {
        self.recorder.take(limit)
    }

    fn put_back(&self, accesses: Vec<Access>) {
        self.recorder.put_back(accesses);
    }

    async fn store(&self, accesses: &[Access]) -> Result<(), StoreError> {
        self.log.store(accesses).await
    }
}

#[cfg(test)]
mod tests {
    use ::time::{Duration, OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        access::{DONE, RunId},
        ports::{MockAccessLog, MockClock},
        test_support::{access_facts, down},
        use_cases::accesses::recorder::BegunAccess,
    };

    const NOW: OffsetDateTime = datetime!(2026-11-28 12:00 UTC);

    /// Returns what keeps the accesses of a run, at a clock that shows these seconds, the last one for good.
    fn keeping(log: MockAccessLog, seconds: &'static [i64]) -> KeepAccesses {
        let mut clock = MockClock::new();
        let mut shown = seconds.iter().chain(std::iter::repeat(&seconds[seconds.len() - 1]));
        clock.expect_now().returning(move || NOW + Duration::seconds(*shown.next().unwrap()));
        let recorder = Arc::new(AccessRecorder::new(RunId(7), Arc::new(clock)));
        KeepAccesses { log: Arc::new(log), recorder }
    }

    fn begin(keeping: &KeepAccesses) -> BegunAccess {
        BegunAccess::new(keeping.recorder.clone(), access_facts())
    }

    /// Returns a log of a run that ends once, with a number at an instant.
    fn ending_with(number: u64, ended_at: OffsetDateTime) -> MockAccessLog {
        let mut log = MockAccessLog::new();
        log.expect_end()
            .once()
            .withf(move |run, last, at| (*run, *last, *at) == (RunId(7), number, ended_at))
            .returning(|_, _, _| Ok(()));
        log
    }

    #[tokio::test]
    async fn run_ends_with_its_last_number() {
        // The clock stands, and the instants of a run increase.
        let mut log = ending_with(3, NOW + 2 * Duration::MICROSECOND);
        log.expect_store().once().returning(|_| Ok(()));
        let keeping = keeping(log, &[0]);
        for _ in 0..3 {
            begin(&keeping).end(DONE.to_owned());
        }
        keeping.store_batch().await.unwrap();
        keeping.end().await.unwrap();
    }

    #[tokio::test]
    async fn run_without_an_access_has_no_end() {
        keeping(MockAccessLog::new(), &[0]).end().await.unwrap();
    }

    #[tokio::test]
    async fn run_stays_open_while_accesses_wait() {
        let mut log = MockAccessLog::new();
        log.expect_store().once().returning(|_| Err(down()));
        let keeping = keeping(log, &[0]);
        begin(&keeping).end(DONE.to_owned());
        assert!(keeping.store_batch().await.is_err());
        keeping.end().await.unwrap();
    }

    /// Its number would be missing: the transaction of its change may be undone.
    #[tokio::test]
    async fn run_stays_open_while_an_access_has_not_ended() {
        let mut log = ending_with(2, NOW + Duration::MICROSECOND);
        log.expect_store().times(2).returning(|_| Ok(()));
        let keeping = keeping(log, &[0]);
        let (read, change) = (begin(&keeping), begin(&keeping));
        read.end(DONE.to_owned());
        for _ in 0..2 {
            keeping.store_batch().await.unwrap();
            keeping.end().await.unwrap();
            change.done();
        }
        change.end("unavailable".to_owned());
        keeping.end().await.unwrap();
        keeping.store_batch().await.unwrap();
        keeping.end().await.unwrap();
    }

    #[tokio::test]
    async fn run_ends_after_its_accesses_though_the_clock_goes_back() {
        let mut log = ending_with(1, NOW + Duration::seconds(5));
        log.expect_store().once().returning(|_| Ok(()));
        let keeping = keeping(log, &[5, 2]);
        begin(&keeping).end(DONE.to_owned());
        keeping.store_batch().await.unwrap();
        keeping.end().await.unwrap();
    }
}
