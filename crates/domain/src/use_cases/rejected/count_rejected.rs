//! Use case: count rejected requests, store the counts, and tell a key its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration as Pause,
};

use time::{Duration, OffsetDateTime};

use crate::{
    access::RunId,
    api_key::ApiKeyId,
    ports::{Clock, RejectedLog, StoreError},
    rejected::{COUNTED, Rejected},
    use_cases::store_waiting::WaitingFacts,
};

/// Maximum number of counts in memory. Beyond it, a request with another key or code is not counted until the
/// database has stored some.
const MAX_WAITING: usize = 1_000;

/// Time for which a count grows.
const GROWS: Duration = Duration::MINUTE;

/// Counts rejected requests in memory, and stores the counts. A count is stored each time it has grown, so that one
/// row has the requests of a minute.
#[derive(Clone)]
pub struct CountRejected {
    /// Stores counts.
    pub log: Arc<dyn RejectedLog>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// The start of this instance.
    pub run: RunId,
    /// Counts that may grow, or are not stored yet.
    pub counts: Arc<Mutex<Counts>>,
}

/// The counts by key, code and instant.
pub type Counts = BTreeMap<(ApiKeyId, &'static str, OffsetDateTime), Counted>;

/// A count in memory.
pub struct Counted {
    count: Rejected,
    /// How many of its requests are stored.
    stored: u64,
}

impl CountRejected {
    /// Counts a request of a key. `faults` are the fields at fault with the codes of their faults.
    pub fn count<'a>(
        &self,
        key: ApiKeyId,
        code: &'static str,
        request_id: &str,
        faults: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        let now = self.clock.now();
        let mut counts = self.lock();
        let of_code = (key, code, OffsetDateTime::UNIX_EPOCH)..;
        let of_code = counts.range_mut(of_code).take_while(|(id, _)| (id.0, id.1) == (key, code));
        if let Some((_, growing)) = of_code.last()
            && grows(&growing.count, now)
        {
            growing.count.add(request_id, faults);
        } else if counts.len() < MAX_WAITING {
            let mut count = Rejected::none(key, now, code, self.run);
            count.add(request_id, faults);
            counts.insert((key, code, now), Counted { count, stored: 0 });
        }
    }

    /// Returns how many requests of a key were rejected within [`COUNTED`], by code.
    pub async fn of_key(&self, key: ApiKeyId) -> Result<BTreeMap<String, u64>, StoreError> {
        let after = self.clock.now().saturating_sub(COUNTED);
        let mut by_code = self.log.counts(key, after).await?;
        for Counted { count, stored } in self.lock().values().filter(|it| it.count.key == key) {
            if count.requests > *stored {
                *by_code.entry(count.code.clone()).or_default() += count.requests - stored;
            }
        }
        Ok(by_code)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn grows(count: &Rejected, now: OffsetDateTime) -> bool {
    (now - count.at).abs() < GROWS
}

impl WaitingFacts for CountRejected {
    type Fact = Rejected;

    const BATCH: usize = 100;
    const PAUSE: Pause = Pause::from_secs(1);

    /// A count stays in memory until it is stored and grows no more.
    fn take(&self, limit: usize) -> (Vec<Rejected>, bool) {
        let now = self.clock.now();
        let mut counts = self.lock();
        counts.retain(|_, it| it.count.requests > it.stored || grows(&it.count, now));
        let mut grown = counts.values().filter(|it| it.count.requests > it.stored);
        let taken = grown.by_ref().take(limit).map(|it| it.count.clone()).collect();
        (taken, grown.next().is_some())
    }

    /// Does nothing: a count that was not stored is still there.
    fn put_back(&self, _: Vec<Rejected>) {}

    async fn store(&self, facts: &[Rejected]) -> Result<(), StoreError> {
        self.log.store(facts).await?;
        let mut counts = self.lock();
        for it in counts.values_mut() {
            let is_stored = |fact: &&Rejected| {
                (fact.key, fact.at, &fact.code) == (it.count.key, it.count.at, &it.count.code)
            };
            if let Some(fact) = facts.iter().find(is_stored) {
                it.stored = fact.requests;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::{
        ports::{MockClock, MockRejectedLog},
        test_support::{clock, down},
    };

    const NOW: OffsetDateTime = datetime!(2026-12-01 02:00 UTC);
    const KEY: ApiKeyId = ApiKeyId(1);
    const CODE: &str = "validation_failed";

    fn counting(log: MockRejectedLog) -> CountRejected {
        let counts = Arc::default();
        CountRejected { log: Arc::new(log), clock: clock(NOW), run: RunId(7), counts }
    }

    /// Sets the clock of the use case.
    fn at(counting: &mut CountRejected, now: OffsetDateTime) {
        counting.clock = clock(now);
    }

    fn numbers(taken: &(Vec<Rejected>, bool)) -> Vec<u64> {
        taken.0.iter().map(|count| count.requests).collect()
    }

    #[tokio::test]
    async fn count_is_stored_again_when_it_has_grown() {
        let mut log = MockRejectedLog::new();
        log.expect_store().returning(|_| Ok(()));
        let mut counting = counting(log);
        counting.count(KEY, CODE, "a", [("/a", "required")]);
        counting.count(KEY, CODE, "b", []);
        for (later, expected) in [(0, vec![2]), (0, vec![]), (1, vec![3]), (1, vec![])] {
            if later == 1 && !expected.is_empty() {
                at(&mut counting, NOW + Duration::SECOND);
                counting.count(KEY, CODE, "c", []);
            }
            let taken = counting.take(100);
            assert_eq!(numbers(&taken), expected);
            counting.store(&taken.0).await.unwrap();
        }
        // A count of the minute after is another one.
        at(&mut counting, NOW + Duration::MINUTE);
        counting.count(KEY, CODE, "d", []);
        let taken = counting.take(100);
        assert_eq!(numbers(&taken), [1]);
        assert_eq!(taken.0[0].at, NOW + Duration::MINUTE);
        counting.store(&taken.0).await.unwrap();
        at(&mut counting, NOW + Duration::HOUR);
        assert_eq!(numbers(&counting.take(100)), Vec::<u64>::new());
        assert_eq!(counting.lock().len(), 0, "what is stored and grows no more is forgotten");
    }

    #[tokio::test]
    async fn count_that_could_not_be_stored_is_stored_later() {
        let (mut log, mut outcomes) = (MockRejectedLog::new(), vec![Ok(()), Err(down())]);
        log.expect_store().times(2).returning(move |_| outcomes.pop().unwrap());
        let mut counting = counting(log);
        counting.count(KEY, CODE, "a", []);
        assert!(counting.store_batch().await.is_err());
        at(&mut counting, NOW + Duration::HOUR);
        assert!(!counting.store_batch().await.unwrap());
        assert_eq!(numbers(&counting.take(100)), Vec::<u64>::new());
    }

    #[tokio::test]
    async fn keys_and_codes_have_counts_of_their_own() {
        let counting = counting(MockRejectedLog::new());
        for (key, code) in [(1, CODE), (1, "forbidden"), (2, CODE), (1, CODE)] {
            counting.count(ApiKeyId(key), code, "a", []);
        }
        let (taken, has_more) = counting.take(2);
        assert!(has_more);
        let ids: Vec<_> = taken.iter().map(|it| (it.key.0, &*it.code, it.requests)).collect();
        assert_eq!(ids, [(1, "forbidden", 1), (1, CODE, 2)]);
        assert!(!counting.take(3).1);
    }

    #[tokio::test]
    async fn memory_of_counts_is_bounded() {
        let counting = counting(MockRejectedLog::new());
        for key in 0..2_000 {
            counting.count(ApiKeyId(key), CODE, "a", []);
        }
        counting.count(ApiKeyId(0), CODE, "a", []);
        let counts = counting.take(usize::MAX).0;
        assert_eq!((counts.len(), counts[0].requests), (MAX_WAITING, 2));
    }

    #[tokio::test]
    async fn key_reads_the_counts_of_a_day_with_what_waits() {
        let mut log = MockRejectedLog::new();
        log.expect_counts()
            .withf(|key, after| (*key, *after) == (KEY, NOW - Duration::DAY))
            .returning(|_, _| Ok(BTreeMap::from([(CODE.to_owned(), 5)])));
        log.expect_store().returning(|_| Ok(()));
        let counting = counting(log);
        counting.count(KEY, CODE, "a", []);
        counting.count(ApiKeyId(2), CODE, "a", []);
        counting.count(KEY, "forbidden", "a", []);
        let read = counting.of_key(KEY).await.unwrap();
        assert_eq!(read, BTreeMap::from([(CODE.to_owned(), 6), ("forbidden".to_owned(), 1)]));
        counting.store_batch().await.unwrap();
        let read = counting.of_key(KEY).await.unwrap();
        assert_eq!(read, BTreeMap::from([(CODE.to_owned(), 5)]));
    }

    #[test]
    fn clock_that_goes_back_begins_another_count() {
        let mut counting = counting(MockRejectedLog::new());
        counting.count(KEY, CODE, "a", []);
        let mut back = MockClock::new();
        back.expect_now().return_const(NOW - Duration::HOUR);
        counting.clock = Arc::new(back);
        counting.count(KEY, CODE, "b", []);
        assert_eq!(counting.take(100).0.len(), 2);
    }
}
