//! Numbers accesses, and holds them until a worker stores them.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use time::{Duration, OffsetDateTime};

use crate::access::{
    Access, AccessActor, AccessFacts, AccessId, AccessKind, DONE, RunId, UNFINISHED,
};
use crate::{order::OrderId, ports::Clock};

/// Maximum number of accesses that wait to be stored. Beyond it, requests are 503 until the database answers.
const MAX_WAITING: usize = 65_536;

/// Greatest time by which the clock may go back within a run.
const SET_BACK: Duration = Duration::MINUTE;

/// Numbers the accesses of one run. Each number is that of one access, which is stored by the transaction
/// of its change or by a worker.
pub struct AccessRecorder {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    run: RunId,
    /// How many accesses have begun and not ended.
    begun: usize,
    last_number: u64,
    last_at: OffsetDateTime,
    waiting: Vec<Access>,
}

impl AccessRecorder {
    /// Returns the recorder of a run.
    pub fn new(run: RunId, clock: Arc<dyn Clock>) -> Self {
        let last_at = OffsetDateTime::UNIX_EPOCH;
        let state = State { run, begun: 0, last_number: 0, last_at, waiting: Vec::new() };
        Self { clock, state: Mutex::new(state) }
    }

    /// Returns whether so many accesses wait that no request may add one.
    pub fn is_full(&self) -> bool {
        self.waiting() >= MAX_WAITING
    }

    /// Returns how many accesses wait to be stored.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Returns the run, the number that was given last, and an instant after it, as the end of the run. `None`
    /// if no number was given, or if another access may still end or be stored.
    pub(super) fn ending(&self) -> Option<(RunId, u64, OffsetDateTime)> {
        let State { run, begun, last_number, last_at, waiting } = &*self.lock();
        let is_last = *begun == 0 && waiting.is_empty() && *last_number > 0;
        // The clock may have gone back.
        is_last.then(|| (*run, *last_number, self.clock.now().max(*last_at)))
    }

    /// Takes up to `limit` of the accesses that wait, the oldest first. Returns also whether others are left.
    pub(super) fn take(&self, limit: usize) -> (Vec<Access>, bool) {
        let mut state = self.lock();
        let taken = limit.min(state.waiting.len());
        let later = state.waiting.split_off(taken);
        let has_more = !later.is_empty();
        (mem::replace(&mut state.waiting, later), has_more)
    }

    /// Puts accesses back that could not be stored.
    pub(super) fn put_back(&self, mut taken: Vec<Access>) {
        let mut state = self.lock();
        taken.append(&mut state.waiting);
        state.waiting = taken;
    }

    fn next(&self) -> AccessId {
        let mut state = self.lock();
        let now = self.clock.now();
        if now + SET_BACK < state.last_at {
            // The clock was ahead. Instants of a run increase, so later accesses would have those of the future.
            // The run stays open, like that of a process that was killed.
            state.run = state.run.next();
            (state.last_number, state.last_at) = (0, OffsetDateTime::UNIX_EPOCH);
        }
        state.last_number += 1;
        state.last_at = now.max(state.last_at + Duration::MICROSECOND);
        AccessId { at: state.last_at, run: state.run, number: state.last_number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An access that has begun. The number is assigned when the change is stored, else when the request ends.
/// Dropping it earlier records [`UNFINISHED`].
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
        recorder.lock().begun += 1;
        Self(Arc::new(Begun { recorder, facts, orders, id, has_ended }))
    }

    /// Notes how many orders a list has.
    pub fn lists(&self, orders: usize) {
        let _ = self.0.orders.set(u32::try_from(orders).unwrap_or(u32::MAX));
    }

    /// Returns the row that the transaction of a change stores.
    pub fn done(&self) -> Access {
        self.0.row(DONE.to_owned())
    }

    /// Ends the access. A worker stores it, unless a transaction has stored it under its number.
    pub fn end(&self, outcome: String) {
        self.0.end(outcome);
    }
}

impl Begun {
    fn row(&self, outcome: String) -> Access {
        let id = *self.id.get_or_init(|| self.recorder.next());
        let orders = self.orders.get().copied().or(self.facts.orders);
        let facts = AccessFacts { orders, ..self.facts.clone() };
        Access { id, facts, outcome }
    }

    fn end(&self, outcome: String) {
        if self.has_ended.set(()).is_ok() {
            let access = self.row(outcome);
            let mut state = self.recorder.lock();
            state.begun -= 1;
            state.waiting.push(access);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.end(UNFINISHED.to_owned());
    }
}

/// Begins the accesses of an actor without requests: of a command, or of a step in the background.
#[derive(Clone)]
pub struct ActorAccesses {
    /// Numbers them.
    pub recorder: Arc<AccessRecorder>,
    /// The actor.
    pub actor: AccessActor,
}

impl ActorAccesses {
    /// Begins an access to an order.
    pub fn begin(&self, kind: AccessKind, order: OrderId) -> BegunAccess {
        self.begin_any(kind, Some(order))
    }

    /// Begins an access to no single order, such as a list.
    pub(super) fn begin_list(&self, kind: AccessKind) -> BegunAccess {
        self.begin_any(kind, None)
    }

    fn begin_any(&self, kind: AccessKind, order: Option<OrderId>) -> BegunAccess {
        let facts = AccessFacts {
            kind,
            order,
            orders: None,
            position: None,
            actor: self.actor.clone(),
            address: None,
            request_id: None,
        };
        BegunAccess::new(Arc::clone(&self.recorder), facts)
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
