//! Idempotency keys of the requests that this process is working on.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::idempotency::IdempotencyKey;

/// Rejects a second request under a key while this process works on the first.
///
/// This only saves the database from making one request wait for the other. The database itself
/// ensures that a key creates one order.
#[derive(Clone, Default)]
pub struct KeysInProgress(Arc<Mutex<HashSet<IdempotencyKey>>>);

impl KeysInProgress {
    /// Marks the key as in progress until the guard is dropped; `None` if it already is.
    pub(crate) fn begin(&self, key: &IdempotencyKey) -> Option<KeyInProgress> {
        self.keys()
            .insert(key.clone())
            .then(|| KeyInProgress { keys: self.clone(), key: key.clone() })
    }

    fn keys(&self) -> MutexGuard<'_, HashSet<IdempotencyKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a key as in progress.
pub(crate) struct KeyInProgress {
    keys: KeysInProgress,
    key: IdempotencyKey,
}

impl Drop for KeyInProgress {
    fn drop(&mut self) {
        self.keys.keys().remove(&self.key);
    }
}
