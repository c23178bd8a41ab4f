//! What this process is working on, so that it does not do the same twice at a time.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::idempotency::IdempotencyKey;

/// Rejects a second request under a key while this process works on the first.
///
/// This only saves the database from making one request wait for the other. The database itself
/// ensures that a key creates one order.
pub type KeysInProgress = InProgress<IdempotencyKey>;

/// A set of names, each of which is marked by one guard at a time.
#[derive(Clone)]
pub struct InProgress<K>(Arc<Mutex<HashSet<K>>>);

impl<K> Default for InProgress<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> InProgress<K> {
    /// Marks the name as in progress until the guard is dropped; `None` if it already is.
    pub(crate) fn begin(&self, name: &K) -> Option<Guard<K>> {
        self.names().insert(name.clone()).then(|| Guard { names: self.clone(), name: name.clone() })
    }

    fn names(&self) -> MutexGuard<'_, HashSet<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a name as in progress.
pub(crate) struct Guard<K: Clone + Eq + Hash> {
    names: InProgress<K>,
    name: K,
}

impl<K: Clone + Eq + Hash> Drop for Guard<K> {
    fn drop(&mut self) {
        self.names.names().remove(&self.name);
    }
}
