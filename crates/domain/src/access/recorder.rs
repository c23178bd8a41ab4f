//! Numbers accesses, and holds them until a worker stores them.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use time::{Duration, OffsetDateTime};

use super::{Access, AccessActor, AccessFacts, AccessId, AccessKind, DONE, RunId};
use crate::{order::OrderId, ports::Clock};

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
        let state =
            State { last_number: 0, last_at: OffsetDateTime::UNIX_EPOCH, waiting: Vec::new() };
        Self { run, clock, state: Mutex::new(state) }
    }

    /// Returns the run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns whether so many accesses wait that no request may add one.
    pub fn is_full(&self) -> bool {
        self.lock().waiting.len() >= MAX_WAITING
    }

    /// Returns the number that was given last; 0 if none was.
    pub fn last_number(&self) -> u64 {
        self.lock().last_number
    }

    /// Takes up to `limit` of the accesses that wait, the oldest first. Returns also whether others are left.
    pub(crate) fn take(&self, limit: usize) -> (Vec<Access>, bool) {
        let mut state = self.lock();
        let taken = limit.min(state.waiting.len());
        let later = state.waiting.split_off(taken);
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
/// or at its end.
#[derive(Clone)]
pub struct BegunAccess {
    recorder: Arc<AccessRecorder>,
    facts: AccessFacts,
    id: Arc<OnceLock<AccessId>>,
}

impl BegunAccess {
    /// Begins an access.
    pub fn new(recorder: Arc<AccessRecorder>, facts: AccessFacts) -> Self {
        Self { recorder, facts, id: Arc::default() }
    }

    /// Returns the row that the transaction of a change stores.
    pub fn done(&self) -> Access {
        self.row(DONE.to_owned())
    }

    /// Ends the access. A worker stores it, unless a transaction has stored it under its number.
    pub fn end(&self, outcome: String) {
        let access = self.row(outcome);
        self.recorder.lock().waiting.push(access);
    }

    fn row(&self, outcome: String) -> Access {
        let id = *self.id.get_or_init(|| self.recorder.next());
        Access { id, facts: self.facts.clone(), outcome }
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
        let facts = AccessFacts {
            kind,
            order: Some(order),
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
