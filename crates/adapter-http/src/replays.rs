//! Replays of webhooks in this process.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use domain::webhook::EndpointId;
use scopeguard::guard;

/// Endpoints with a replay in progress, at most one each.
#[derive(Default)]
pub struct Replays(Arc<Mutex<HashSet<EndpointId>>>);

impl Replays {
    /// Marks the endpoint until the guard is dropped; `None` if it already is marked.
    pub(crate) fn begin(&self, endpoint: EndpointId) -> Option<impl Drop + use<>> {
        let endpoints = Arc::clone(&self.0);
        let is_new = endpoints.lock().unwrap_or_else(PoisonError::into_inner).insert(endpoint);
        is_new.then(|| {
            guard(endpoint, move |endpoint| {
                endpoints.lock().unwrap_or_else(PoisonError::into_inner).remove(&endpoint);
            })
        })
    }
}
