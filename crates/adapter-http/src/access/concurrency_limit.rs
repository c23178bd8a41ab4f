//! Limits how many orders are created at the same time.

use std::sync::Arc;

use actix_web::{HttpMessage as _, HttpRequest};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{observe::request_notes::OverConcurrencyLimit, respond::problem::Problem};

/// A fixed number of permits.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    max: usize,
}

impl ConcurrencyLimit {
    /// Allows `max` orders at the same time.
    pub fn new(max: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max)), max }
    }

    /// Returns the number of orders that are being created.
    pub(crate) fn used(&self) -> usize {
        self.max - self.permits.available_permits()
    }

    /// Returns a permit, which is free again when it is dropped. At the limit the request is
    /// rejected at once instead of queueing, so that accepted requests are answered quickly under
    /// any load.
    pub(crate) fn acquire(&self, request: &HttpRequest) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| over_limit(request))
    }
}

fn over_limit(request: &HttpRequest) -> Problem {
    request.extensions_mut().insert(OverConcurrencyLimit);
    Problem::overloaded()
}
