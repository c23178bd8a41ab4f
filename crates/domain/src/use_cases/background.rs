//! Background work: steps that the service repeats until it stops.
//!
//! A worker has a method `step`, which does a bounded amount of work. The caller waits for the
//! pause that the step returns, and then calls `step` again. It stops between two steps.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use time::OffsetDateTime;

use crate::ports::StoreError;

/// The outcome of one step.
#[derive(Debug)]
pub struct Step<T> {
    /// The outcome of the step.
    pub result: Result<T, StoreError>,
    /// Time to wait before the next step. Zero means that there is more to do at once.
    pub pause: Duration,
}

/// Instants that requests leave, until a worker stores them.
pub type Unstored<Id> = Mutex<BTreeMap<Id, OffsetDateTime>>;

/// Locks the instants.
pub(crate) fn lock<Id>(unstored: &Unstored<Id>) -> MutexGuard<'_, BTreeMap<Id, OffsetDateTime>> {
    unstored.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the first of the instants, up to `limit`. Returns also whether others are left.
pub(crate) fn take<Id: Ord + Copy>(
    unstored: &Unstored<Id>,
    limit: usize,
) -> (Vec<(Id, OffsetDateTime)>, bool) {
    let mut all = lock(unstored);
    let next = all.keys().nth(limit).copied();
    let later = next.map(|next| all.split_off(&next)).unwrap_or_default();
    let has_more = !later.is_empty();
    (mem::replace(&mut *all, later).into_iter().collect(), has_more)
}

/// Reports only the first of several failures in a row.
#[derive(Debug, Default)]
pub(crate) struct FirstFailure {
    is_failing: bool,
}

impl FirstFailure {
    /// Returns a result, unless it is a failure after another.
    pub(crate) fn report(&mut self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        let was_failing = mem::replace(&mut self.is_failing, result.is_err());
        if was_failing { Ok(()) } else { result }
    }
}
