//! Closes connections gently when the service stops: every request is answered, and no connection
//! ends just as its next request arrives.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// After this long without a new request, the open connections count as idle.
const QUIET: Duration = Duration::from_millis(250);
/// Interval of checks while connections close.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Counts requests, and tells their answers whether the service stops.
#[derive(Debug, Default)]
pub struct Closing {
    has_begun: AtomicBool,
    requests: AtomicU64,
}

impl Closing {
    pub(crate) fn request_started(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether every answer must close its connection.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Makes every further answer close its connection. Returns when no request has begun for a
    /// while, or after `timeout`: the open connections are idle, or have a request in progress.
    pub async fn begin(&self, timeout: Duration) {
        self.has_begun.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + timeout;
        let (mut requests, mut quiet_since) =
            (self.requests.load(Ordering::Relaxed), Instant::now());
        while quiet_since.elapsed() < QUIET && Instant::now() < deadline {
            sleep(CHECK_INTERVAL).await;
            let now = self.requests.load(Ordering::Relaxed);
            if now != requests {
                (requests, quiet_since) = (now, Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::select};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connections_close_when_no_request_begins_or_time_is_over() {
        let (closing, started) = (Closing::default(), Instant::now());
        assert!(!closing.has_begun());
        let requests = async {
            loop {
                closing.request_started();
                sleep(QUIET / 2).await;
            }
        };
        select(Box::pin(closing.begin(8 * QUIET)), requests.boxed_local()).await;
        assert!(closing.has_begun() && started.elapsed() >= 8 * QUIET);
        let started = Instant::now();
        closing.begin(8 * QUIET).await;
        assert!(started.elapsed() < 2 * QUIET);
    }
}
