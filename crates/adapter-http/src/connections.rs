//! Tracks open connections, and closes them gently when the service stops: every request is
//! answered, and no connection is reset before its answer is read.

use std::{
    io,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use actix_web::dev::Extensions;
#[cfg(target_os = "linux")]
use socket2::{SockFilter, SockRef};
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

/// Stops accepting new connections. Connections already in the backlog are still served. Closing
/// the listener instead would reset them, and their requests would be lost.
///
/// The kernel drops TCP segments with SYN and without ACK (RFC 9293, section 3.1). Clients retry
/// after one and three seconds; by then the listener is closed, and the kernel resets them.
#[cfg(target_os = "linux")]
pub fn stop_accepting(listener: &TcpListener) -> io::Result<()> {
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ])
}

/// Always fails, because only Linux has such a filter.
#[cfg(not(target_os = "linux"))]
pub fn stop_accepting(_: &TcpListener) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
