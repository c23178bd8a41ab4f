//! Work in progress in this process, so that none is done twice at a time.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use scopeguard::guard;

/// A set of names, each of which is marked by one guard at a time.
pub struct InProgress<K>(Arc<Mutex<HashSet<K>>>);

impl<K> Default for InProgress<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> InProgress<K> {
    /// Marks the name as in progress until the guard is dropped; `None` if it already is.
    pub(crate) fn begin(&self, name: &K) -> Option<impl Drop + use<K>> {
        let names = Arc::clone(&self.0);
        let is_new = names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        is_new.then(|| {
            guard(name.clone(), move |name| {
                names.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            })
        })
    }
}
