//! The ports of the service, the limit of open files, and the proxies that may name the addresses
//! of clients.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;
use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::finding::{Findings, Subject};
use crate::{
    adapters::{LISTEN, OPS_LISTEN},
    listen,
    settings::Settings,
};

const PROXIES: &str = "--trusted-proxies (NOTARY_ORDERS_TRUSTED_PROXIES)";

/// Time limit for an answer. A service asks its database for some of its metrics.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);

/// Most bytes of an answer that are read.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;

/// Returns the metrics of the service that runs on the operators' port of the settings.
async fn metrics(settings: &Settings) -> Option<String> {
    let address = settings.ops_listen;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let exchange = async {
        let mut stream = TcpStream::connect(listen::local_address(address)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    };
    timeout(ANSWER_LIMIT, exchange).await.ok()?.ok()
}

/// Returns what follows the name of a metric.
fn value<'a>(metrics: &'a str, name: &str) -> Option<&'a str> {
    metrics.lines().find_map(|line| line.strip_prefix(name))
}

/// Checks whether each port is free, or in use while this service runs.
pub(super) async fn ports(of: &Subject, found: &mut Findings) {
    let Settings { listen, ops_listen, .. } = of.settings;
    if listen == ops_listen && listen.port() != 0 {
        let text = format!("{LISTEN} and {OPS_LISTEN} name the same address");
        return found.fail(text, "Choose another port for one of them");
    }
    let metrics = metrics(&of.settings).await.unwrap_or_default();
    let build = value(&metrics, "notary_orders_build_info{");
    let version = build.and_then(|build| build.split('"').nth(1));
    judge_port(listen, LISTEN, version, found);
    judge_port(ops_listen, OPS_LISTEN, version, found);
}

/// Judges a port. `version` is that of the running service.
fn judge_port(address: SocketAddr, setting: &str, version: Option<&str>, found: &mut Findings) {
    let own = env!("CARGO_PKG_VERSION");
    match (listen::listen(address), version) {
        (Ok(_), _) => found.ok(format!("{address} is free for {setting}")),
        (Err(error), _) if error.kind() != ErrorKind::AddrInUse => {
            found.fail(format!("{address} cannot be used: {error}"), format!("Correct {setting}"));
        }
        (Err(_), Some(version)) if version == own => {
            found.ok(format!("{address} is in use, and this service runs"));
        }
        (Err(_), Some(version)) => found.warn(
            format!("{address} is in use, version {version} runs, and this program is {own}"),
            "Restart the service, unless an upgrade is going on",
        ),
        (Err(_), None) => found.fail(
            format!("{address} is in use, and this service does not run"),
            format!("Stop the other program, or choose another port in {setting}"),
        ),
    }
}

/// Checks the limit of open files against the limits of connections and requests.
pub(super) async fn open_files(of: &Subject, found: &mut Findings) {
    let metrics = metrics(&of.settings).await.unwrap_or_default();
    let running = value(&metrics, "process_max_fds ").and_then(|limit| limit.parse().ok());
    // The service raises its limit up to the hard limit.
    let hard = getrlimit(Resource::Nofile).maximum.and_then(|limit| limit.try_into().ok());
    let own = (hard.unwrap_or(usize::MAX), "a process of this user");
    let (limit, whose) = running.map_or(own, |limit| (limit, "the running service"));
    judge_files(&of.settings, limit, whose, found);
}

fn judge_files(settings: &Settings, limit: usize, whose: &str, found: &mut Findings) {
    let connections = listen::connections_within(limit, settings.database_connections);
    let requests = settings.max_orders_in_flight + settings.max_uploads_in_flight;
    let text = format!("{whose} may open {limit} files: enough for {connections} connections");
    if connections >= requests {
        return found.ok(text);
    }
    found.fail(
        format!("{text}, fewer than the {requests} requests that the settings permit at a time"),
        "Raise the hard limit (LimitNOFILE of systemd, `ulimit -Hn`), or lower \
         --max-orders-in-flight and --max-uploads-in-flight",
    );
}

pub(super) async fn proxies(of: &Subject, found: &mut Findings) {
    let Settings { listen, trusted_proxies, tls_cert, .. } = &of.settings;
    judge_proxies(listen.ip(), trusted_proxies, tls_cert.is_some(), found);
}

fn judge_proxies(listen: IpAddr, proxies: &[IpNet], has_tls: bool, found: &mut Findings) {
    for network in proxies.iter().filter(|network| is_too_broad(network)) {
        found.fail(
            format!("{network} is trusted, so that clients can forge their addresses"),
            format!("Name only your proxies in {PROXIES}"),
        );
    }
    let is_local = listen.is_loopback();
    // From where the proxies of this machine connect.
    let here: IpAddr =
        if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    match proxies {
        [] if is_local || has_tls => found.ok(format!(
            "none is trusted: right without a proxy; name one that there is in {PROXIES}"
        )),
        [] => found.warn(
            format!("other machines reach the API at {listen}, and no proxy is trusted"),
            format!(
                "Put a proxy with TLS before it and name it in {PROXIES}; otherwise all its \
                 clients share the rate limit of one address"
            ),
        ),
        _ if is_local && !proxies.iter().any(|network| network.contains(&here)) => found.fail(
            format!("only this machine reaches the API at {listen}, and {here} is not trusted"),
            format!("Add {here} to {PROXIES}, or listen on another address"),
        ),
        _ if found.list.is_empty() => {
            found.ok(format!("{} networks are trusted", proxies.len()));
        }
        _ => {}
    }
}

/// Returns whether a network is larger than any private one: `10.0.0.0/8` and `fc00::/7`.
fn is_too_broad(network: &IpNet) -> bool {
    network.prefix_len() < if network.addr().is_ipv4() { 8 } else { 7 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{doctor::Level, settings::tests::settings};

    #[test]
    fn limit_must_fit_the_permitted_requests() {
        let level = |flags: &[&str], limit| {
            let mut found = Findings::of("files");
            judge_files(&settings(flags), limit, "it", &mut found);
            found.list[0].level
        };
        assert_eq!(level(&[], 65_536), Level::Ok);
        // 48 files and 16 connections to the database, and three times 256 + 256.
        assert_eq!(level(&[], 1_600), Level::Ok);
        assert_eq!(level(&[], 1_599), Level::Fail);
        assert_eq!(level(&[], 20), Level::Fail);
        assert_eq!(level(&["--max-orders-in-flight=32"], 1_599), Level::Ok);
    }

    #[test]
    fn trusted_proxies_must_fit_the_address() {
        for (listen, proxies, has_tls, levels) in [
            ("127.0.0.1", &[][..], false, &[Level::Ok][..]),
            ("::1", &[], false, &[Level::Ok]),
            ("0.0.0.0", &[], false, &[Level::Warn]),
            // Clients reach the service itself.
            ("0.0.0.0", &[], true, &[Level::Ok]),
            ("127.0.0.1", &["127.0.0.1/32"], false, &[Level::Ok]),
            ("127.0.0.1", &["10.0.0.0/8"], false, &[Level::Fail]),
            ("0.0.0.0", &["10.0.0.0/8", "fc00::/7"], false, &[Level::Ok]),
            ("0.0.0.0", &["0.0.0.0/0", "::/0"], false, &[Level::Fail, Level::Fail]),
            ("127.0.0.1", &["0.0.0.0/0"], false, &[Level::Fail]),
        ] {
            let networks: Vec<IpNet> = proxies.iter().map(|text| text.parse().unwrap()).collect();
            let mut found = Findings::of("proxies");
            judge_proxies(listen.parse().unwrap(), &networks, has_tls, &mut found);
            assert_eq!(found.levels(), levels, "{listen} {proxies:?}");
        }
    }
}
