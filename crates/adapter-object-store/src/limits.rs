//! The time limits of a store.

use std::time::Duration;

/// How long a store waits for the disk or for the server. [`Default`] has the limits of the service: a
/// client gets its answer within 3 seconds, unless its documents take longer to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// Connecting to a remote store, in each attempt at a request.
    pub connect: Duration,
    /// A request to a remote store with its retries, in addition to the time for its body.
    pub request: Duration,
    /// Aborting an upload, which delays the error response.
    pub abort: Duration,
    /// A check. The readiness endpoint allows two seconds.
    pub check: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            request: Duration::from_millis(2_500),
            abort: Duration::from_millis(1_500),
            check: Duration::from_millis(1_500),
        }
    }
}
