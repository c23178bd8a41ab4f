//! How many orders arrive, so that background work can yield to them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the orders that this process tried to store. Clients wait for these, so background work
/// that uses the same disk and cores slows down while the count grows.
#[derive(Debug, Default)]
pub struct OrderTraffic(AtomicU64);

impl OrderTraffic {
    /// Counts an order.
    pub(crate) fn record(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of orders since the start of the process.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
