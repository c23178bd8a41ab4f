//! The connections of the API, and their end when the service stops: each is told so in an answer,
//! and none is reset before its own.

use std::{
    io,
    net::TcpListener,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use actix_web::{dev::Extensions, web};
#[cfg(target_os = "linux")]
use socket2::{SockFilter, SockRef};
use tokio::time::{Instant, sleep};

use crate::api::Api;

/// Without a new request for so long, whoever is still connected is idle.
const QUIET: Duration = Duration::from_millis(250);
/// Until whoever the kernel had taken is with a worker, and so counted.
const ARRIVED: Duration = Duration::from_millis(100);
/// How often is looked whether all have gone.
const LOOK: Duration = Duration::from_millis(10);

/// Who is connected, and whether it is to end.
#[derive(Debug, Default)]
pub struct Connections {
    open: AtomicUsize,
    begun: AtomicU64,
    ending: AtomicBool,
}

impl Connections {
    /// Counts a request.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether an answer that is made now is to close its connection.
    pub(crate) fn are_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// From now on every answer closes its connection. Returns when all are closed or idle, or
    /// after `patience`.
    pub async fn end(&self, patience: Duration) {
        self.ending.store(true, Ordering::Relaxed);
        let (arrived, end) = (Instant::now() + ARRIVED, Instant::now() + patience);
        let (mut begun, mut since) = (self.begun.load(Ordering::Relaxed), Instant::now());
        let somebody_is_here = || self.open.load(Ordering::Relaxed) > 0 || Instant::now() < arrived;
        while somebody_is_here() && since.elapsed() < QUIET && Instant::now() < end {
            sleep(LOOK).await;
            let now = self.begun.load(Ordering::Relaxed);
            if now != begun {
                (begun, since) = (now, Instant::now());
            }
        }
    }
}

/// Counts a connection for as long as the server keeps it.
pub(crate) fn opened(api: &web::Data<Api>, connection: &mut Extensions) {
    api.connections.open.fetch_add(1, Ordering::Relaxed);
    connection.insert(Open(api.clone()));
}

struct Open(web::Data<Api>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets no new connection begin, and those that have begun be accepted. A listener that is closed
/// instead resets whoever is connected and was not accepted yet, with a request that may be on its
/// way.
///
/// The kernel drops what asks for a new connection: a TCP header with SYN and without ACK (RFC 9293
/// section 3.1). Who asked does so again one second and three seconds later, and is refused then,
/// because the listener is closed.
#[cfg(target_os = "linux")]
pub fn take_no_more(listener: &TcpListener) -> io::Result<()> {
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

/// Other systems have no such filter.
#[cfg(not(target_os = "linux"))]
pub fn take_no_more(_: &TcpListener) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
