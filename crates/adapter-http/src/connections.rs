//! Tracks open connections, and closes them gently when the service stops: every request is
//! answered, and no connection is reset before its answer is read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use actix_web::dev::Extensions;
use tokio::time::{Instant, sleep};

/// After this long without a new request, the open connections count as idle.
const QUIET: Duration = Duration::from_millis(250);
/// Time until connections that the kernel has accepted are counted here.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);
/// Interval of checks while connections close.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Counts open connections and requests.
#[derive(Debug, Default)]
pub struct ConnectionTracker {
    open: AtomicUsize,
    requests: AtomicU64,
    closing: AtomicBool,
}

impl ConnectionTracker {
    pub(crate) fn request_started(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether answers must close their connection.
    pub(crate) fn are_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Makes every further answer close its connection. Returns when all connections are closed or
    /// idle, or after `timeout`.
    pub async fn close(&self, timeout: Duration) {
        self.closing.store(true, Ordering::Relaxed);
        let (all_counted, deadline) = (Instant::now() + ACCEPT_DELAY, Instant::now() + timeout);
        let (mut requests, mut quiet_since) =
            (self.requests.load(Ordering::Relaxed), Instant::now());
        let connected = || self.open.load(Ordering::Relaxed) > 0 || Instant::now() < all_counted;
        while connected() && quiet_since.elapsed() < QUIET && Instant::now() < deadline {
            sleep(CHECK_INTERVAL).await;
            let now = self.requests.load(Ordering::Relaxed);
            if now != requests {
                (requests, quiet_since) = (now, Instant::now());
            }
        }
    }

    /// Counts a connection for as long as the server keeps it.
    pub(crate) fn opened(self: &Arc<Self>, connection: &mut Extensions) {
        self.open.fetch_add(1, Ordering::Relaxed);
        connection.insert(OpenConnection(Arc::clone(self)));
    }
}

struct OpenConnection(Arc<ConnectionTracker>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
