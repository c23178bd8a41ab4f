//! Addresses of sockets.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _},
};

use tokio::task::spawn_blocking;

/// Resolves an address or a name. That may take long, or fail until the network is up.
pub async fn resolve(address: &str) -> io::Result<SocketAddr> {
    let address = address.to_owned();
    let found: Vec<_> = spawn_blocking(move || address.to_socket_addrs()).await??.collect();
    // `localhost` may have an IPv6 address, too.
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Returns an address that this machine can connect to: the loopback address instead of the
/// unspecified one.
pub fn local_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
