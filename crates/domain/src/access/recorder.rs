//! Numbers accesses, and holds them until a worker stores them.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use time::{Duration, OffsetDateTime};

use super::{Access, AccessFacts, AccessId, DONE, RunId, UNFINISHED};
use crate::ports::Clock;

/// Maximum number of accesses that wait to be stored. Beyond it, requests are 503 until the database answers.
const MAX_WAITING: usize = 65_536;

/// Numbers the accesses of one run. Each number is that of one access, which is stored by the transaction
/// of its change or by a worker.
pub struct AccessRecorder {
    run: RunId,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    last_number: u64,
    last_at: OffsetDateTime,
    waiting: Vec<Access>,
}

impl AccessRecorder {
    /// Returns the recorder of a run.
    pub fn new(run: RunId, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            last_number: 0,
            last_at: OffsetDateTime::UNIX_EPOCH,
            waiting: Vec::new(),
        };
        Self { run, clock, state: Mutex::new(state) }
    }

    /// Returns the run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns whether so many accesses wait that no request may add one.
    pub fn is_full(&self) -> bool {
        self.waiting() >= MAX_WAITING
    }

    /// Returns how many accesses wait to be stored.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Returns the number that was given last; 0 if none was.
    pub fn last_number(&self) -> u64 {
        self.lock().last_number
    }

    /// Takes up to `limit` of the accesses that wait, the oldest first. Returns also whether others are left.
    pub(crate) fn take(&self, limit: usize) -> (Vec<Access>, bool) {
        let mut state = self.lock();
        let later = state.waiting.split_off(limit.min(state.waiting.len()));
        let has_more = !later.is_empty();
        (mem::replace(&mut state.waiting, later), has_more)
    }

    /// Puts accesses back that could not be stored.
    pub(crate) fn put_back(&self, mut taken: Vec<Access>) {
        let mut state = self.lock();
        taken.append(&mut state.waiting);
        state.waiting = taken;
    }

    fn next(&self) -> AccessId {
        let mut state = self.lock();
        state.last_number += 1;
        state.last_at = self.clock.now().max(state.last_at + Duration::MICROSECOND);
        AccessId { at: state.last_at, run: self.run, number: state.last_number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An access that has begun. It gets its number as late as can be: when the transaction of a change stores it,
/// or at its end. One that is dropped before has the outcome [`UNFINISHED`].
#[derive(Clone)]
pub struct BegunAccess(Arc<Begun>);

struct Begun {
    recorder: Arc<AccessRecorder>,
    facts: AccessFacts,
    orders: OnceLock<u32>,
    id: OnceLock<AccessId>,
    has_ended: OnceLock<()>,
}

impl BegunAccess {
    /// Begins an access.
    pub fn new(recorder: Arc<AccessRecorder>, facts: AccessFacts) -> Self {
        let (orders, id, has_ended) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self(Arc::new(Begun { recorder, facts, orders, id, has_ended }))
    }

    /// Notes how many orders a list has.
    pub fn lists(&self, orders: usize) {
        let _ = self.0.orders.set(u32::try_from(orders).unwrap_or(u32::MAX));
    }

    /// Returns the row that the transaction of a change stores.
    pub fn done(&self) -> Access {
        self.0.row(DONE)
    }

    /// Ends the access. A worker stores it, unless a transaction has stored it under its number.
    pub fn end(&self, outcome: &str) {
        self.0.end(outcome);
    }
}

impl Begun {
    fn row(&self, outcome: &str) -> Access {
        let id = *self.id.get_or_init(|| self.recorder.next());
        let orders = self.orders.get().copied().or(self.facts.orders);
        let facts = AccessFacts { orders, ..self.facts.clone() };
        Access { id, facts, outcome: outcome.to_owned() }
    }

    fn end(&self, outcome: &str) {
        if self.has_ended.set(()).is_ok() {
            let access = self.row(outcome);
            self.recorder.lock().waiting.push(access);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.end(UNFINISHED);
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::test_support::{access_facts, clock};

    fn recorder() -> Arc<AccessRecorder> {
        Arc::new(AccessRecorder::new(RunId(7), clock(datetime!(2026-11-28 12:00 UTC))))
    }

    fn outcomes(recorder: &AccessRecorder) -> Vec<(u64, String)> {
        let (taken, _) = recorder.take(usize::MAX);
        taken.into_iter().map(|access| (access.id.number, access.outcome)).collect()
    }

    #[test]
    fn access_has_one_number_and_one_row() {
        let recorder = recorder();
        let access = BegunAccess::new(recorder.clone(), access_facts());
        let (row, again) = (access.done(), access.done());
        assert_eq!((row.id.number, &*row.outcome, row), (1, DONE, again));
        access.end("not_found");
        access.end(DONE);
        drop(access);
        assert_eq!(outcomes(&recorder), [(1, "not_found".to_owned())]);
    }

    #[test]
    fn access_without_an_end_is_unfinished_when_nothing_works_on_it() {
        let recorder = recorder();
        let access = BegunAccess::new(recorder.clone(), access_facts());
        let work = access.clone();
        drop(access);
        assert_eq!((recorder.waiting(), recorder.last_number()), (0, 0));
        drop(work);
        assert_eq!(outcomes(&recorder), [(1, UNFINISHED.to_owned())]);
    }

    #[test]
    fn instants_increase_with_the_numbers_on_a_clock_that_stands_still() {
        let recorder = recorder();
        for orders in [0, 3] {
            let access = BegunAccess::new(recorder.clone(), access_facts());
            access.lists(orders);
            access.end(DONE);
        }
        let (taken, has_more) = recorder.take(1);
        assert_eq!((taken.len(), has_more, recorder.waiting()), (1, true, 1));
        recorder.put_back(taken);
        let (taken, has_more) = recorder.take(2);
        let [first, second] = [&taken[0], &taken[1]];
        assert!(!has_more && first.id.at < second.id.at && first.id.number < second.id.number);
        assert_eq!([first.facts.orders, second.facts.orders], [Some(0), Some(3)]);
    }
}
