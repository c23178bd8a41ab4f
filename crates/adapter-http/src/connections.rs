//! Tracks open connections, limits how many are served at the same time, and closes them gently
//! when the service stops: every request is answered, and no connection is reset before its answer
//! is read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout},
};

/// After this long without a new request, the open connections count as idle.
const QUIET: Duration = Duration::from_millis(250);
/// Time until connections that the kernel has accepted are counted here.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);
/// Interval of checks while connections close.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Connections that have a request, or had one and are kept open. Each takes 20 KiB or more of
/// buffers. Further ones wait with their first request.
const MAX_SERVED: usize = 400;
/// Kept connections beside these, whose clients have succeeded.
const MAX_KEPT: usize = 600;
/// Downloads beside these. They may be slow, and are not waited for.
const MAX_DOWNLOADS: usize = 512;
/// Longest wait of a connection with a request.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Above this number of served connections, answers close them, so that others need not wait.
const CROWDED: usize = MAX_SERVED / 2;
/// Memory for first heads above [`FREE_HEAD`], in units of [`HEAD_UNIT`].
const HEAD_UNITS: usize = 2 * 1024;
/// Connections whose first TLS record, or handshake, is larger than those of ordinary clients. TLS
/// holds up to 32 KiB for each.
const MAX_LARGE_RECORDS: usize = 512;
/// Unit of memory for heads.
pub(crate) const HEAD_UNIT: usize = 1024;
/// Part of a first head that needs no units. Heads of ordinary clients fit.
pub(crate) const FREE_HEAD: usize = HEAD_UNIT;

/// Counts and limits open connections, and counts requests.
#[derive(Debug)]
pub struct ConnectionTracker {
    open: AtomicUsize,
    requests: AtomicU64,
    closing: AtomicBool,
    served: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
    crowded: AtomicUsize,
    head_units: Semaphore,
    large_records: Arc<Semaphore>,
}

impl Default for ConnectionTracker {
    fn default() -> Self {
        Self {
            open: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            served: Arc::new(Semaphore::new(MAX_SERVED)),
            kept: Arc::new(Semaphore::new(MAX_KEPT)),
            downloads: Arc::new(Semaphore::new(MAX_DOWNLOADS)),
            crowded: AtomicUsize::new(CROWDED),
            head_units: Semaphore::new(HEAD_UNITS),
            large_records: Arc::new(Semaphore::new(MAX_LARGE_RECORDS)),
        }
    }
}

impl ConnectionTracker {
    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Notes how many connections the service accepts. Kept connections leave half of them to
    /// others.
    pub(crate) fn expect_at_most(&self, connections: usize) {
        self.crowded.fetch_min(connections / 2, Ordering::Relaxed);
    }

    /// Waits for a permit to serve a connection, for at most [`MAX_WAIT`].
    pub(crate) async fn serve(&self) -> Option<OwnedSemaphorePermit> {
        timeout(MAX_WAIT, Arc::clone(&self.served).acquire_owned()).await.ok()?.ok()
    }

    /// Returns a permit for a download that must not keep others from being served; `None` if it
    /// keeps nobody, or there are many.
    pub(crate) fn try_download_aside(&self) -> Option<OwnedSemaphorePermit> {
        self.try_aside(&self.downloads)
    }

    /// Returns a permit for a connection whose client has succeeded, so that it stays open in a
    /// crowd; `None` if there is no crowd, or there are many.
    pub(crate) fn try_keep(&self) -> Option<OwnedSemaphorePermit> {
        self.try_aside(&self.kept)
    }

    fn try_aside(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        self.are_crowded().then(|| Arc::clone(places).try_acquire_owned().ok())?
    }

    /// Returns whether connections must not be kept open for longer than necessary.
    pub(crate) fn are_crowded(&self) -> bool {
        self.served() > self.crowded.load(Ordering::Relaxed)
    }

    /// Returns the number of served connections.
    pub(crate) fn served(&self) -> usize {
        MAX_SERVED - self.served.available_permits()
    }

    /// Takes memory for more of a first head; `None` if there is none.
    pub(crate) fn try_take_head_units(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let units = u32::try_from(bytes.div_ceil(HEAD_UNIT)).ok()?;
        self.head_units.try_acquire_many(units).ok()
    }

    /// Returns a permit for a connection that needs more memory below TLS; `None` if there are many.
    pub(crate) fn try_large_record(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.large_records).try_acquire_owned().ok()
    }

    pub(crate) fn request_started(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether an answer must close its connection. Those of clients that have succeeded
    /// stay open for longer: a client that creates orders need not connect again among hostile
    /// ones.
    pub(crate) fn must_close(&self, succeeded: bool) -> bool {
        let crowded = self.crowded.load(Ordering::Relaxed);
        let most = if succeeded { crowded + crowded / 2 } else { crowded };
        self.is_closing() || self.served() > most
    }

    /// Returns whether every answer must close its connection.
    pub(crate) fn is_closing(&self) -> bool {
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
    pub(crate) fn opened(self: &Arc<Self>) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }
}

/// Counts a connection until it is dropped.
pub(crate) struct OpenConnection(Arc<ConnectionTracker>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn crowd_of_served_connections_is_closed_and_limited() {
        let connections = ConnectionTracker::default();
        let mut served = Vec::new();
        for at in 0..MAX_SERVED {
            assert_eq!(connections.must_close(false), at > CROWDED, "{at}");
            assert_eq!(connections.must_close(true), at > CROWDED * 3 / 2, "{at}");
            served.push(connections.serve().await.unwrap());
        }
        let started = Instant::now();
        assert!(connections.serve().await.is_none());
        assert_eq!(started.elapsed(), MAX_WAIT);
        served.truncate(CROWDED);
        assert!(!connections.must_close(false));
    }

    #[tokio::test]
    async fn places_for_kept_connections_are_given_in_a_crowd() {
        let connections = ConnectionTracker::default();
        assert!(connections.try_keep().is_none());
        let mut served = Vec::new();
        for _ in 0..=CROWDED {
            served.push(connections.serve().await.unwrap());
        }
        let kept: Vec<_> = iter::from_fn(|| connections.try_keep()).collect();
        assert_eq!(kept.len(), MAX_KEPT);
    }

    #[tokio::test]
    async fn downloads_among_many_connections_leave_their_places_to_others() {
        let connections = ConnectionTracker::default();
        assert!(connections.try_download_aside().is_none());
        let mut served = Vec::new();
        for _ in 0..MAX_SERVED {
            served.push(connections.serve().await.unwrap());
        }
        let aside: Vec<_> = iter::from_fn(|| connections.try_download_aside()).collect();
        assert_eq!(aside.len(), MAX_DOWNLOADS);
    }

    #[tokio::test]
    async fn kept_connections_leave_half_of_few_to_others() {
        let connections = ConnectionTracker::default();
        connections.expect_at_most(4);
        let mut served = Vec::new();
        for crowded in [false, false, true] {
            served.push(connections.serve().await.unwrap());
            assert_eq!(connections.must_close(false), crowded);
        }
    }
}
