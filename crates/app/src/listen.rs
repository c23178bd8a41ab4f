//! Listening for connections, and how many of them there may be.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the system takes before the service does. The standard library's 128 are used
/// up by a burst of clients, and the next ones try again after a second. The system allows no more
/// than its own limit (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;

/// How long what a client was sent may stay unread or unacknowledged (`TCP_USER_TIMEOUT`, RFC
/// 5482). The framework waits for ever for one that reads nothing.
#[cfg(target_os = "linux")]
const UNREAD: std::time::Duration = std::time::Duration::from_secs(30);

/// Connections of clients at the most, of which an idle one takes about 11 KiB of memory.
const MOST: u64 = 10_000;

/// Files that the service needs whoever is connected, beside its connections to a database:
/// listeners, log, embedded database, connections to a bucket and a relay.
const KEPT: u64 = 48;

/// Listens on an address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of the process before, which are still closing, do not keep the port.
    socket.set_reuse_address(true)?;
    // Accepted connections inherit it.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNREAD))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// How many connections of clients the service can have. Shells and systemd start a process with a
/// limit of 1,024 open files, which it may raise up to another one. Of those that it then has, some
/// are kept for the service itself; half of the others are for the files of arriving uploads, of
/// which each connection has one at the most.
pub(crate) fn most_connections(database_connections: u16) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Refused by a system that allows fewer to a process than its own limit says; then it stays as
    // it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let kept = KEPT + u64::from(database_connections);
    usize::try_from((files.saturating_sub(kept) / 2).min(MOST)).unwrap_or(usize::MAX)
}
