//! Use case: store in batches what requests leave in memory, so that no request waits for the database.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use time::OffsetDateTime;

use crate::{
    ports::StoreError,
    use_cases::background::{BatchSize, Step, Worker},
};

/// Facts of a batch that may fail alone. If more do, the store is at fault.
const MAX_ALONE: usize = 8;

/// Facts that wait in memory, and the store that gets them.
pub trait WaitingFacts: Send + Sync {
    /// A fact.
    type Fact: Send + Sync;

    /// Maximum number of facts in a batch, so that its statements take less than the time limit of a call.
    const BATCH: usize;

    /// Pause after a batch that left none.
    const PAUSE: Duration;

    /// Takes up to `limit` facts. Returns also whether others are left.
    fn take(&self, limit: usize) -> (Vec<Self::Fact>, bool);

    /// Puts facts back that could not be stored. Others may wait meanwhile.
    fn put_back(&self, facts: Vec<Self::Fact>);

    /// Stores facts in one step, all or none.
    fn store(&self, facts: &[Self::Fact]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Stores a batch. Returns whether others are left. After a failure, its facts wait again.
    fn store_batch(&self) -> impl Future<Output = Result<bool, StoreError>> + Send {
        self.store_up_to(Self::BATCH)
    }

    /// Stores a batch of up to `limit` facts. A batch that fails is halved, if its facts may be at fault, so that
    /// one that cannot be stored holds up no other.
    fn store_up_to(&self, limit: usize) -> impl Future<Output = Result<bool, StoreError>> + Send {
        async move {
            let (facts, has_more) = self.take(limit);
            let (mut parts, mut left, mut first_error, mut alone) = (vec![facts], vec![], None, 0);
            while let Some(mut part) = parts.pop() {
                if part.is_empty() {
                    continue;
                }
                let Err(error) = self.store(&part).await else { continue };
                if error.may_be_of_data() && part.len() > 1 && alone < MAX_ALONE {
                    let later = part.split_off(part.len() / 2);
                    parts.extend([later, part]);
                    continue;
                }
                alone += 1;
                left.append(&mut part);
                if !error.may_be_of_data() || alone > MAX_ALONE {
                    // The store is unavailable.
                    left.extend(parts.drain(..).rev().flatten());
                }
                first_error.get_or_insert(error);
            }
            if !left.is_empty() {
                self.put_back(left);
            }
            first_error.map_or(Ok(has_more), Err)
        }
    }
}

/// A worker that stores waiting facts.
pub struct StoreWaiting<W> {
    facts: W,
    batch: BatchSize,
    is_failing: bool,
}

impl<W: WaitingFacts> StoreWaiting<W> {
    /// Returns a worker that stores facts.
    pub fn new(facts: W) -> Self {
        Self { facts, batch: BatchSize::new(W::BATCH), is_failing: false }
    }
}

/// Stores a batch in each step. After a failure, the next step stores its facts. Only the first of several
/// failures in a row is an error.
impl<W: WaitingFacts> Worker for StoreWaiting<W> {
    type Done = ();

    async fn step(&mut self) -> Step<()> {
        let limit = self.batch.get();
        let stored = self.facts.store_up_to(limit).await;
        match &stored {
            Ok(_) => self.batch.worked(),
            Err(error) if error.may_be_of_data() => {}
            Err(_) => self.batch.failed(limit),
        }
        let pause = if matches!(stored, Ok(true)) { Duration::ZERO } else { W::PAUSE };
        let was_failing = mem::replace(&mut self.is_failing, stored.is_err());
        let result = if was_failing { Ok(()) } else { stored.map(drop) };
        Step { result, pause }
    }
}

/// Instants that wait, by what they are of.
pub type Instants<Id> = Mutex<BTreeMap<Id, OffsetDateTime>>;

/// Locks instants.
pub(crate) fn lock<Id>(instants: &Instants<Id>) -> MutexGuard<'_, BTreeMap<Id, OffsetDateTime>> {
    instants.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts instants back, and leaves later ones of the same alone.
pub(crate) fn put_back_earlier<Id: Ord>(instants: &Instants<Id>, facts: Vec<(Id, OffsetDateTime)>) {
    let mut last = lock(instants);
    for (id, at) in facts {
        last.entry(id).or_insert(at);
    }
}

/// Takes the first of the instants, up to `limit`. Returns also whether others are left.
pub(crate) fn take<Id: Ord + Copy>(
    instants: &Instants<Id>,
    limit: usize,
) -> (Vec<(Id, OffsetDateTime)>, bool) {
    let mut all = lock(instants);
    let next = all.keys().nth(limit).copied();
    let later = next.map(|next| all.split_off(&next)).unwrap_or_default();
    let has_more = !later.is_empty();
    (mem::replace(&mut *all, later).into_iter().collect(), has_more)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::test_support::down;

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    /// Numbers that wait, and a store with these outcomes.
    struct Numbers {
        waiting: Instants<u32>,
        outcomes: Mutex<Vec<bool>>,
        stored: Mutex<Vec<Vec<u32>>>,
        /// Numbers that fail every batch that has them.
        bad: Vec<u32>,
    }

    impl Numbers {
        fn worker(waiting: u32, outcomes: &[bool]) -> StoreWaiting<Self> {
            StoreWaiting::new(Self {
                waiting: Mutex::new((0..waiting).map(|number| (number, NOW)).collect()),
                outcomes: Mutex::new(outcomes.iter().rev().copied().collect()),
                stored: Mutex::default(),
                bad: Vec::new(),
            })
        }
    }

    impl WaitingFacts for Numbers {
        type Fact = (u32, OffsetDateTime);

        const BATCH: usize = 3;
        const PAUSE: Duration = Duration::from_secs(1);

        fn take(&self, limit: usize) -> (Vec<Self::Fact>, bool) {
            take(&self.waiting, limit)
        }

        fn put_back(&self, facts: Vec<Self::Fact>) {
            lock(&self.waiting).extend(facts);
        }

        async fn store(&self, facts: &[Self::Fact]) -> Result<(), StoreError> {
            if facts.iter().any(|(number, _)| self.bad.contains(number)) {
                return Err(StoreError::Internal("out of range".into()));
            }
            if !self.outcomes.lock().unwrap().pop().unwrap() {
                return Err(down());
            }
            self.stored.lock().unwrap().push(facts.iter().map(|(number, _)| *number).collect());
            Ok(())
        }
    }

    #[tokio::test]
    async fn failed_facts_are_stored_later_and_first_failure_is_reported() {
        let mut worker = Numbers::worker(2, &[false, false, true, true, false]);
        // A smaller batch takes a shorter call.
        for (is_reported, expected) in [
            (true, Numbers::PAUSE),
            (false, Numbers::PAUSE),
            (false, Duration::ZERO),
            (false, Numbers::PAUSE),
        ] {
            let Step { result, pause } = worker.step().await;
            assert_eq!((result.is_err(), pause), (is_reported, expected));
        }
        assert_eq!(*worker.facts.stored.lock().unwrap(), [[0], [1]]);
        // A failure after a success is reported again.
        lock(&worker.facts.waiting).insert(7, NOW);
        assert!(worker.step().await.result.is_err());
    }

    #[tokio::test]
    async fn full_batch_is_followed_by_the_next_without_pause() {
        let mut worker = Numbers::worker(4, &[true, true]);
        assert_eq!(worker.step().await.pause, Duration::ZERO);
        assert_eq!(worker.step().await.pause, Numbers::PAUSE);
        assert_eq!(*worker.facts.stored.lock().unwrap(), [vec![0, 1, 2], vec![3]]);
    }

    /// A database that fails is not asked at once again.
    #[tokio::test]
    async fn failed_full_batch_is_followed_by_a_pause() {
        assert_eq!(Numbers::worker(4, &[false]).step().await.pause, Numbers::PAUSE);
    }

    #[tokio::test]
    async fn fact_that_cannot_be_stored_holds_up_no_other() {
        let mut worker = Numbers::worker(3, &[true; 2]);
        worker.facts.bad = vec![1];
        let Step { result, pause } = worker.step().await;
        assert_eq!((result.is_err(), pause), (true, Numbers::PAUSE));
        assert_eq!(*worker.facts.stored.lock().unwrap(), [[0], [2]]);
        assert_eq!(lock(&worker.facts.waiting).keys().collect::<Vec<_>>(), [&1]);
    }

    #[tokio::test]
    async fn store_is_not_asked_for_nothing() {
        let Step { result, pause } = Numbers::worker(0, &[]).step().await;
        assert_eq!((result.is_ok(), pause), (true, Numbers::PAUSE));
    }
}
