//! Numbers accesses, and holds them until a worker stores them.

use std::{
    collections::BTreeMap,
    mem,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use time::{Duration, OffsetDateTime};

use crate::access::{
    Access, AccessActor, AccessFacts, AccessId, AccessKind, COUNTED, DONE, MAX_REFUSED,
    REFUSED_ROWS, REFUSED_ROWS_OF_SITE, REFUSED_WINDOW, RunId, SITE_BITS, UNFINISHED, network_of,
};
use crate::{order::OrderId, person::Doer, ports::Clock};

/// Maximum number of accesses that wait to be stored. Beyond it, requests are 503 until the database answers.
const MAX_WAITING: usize = 65_536;

/// Greatest time by which the clock may go back within a run.
const SET_BACK: Duration = Duration::MINUTE;

/// Time between two rows that count the refused requests of a key, a person or a site.
const COUNTED_EVERY: Duration = Duration::MINUTE;

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
    refused: BTreeMap<Refuser, Refused>,
}

/// Those whose refused requests are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Refuser {
    /// A key or a person.
    Doer(Doer),
    /// Those of a site who are not signed in.
    Site(IpAddr),
    /// All others who are not signed in.
    Strangers,
}

impl Refuser {
    fn rows(self) -> u32 {
        match self {
            Self::Doer(_) | Self::Strangers => REFUSED_ROWS,
            Self::Site(_) => REFUSED_ROWS_OF_SITE,
        }
    }

    fn address(self) -> Option<IpAddr> {
        match self {
            Self::Site(site) => Some(site),
            Self::Doer(_) | Self::Strangers => None,
        }
    }
}

/// Their refused requests in an hour.
struct Refused {
    actor: AccessActor,
    since: OffsetDateTime,
    /// How many have rows.
    rows: u32,
    /// How many have none and are not counted by a row yet.
    uncounted: u32,
    /// When a row counted others, or the hour began.
    counted_at: OffsetDateTime,
}

impl Refused {
    fn since(now: OffsetDateTime, actor: AccessActor) -> Self {
        Self { actor, since: now, rows: 0, uncounted: 0, counted_at: now }
    }

    fn is_over(&self, now: OffsetDateTime) -> bool {
        (now - self.since).abs() >= REFUSED_WINDOW
    }

    /// Adds a request. Returns whether it gets a row of its own.
    fn adds_row(&mut self, max_rows: u32, now: OffsetDateTime) -> bool {
        if self.is_over(now) {
            (self.since, self.rows) = (now, 0);
        }
        let has_row = self.rows < max_rows;
        let count = if has_row { &mut self.rows } else { &mut self.uncounted };
        *count = count.saturating_add(1);
        has_row
    }

    /// Returns the row of those that have none.
    fn count(&mut self, id: AccessId, address: Option<IpAddr>) -> Access {
        self.counted_at = id.at;
        let facts = AccessFacts {
            kind: AccessKind::Refused,
            order: None,
            orders: Some(mem::take(&mut self.uncounted)),
            position: None,
            subject: None,
            actor: self.actor.clone(),
            address,
            request_id: None,
        };
        Access { id, facts, outcome: COUNTED.to_owned() }
    }
}

impl AccessRecorder {
    /// Returns the recorder of a run.
    pub fn new(run: RunId, clock: Arc<dyn Clock>) -> Self {
        let last_at = OffsetDateTime::UNIX_EPOCH;
        let (waiting, refused) = (Vec::new(), BTreeMap::new());
        let state = State { run, begun: 0, last_number: 0, last_at, waiting, refused };
        Self { clock, state: Mutex::new(state) }
    }

    /// Returns the run. It changes when the clock goes back.
    pub fn run(&self) -> RunId {
        self.lock().run
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
        let State { run, begun, last_number, last_at, waiting, .. } = &*self.lock();
        let is_last = *begun == 0 && waiting.is_empty() && *last_number > 0;
        // The clock may have gone back.
        is_last.then(|| (*run, *last_number, self.clock.now().max(*last_at)))
    }

    /// Takes up to `limit` of the accesses that wait, the oldest first. Returns also whether others are left.
    pub(super) fn take(&self, limit: usize) -> (Vec<Access>, bool) {
        self.count_refused(|of_key, now| (now - of_key.counted_at).abs() >= COUNTED_EVERY);
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

    /// Adds the rows that count refused requests, also those of the last minute: no others follow.
    pub fn count_last_refused(&self) {
        self.count_refused(|_, _| true);
    }

    fn count_refused(&self, is_due: impl Fn(&Refused, OffsetDateTime) -> bool) {
        let mut state = self.lock();
        if state.refused.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut refused = mem::take(&mut state.refused);
        refused.retain(|refuser, theirs| {
            if theirs.uncounted > 0 && is_due(theirs, now) {
                let id = self.next(&mut state);
                state.waiting.push(theirs.count(id, refuser.address()));
            }
            theirs.uncounted > 0 || !theirs.is_over(now)
        });
        state.refused = refused;
    }

    /// Adds a refused request. Returns whether it gets a row of its own.
    fn adds_row_of_refused(&self, AccessFacts { actor, address, .. }: &AccessFacts) -> bool {
        let refuser = match actor {
            AccessActor::Key { id, .. } => Refuser::Doer(Doer::Key(*id)),
            AccessActor::Person { id, .. } => Refuser::Doer(Doer::Person(*id)),
            AccessActor::Nobody => {
                let site = |address| Refuser::Site(network_of(address, SITE_BITS));
                address.map_or(Refuser::Strangers, site)
            }
            AccessActor::Operator { .. } => return true,
        };
        let now = self.clock.now();
        let mut state = self.lock();
        let counts = &mut state.refused;
        let is_one_too_many = counts.len() >= MAX_REFUSED && !counts.contains_key(&refuser);
        let refuser = match refuser {
            Refuser::Site(_) if is_one_too_many => Refuser::Strangers,
            refuser => refuser,
        };
        let theirs = counts.entry(refuser).or_insert_with(|| Refused::since(now, actor.clone()));
        theirs.adds_row(refuser.rows(), now)
    }

    fn next(&self, state: &mut State) -> AccessId {
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
    /// The order that the request has found or created; 0 for none.
    order: AtomicI64,
    /// The person, the key or the webhook that the request is about, and its path does not name; 0 for none.
    subject: AtomicI64,
    /// Whether the request has created its order.
    creates: AtomicBool,
    id: OnceLock<AccessId>,
    has_ended: OnceLock<()>,
}

impl BegunAccess {
    /// Begins an access.
    pub fn new(recorder: Arc<AccessRecorder>, facts: AccessFacts) -> Self {
        let (orders, id, has_ended) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (order, subject) = (AtomicI64::new(0), AtomicI64::new(0));
        let creates = AtomicBool::new(false);
        recorder.lock().begun += 1;
        Self(Arc::new(Begun { recorder, facts, orders, order, subject, creates, id, has_ended }))
    }

    /// Notes the order that a request uses whose path names none.
    pub(crate) fn uses(&self, order: OrderId) {
        self.0.order.store(order.0, Ordering::Relaxed);
    }

    /// Notes the person, the key or the webhook that a request is about, if its path names none.
    pub fn concerns(&self, subject: i64) {
        self.0.subject.store(subject, Ordering::Relaxed);
    }

    /// Notes that a request has created its order. The order tells of that, so the access leaves no row, unless
    /// it has a number: it was about to change another order.
    pub(crate) fn creates(&self, order: OrderId) {
        self.uses(order);
        self.0.creates.store(true, Ordering::Relaxed);
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
        let id = *self.id.get_or_init(|| self.recorder.next(&mut self.recorder.lock()));
        let orders = self.orders.get().copied().or(self.facts.orders);
        let used = Some(self.order.load(Ordering::Relaxed)).filter(|order| *order != 0);
        let order = self.facts.order.or(used.map(OrderId));
        let noted = Some(self.subject.load(Ordering::Relaxed)).filter(|subject| *subject != 0);
        let subject = self.facts.subject.or(noted);
        let facts = AccessFacts { order, orders, subject, ..self.facts.clone() };
        Access { id, facts, outcome }
    }

    fn end(&self, outcome: String) {
        if self.has_ended.set(()).is_err() {
            return;
        }
        // Without a row, it must have no number: the transaction of a change may have stored that.
        let has_row = self.id.get().is_some()
            || !self.creates.load(Ordering::Relaxed)
                && (!self.facts.are_refused(&outcome)
                    || self.recorder.adds_row_of_refused(&self.facts));
        let access = has_row.then(|| self.row(outcome));
        let mut state = self.recorder.lock();
        state.begun -= 1;
        state.waiting.extend(access);
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
        self.begin_any(kind, Some(order), None)
    }

    /// Begins an access to no single order, such as a list.
    pub(super) fn begin_list(&self, kind: AccessKind) -> BegunAccess {
        self.begin_any(kind, None, None)
    }

    /// Begins an access to a person or a key.
    pub(super) fn begin_of(&self, kind: AccessKind, subject: Option<i64>) -> BegunAccess {
        self.begin_any(kind, None, subject)
    }

    fn begin_any(
        &self,
        kind: AccessKind,
        order: Option<OrderId>,
        subject: Option<i64>,
    ) -> BegunAccess {
        let facts = AccessFacts {
            kind,
            order,
            orders: None,
            position: None,
            subject,
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
