//! Guards the connections of the API: limits them for each address, bounds what actix reads of them, and ends
//! those without a request.
//!
//! | part | who suffers without it |
//! |---|---|
//! | limit for each address | all other clients: one address takes the file descriptors |
//! | gate (`gate.rs`) | all other clients: without it, actix reads 128 KiB of each head and of each body that waits, and its buffers grow to 330 KiB |
//! | watchdog | the first again: actix limits the time of the first head only, and a client that sends a byte of the next head now and then keeps its connection |
//! | no request behind a doubtful end | the next client of a proxy that shares connections: it gets the answer to a smuggled request |
//! | no `GET` behind `HEAD` before its answer, or the reverse | the same client: actix gives the answer before the form of the last request, so its body counts as the next answer |
//! | no request behind `Connection: close` | the client: it repeats a request that was carried out without an answer |

use std::{
    collections::HashMap,
    net::{IpAddr, Shutdown, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Waker},
    time::Duration,
};

use actix_web::{
    dev::RequestHead,
    http::{Method, Version, header},
    rt::net::TcpStream,
};
use ipnet::IpNet;
use socket2::{SockRef, Socket};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

use crate::{
    admission::peer::{is_proxy, network},
    gate::{Gate, LARGE_HEADS, LARGE_STEP, LARGE_STEPS, Reading, STEP},
};

/// Longer than the 60 s of common load balancers, so that the balancer closes idle connections and
/// never sends a request into a closing one.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Maximum time without a request in progress. actix closes idle connections a second earlier.
const MAX_IDLE: Duration = Duration::from_secs(76);
/// Interval in which the watchdog looks at a connection.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// The open connections of the API.
#[derive(Debug)]
pub struct Connections {
    per_address: usize,
    trusted_proxies: Vec<IpNet>,
    open: Mutex<Open>,
    /// Permits of large heads.
    pub(crate) large_heads: Arc<Semaphore>,
    /// Permits of large steps, which connections keep until they end.
    large_steps: Semaphore,
}

#[derive(Debug, Default)]
struct Open {
    count: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Connections {
    /// Permits so many connections for each address. Loopback addresses and trusted proxies have no
    /// limit, because their connections carry the requests of many clients.
    pub fn new(per_address: usize, trusted_proxies: Vec<IpNet>) -> Arc<Self> {
        let large_heads = Arc::new(Semaphore::new(LARGE_HEADS));
        let (open, large_steps) = (Mutex::default(), Semaphore::new(LARGE_STEPS));
        Arc::new(Self { per_address, trusted_proxies, open, large_heads, large_steps })
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.table().count
    }

    fn table(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an accepted connection, or shuts it down if its address has too many, or if it cannot be
    /// guarded.
    pub(crate) fn accept(self: &Arc<Self>, tcp: &TcpStream) -> Arc<Connection> {
        let socket = SockRef::from(tcp);
        let connection = self.register(socket.try_clone().ok(), tcp.peer_addr().ok());
        if connection.must_close() {
            // The client may have closed it already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        connection
    }

    fn register(
        self: &Arc<Self>,
        socket: Option<Socket>,
        peer: Option<SocketAddr>,
    ) -> Arc<Connection> {
        let is_unguarded = socket.is_none() || peer.is_none();
        let peer = peer.map(|peer| peer.ip().to_canonical());
        let is_exempt =
            |peer: &IpAddr| peer.is_loopback() || is_proxy(*peer, &self.trusted_proxies);
        let address = peer.filter(|peer| !is_exempt(peer)).map(network);
        let mut open = self.table();
        let count = address.map_or(0, |address| {
            let count = open.by_address.entry(address).or_default();
            *count += 1;
            *count
        });
        open.count += 1;
        let idle_since = Some(Instant::now());
        let ended = is_unguarded || count > self.per_address;
        let gate = Gate::default();
        let (answered, has_large_steps, reader) = (None, false, None);
        let state = State { idle_since, ended, answered, gate, has_large_steps, reader };
        let state = Mutex::new(state);
        let connections = Arc::clone(self);
        let connection = Arc::new(Connection { connections, address, socket, state });
        tokio::spawn(watch(Arc::downgrade(&connection)));
        connection
    }
}

/// Ends a connection that has no request for too long.
async fn watch(connection: Weak<Connection>) {
    while connection.upgrade().is_some_and(|connection| !connection.end_if_idle()) {
        sleep(WATCH_INTERVAL).await;
    }
}

/// A connection. Its requests find it in the data of their connection.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Arc<Connections>,
    /// `None` if the limit does not apply.
    address: Option<IpAddr>,
    /// A duplicate of the connection's socket.
    socket: Option<Socket>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` while a request is in progress.
    idle_since: Option<Instant>,
    /// Whether no other request may be carried out: the connection was refused, the last request
    /// closes it, or the end of that request is doubtful.
    ended: bool,
    /// Whether the last request was `HEAD`, until actix reads the connection again. A request that begins before
    /// was decoded before the answer was sent, and the answer has the form of the last one that was decoded.
    answered: Option<bool>,
    gate: Gate,
    has_large_steps: bool,
    /// The task of actix, while the gate keeps it from reading.
    reader: Option<Waker>,
}

impl State {
    /// Has actix read again what the gate now permits.
    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Connection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection. Requests that have arrived already are not carried out.
    fn end(&self, state: &mut State) {
        state.ended = true;
        // The client may have closed it already.
        let _ = self.socket.as_ref().map(|socket| socket.shutdown(Shutdown::Both));
    }

    fn end_if_idle(&self) -> bool {
        let mut state = self.state();
        let is_idle = state.idle_since.is_some_and(|since| since.elapsed() > MAX_IDLE);
        if is_idle {
            self.end(&mut state);
        }
        is_idle
    }

    /// Returns what actix may read now. If that is nothing yet, wakes the task when it may be more.
    pub(crate) fn reading(&self, context: &Context<'_>) -> Reading {
        let mut state = self.state();
        let is_idle = state.idle_since.is_some();
        let reading = state.gate.next(is_idle);
        if reading == Reading::Later {
            state.reader = Some(context.waker().clone());
        }
        reading
    }

    /// Notes bytes that actix has read, or that there is nothing more to read for now.
    pub(crate) fn has_read(&self, bytes: Option<usize>) {
        let mut state = self.state();
        let is_idle = state.idle_since.is_some();
        state.gate.has_read(bytes, is_idle);
        if is_idle && bytes.is_some() {
            state.answered = None;
        }
    }

    /// Lets actix read the body of the request in progress, which has a permit, as its handler waits for it.
    pub(crate) fn open(&self, is_large: bool) {
        let mut state = self.state();
        if is_large && !state.has_large_steps {
            let permit = self.connections.large_steps.try_acquire();
            state.has_large_steps = permit.map(SemaphorePermit::forget).is_ok();
        }
        let step = if state.has_large_steps { LARGE_STEP } else { STEP };
        state.gate.open(step);
    }

    /// Notes that the handler of the request in progress waits for more of its body.
    pub(crate) fn body_is_awaited(&self) {
        let mut state = self.state();
        state.gate.body_is_awaited();
        state.wake_reader();
    }

    /// Closes the gate behind the body of the request in progress.
    pub(crate) fn close_body(&self) {
        let mut state = self.state();
        state.gate.close();
        state.wake_reader();
    }

    /// Keeps the rest of the body of a rejected request from actix.
    pub(crate) fn discard_rest(&self) {
        let mut state = self.state();
        state.gate.discard_rest();
        state.wake_reader();
    }

    /// Returns whether the answer to a request must close the connection.
    pub(crate) fn must_close(&self) -> bool {
        self.state().ended
    }

    /// Marks a request as in progress. Returns `None` if it must not be carried out: the
    /// connection was refused, or the request before it was the last one.
    pub(crate) fn begin(self: &Arc<Self>, head: &RequestHead) -> Option<RequestInProgress> {
        let is_head = head.method == Method::HEAD;
        let mut state = self.state();
        // An answer that says `close` cannot say `upgrade` instead.
        let is_upgrade = head.upgrade() && !state.ended;
        if state.answered.is_some_and(|before| before != is_head || is_upgrade) {
            // The answer before may have the wrong form. Then it is cut off.
            self.end(&mut state);
            return None;
        }
        if state.ended {
            return None;
        }
        state.idle_since = None;
        state.gate.request_begins();
        state.ended = closes(head)
            || head.upgrade()
            || [header::UPGRADE, header::TRANSFER_ENCODING]
                .iter()
                .any(|name| head.headers.contains_key(name));
        Some(RequestInProgress { connection: Arc::clone(self), is_head })
    }
}

/// Returns whether a request is the last one of its connection (RFC 9112, sections 9.3 and 9.6).
/// actix carries out those that it has decoded behind it, and does not read lists of options.
fn closes(head: &RequestHead) -> bool {
    let has = |wanted: &str| {
        let values = head.headers.get_all(header::CONNECTION).filter_map(|it| it.to_str().ok());
        values.flat_map(|it| it.split(',')).any(|it| it.trim().eq_ignore_ascii_case(wanted))
    };
    has("close") || (head.version < Version::HTTP_11 && !has("keep-alive"))
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.state().has_large_steps {
            self.connections.large_steps.add_permits(1);
        }
        let mut open = self.connections.table();
        open.count -= 1;
        if let Some(address) = self.address
            && let Some(count) = open.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&address);
            }
        }
    }
}

/// A request in progress, until its answer is sent.
pub(crate) struct RequestInProgress {
    connection: Arc<Connection>,
    is_head: bool,
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut state = self.connection.state();
        (state.idle_since, state.answered) = (Some(Instant::now()), Some(self.is_head));
        state.gate.request_ends();
        state.wake_reader();
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
