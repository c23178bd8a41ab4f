//! The time limits of a store.

use std::time::Duration;

/// How long a store waits for other processes and for itself. [`Default`] has the limits of the
/// service: a client gets its answer within 3 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// A lock of another process.
    pub lock: Duration,
    /// A call, from joining the queue to the end of its transaction. Longer than [`Self::lock`], so that
    /// the caller learns of the lock.
    pub call: Duration,
    /// Reads of older states, so that the next commit begins a large log anew. Writes wait meanwhile.
    pub log: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            lock: Duration::from_secs(2),
            call: Duration::from_millis(2_500),
            log: Duration::from_secs(1),
        }
    }
}

/// Returns the statement that has SQLite wait for locks.
pub(crate) fn wait_for_locks(limit: Duration) -> String {
    format!("PRAGMA busy_timeout = {};", limit.as_millis())
}
