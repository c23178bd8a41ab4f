//! Limits how many orders are created at the same time.

use tokio::sync::{Semaphore, SemaphorePermit};

/// A fixed number of permits. A request without a permit is rejected at once instead of queueing,
/// so that accepted requests are answered quickly under any load.
#[derive(Debug)]
pub struct ConcurrencyLimit(Semaphore);

impl ConcurrencyLimit {
    /// Allows `max` orders at the same time.
    pub fn new(max: usize) -> Self {
        Self(Semaphore::new(max))
    }

    /// Returns a permit, which is free again when it is dropped; `None` if all are in use.
    pub(crate) fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.0.try_acquire().ok()
    }
}
