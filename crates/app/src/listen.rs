//! Listening sockets, and the maximum number of connections.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

/// Connections that wait for the service. A burst of clients fills the standard library's 128, and
/// further clients retry only after a second. The system limits it by `net.core.somaxconn`.
const BACKLOG: i32 = 4_096;

/// Time limit for a client to acknowledge data (`TCP_USER_TIMEOUT`, RFC 5482). actix itself waits
/// without limit for a client that reads nothing.
#[cfg(target_os = "linux")]
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Time after which an idle connection is probed, and between probes. Finds clients that are gone
/// without a word.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of client connections. An idle one takes about 20 KiB of memory.
const MAX_CONNECTIONS: usize = 10_000;

/// Open files that the service needs without clients, apart from database connections: listeners,
/// log, embedded database, connections to a bucket and a relay.
const OWN_FILES: usize = 48;

/// Listens on an address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Closing connections of a previous process do not block the port.
    socket.set_reuse_address(true)?;
    // Accepted connections inherit these options.
    let probes = TcpKeepalive::new().with_time(PROBE_INTERVAL).with_interval(PROBE_INTERVAL);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNREAD_TIMEOUT))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Returns the maximum number of client connections, and raises the limit of open files.
///
/// Shells and systemd start a process with 1,024 open files, which the process may raise up to the
/// hard limit. A connection takes up to three: its own, a duplicate for the watchdog, and the
/// upload that it may have.
pub(crate) fn max_connections(database_connections: usize, webhooks: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Fails on a system whose real limit is below the hard limit. The old limit then stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    // Where files are few, clients come first: so many webhooks at a time are rare.
    let own = OWN_FILES + database_connections + webhooks.min(files / 4);
    (files.saturating_sub(own) / 3).min(MAX_CONNECTIONS)
}
