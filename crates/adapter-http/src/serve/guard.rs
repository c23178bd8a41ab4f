//! Guards the connections of the API: limits them for each address, and ends those without a request.
//!
//! actix limits the time of the first head only, and closes a connection only if it is idle and no
//! byte of the next head has arrived.

use std::{
    any::Any,
    collections::HashMap,
    net::{IpAddr, Shutdown},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::{
    dev::{Extensions, RequestHead},
    http::{Method, header},
    rt::net::TcpStream,
};
use ipnet::IpNet;
use socket2::{SockRef, Socket};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::access::peer;

/// Longer than the 60 s of common load balancers, so that the balancer closes idle connections and
/// never sends a request into a closing one.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Maximum time without a request in progress. actix closes idle connections a second earlier.
const MAX_IDLE: Duration = Duration::from_secs(76);
/// Interval in which the watchdog looks at all connections.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// The open connections of the API.
#[derive(Debug)]
pub struct Connections {
    per_address: usize,
    trusted_proxies: Vec<IpNet>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last_id: u64,
    by_id: HashMap<u64, Weak<Connection>>,
    by_address: HashMap<IpAddr, usize>,
}

impl Connections {
    /// Permits so many connections for each address. Loopback addresses and trusted proxies have no
    /// limit, because their connections carry the requests of many clients.
    pub fn new(per_address: usize, trusted_proxies: Vec<IpNet>) -> Arc<Self> {
        Arc::new(Self { per_address, trusted_proxies, open: Mutex::default() })
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.table().by_id.len()
    }

    fn table(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection of actix, or shuts it down if its address has too many.
    pub(crate) fn connected(self: &Arc<Self>, io: &dyn Any, data: &mut Extensions) {
        let plain = io.downcast_ref::<TcpStream>();
        let tls = || io.downcast_ref::<TlsStream<TcpStream>>().map(|tls| tls.get_ref().0);
        let Some(tcp) = plain.or_else(tls) else { return };
        let (socket, peer) = (SockRef::from(tcp), tcp.peer_addr().ok());
        let connection = socket.try_clone().ok();
        if let Some(connection) = connection.and_then(|socket| self.register(socket, peer?.ip())) {
            data.insert(connection);
        } else {
            // Requests that have arrived already must not be carried out.
            data.insert(Refused);
            // The client may have closed it already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Returns a connection, unless its address has too many.
    fn register(self: &Arc<Self>, socket: Socket, peer: IpAddr) -> Option<Arc<Connection>> {
        let peer = peer.to_canonical();
        let is_exempt = peer.is_loopback() || peer::is_proxy(peer, &self.trusted_proxies);
        let address = (!is_exempt).then(|| peer::network(peer));
        let mut open = self.table();
        if let Some(address) = address {
            let count = open.by_address.entry(address).or_default();
            if *count >= self.per_address {
                return None;
            }
            *count += 1;
        }
        open.last_id += 1;
        let (id, connections) = (open.last_id, Arc::clone(self));
        let state = Mutex::new(State { idle_since: Some(Instant::now()), ..State::default() });
        let connection = Arc::new(Connection { connections, id, address, socket, state });
        open.by_id.insert(id, Arc::downgrade(&connection));
        Some(connection)
    }

    fn end_idle(&self) {
        // Dropped without the lock, which the last reference to a connection takes.
        let open: Vec<_> = self.table().by_id.values().filter_map(Weak::upgrade).collect();
        for connection in open {
            let mut state = connection.state();
            if state.idle_since.is_some_and(|since| since.elapsed() > MAX_IDLE) {
                connection.end(&mut state);
            }
        }
    }
}

/// Ends connections without a request, until the service has dropped them all.
pub(crate) async fn watch(connections: Weak<Connections>) {
    while let Some(connections) = connections.upgrade() {
        connections.end_idle();
        drop(connections);
        sleep(WATCH_INTERVAL).await;
    }
}

/// A connection that its address had no permit for, or that cannot be guarded. Its requests find this
/// in the data of their connection.
pub(crate) struct Refused;

/// A connection. Its requests find it in the data of their connection.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Arc<Connections>,
    id: u64,
    /// `None` if the limit does not apply.
    address: Option<IpAddr>,
    /// A duplicate of the connection's socket.
    socket: Socket,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` while a request is in progress.
    idle_since: Option<Instant>,
    /// Whether the end of the last request is doubtful, so that no other may follow.
    ended: bool,
    /// Whether the last request was `HEAD`, until actix has begun all requests that it had decoded
    /// before it encoded the answer. The answer has the form of the last of these.
    answered: Option<bool>,
}

impl Connection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection. Requests that have arrived already are not carried out.
    fn end(&self, state: &mut State) {
        state.ended = true;
        // The client may have closed it already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Marks a request as in progress. Returns `None` if it must not be carried out, because other
    /// readers may see the end of the request before it elsewhere.
    pub(crate) fn begin(self: &Arc<Self>, head: &RequestHead) -> Option<InProgress> {
        let is_head = head.method == Method::HEAD;
        let mut state = self.state();
        if state.answered.is_some_and(|before| before != is_head) {
            // The answer before may have the wrong form. Then it is cut off.
            self.end(&mut state);
            return None;
        }
        if state.ended {
            return None;
        }
        state.idle_since = None;
        state.ended = head.upgrade()
            || [header::UPGRADE, header::TRANSFER_ENCODING]
                .iter()
                .any(|name| head.headers.contains_key(name));
        Some(InProgress { connection: Arc::clone(self), is_head, ends: state.ended })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.connections.table();
        open.by_id.remove(&self.id);
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
pub(crate) struct InProgress {
    connection: Arc<Connection>,
    is_head: bool,
    ends: bool,
}

impl InProgress {
    /// Returns whether the answer must close the connection.
    pub(crate) fn must_close(&self) -> bool {
        self.ends
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut state = self.connection.state();
        (state.idle_since, state.answered) = (Some(Instant::now()), Some(self.is_head));
        drop(state);
        let connection = Arc::clone(&self.connection);
        // Runs when actix has begun them.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { connection.state().answered = None });
        }
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
