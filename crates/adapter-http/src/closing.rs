//! Closes connections gently when the service stops: every request is answered, and no connection
//! ends just as its next request arrives.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

/// After this long without a new request, the open connections count as idle.
const QUIET: Duration = Duration::from_millis(250);

/// Notes when requests begin, and tells their answers whether the service stops.
#[derive(Debug, Default)]
pub struct Closing {
    has_begun: AtomicBool,
    requests: Notify,
}

impl Closing {
    pub(crate) fn request_started(&self) {
        self.requests.notify_one();
    }

    /// Returns whether every answer must close its connection.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Makes every further answer close its connection. Returns when no request has begun for a
    /// while, or after `limit`: the open connections are idle, or have a request in progress.
    pub async fn begin(&self, limit: Duration) {
        self.has_begun.store(true, Ordering::Relaxed);
        let requests = async { while timeout(QUIET, self.requests.notified()).await.is_ok() {} };
        // Either way the time is over.
        let _ = timeout(limit, requests).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::select};
    use tokio::time::{Instant, sleep};

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
