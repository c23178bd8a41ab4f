//! The ports of the service, the limit of open files, and the proxies that may name the addresses
//! of clients.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::finding::{Check, Finding, Subject};
use crate::{listen, settings::Settings};

const PORTS: Check = Check("ports");
const PROXIES: &str = "--trusted-proxies (NOTARY_ORDERS_TRUSTED_PROXIES)";

/// Time limit for an answer. A service asks its database for some of its metrics.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);

/// Most bytes of an answer that are read.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;

/// The service that runs on the operators' port of the settings.
struct RunningService {
    version: String,
    /// Its limit of open files.
    max_files: Option<u64>,
}

impl RunningService {
    async fn of(settings: &Settings) -> Option<Self> {
        let address = settings.ops_listen;
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let exchange = async {
            let mut stream = TcpStream::connect(listen::local_address(address)).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
            io::Result::Ok(answer)
        };
        let metrics = timeout(ANSWER_LIMIT, exchange).await.ok()?.ok()?;
        let build =
            metrics.lines().find_map(|line| line.strip_prefix("notary_orders_build_info{"))?;
        let version = build.split('"').nth(1)?.to_owned();
        let files = metrics.lines().find_map(|line| line.strip_prefix("process_max_fds "));
        Some(Self { version, max_files: files.and_then(|number| number.parse().ok()) })
    }
}

/// Checks whether each port is free, or in use while this service runs.
pub(super) async fn ports(of: Arc<Subject>) -> Vec<Finding> {
    const API: &str = "--listen (NOTARY_ORDERS_LISTEN)";
    const OPS: &str = "--ops-listen (NOTARY_ORDERS_OPS_LISTEN)";
    let Settings { listen, ops_listen, .. } = &of.settings;
    if listen == ops_listen && listen.port() != 0 {
        let text = format!("{API} and {OPS} name the same address");
        return vec![PORTS.fail(text, "Choose another port for one of them")];
    }
    let running = RunningService::of(&of.settings).await;
    [(*listen, API), (*ops_listen, OPS)]
        .map(|(address, setting)| judge_port(address, setting, running.as_ref()))
        .into()
}

fn judge_port(address: SocketAddr, setting: &str, running: Option<&RunningService>) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    match (listen::listen(address), running) {
        (Ok(_), _) => PORTS.ok(format!("{address} is free for {setting}")),
        (Err(error), _) if error.kind() != ErrorKind::AddrInUse => {
            let text = format!("{address} cannot be used: {error}");
            PORTS.fail(text, format!("Correct {setting}"))
        }
        (Err(_), Some(RunningService { version, .. })) if version == own => {
            PORTS.ok(format!("{address} is in use, and this service runs"))
        }
        (Err(_), Some(RunningService { version, .. })) => PORTS.warn(
            format!("{address} is in use, version {version} runs, and this program is {own}"),
            "Restart the service, unless an upgrade is going on",
        ),
        (Err(_), None) => PORTS.fail(
            format!("{address} is in use, and this service does not run"),
            format!("Stop the other program, or choose another port in {setting}"),
        ),
    }
}

/// Checks the limit of open files against the limits of connections and requests.
pub(super) async fn open_files(of: Arc<Subject>) -> Vec<Finding> {
    let running = RunningService::of(&of.settings).await;
    let (limit, whose) = match running.and_then(|service| service.max_files) {
        Some(limit) => (limit, "the running service"),
        // The service raises its limit up to the hard limit.
        None => (getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX), "a process of this user"),
    };
    vec![judge_files(&of.settings, limit, whose)]
}

fn judge_files(settings: &Settings, limit: u64, whose: &str) -> Finding {
    let connections = listen::connections_within(limit, settings.database_connections);
    let requests =
        u64::from(settings.max_orders_in_flight) + u64::from(settings.max_uploads_in_flight);
    let text = format!("{whose} may open {limit} files: enough for {connections} connections");
    if connections >= requests {
        return Check("files").ok(text);
    }
    Check("files").fail(
        format!("{text}, fewer than the {requests} requests that the settings permit at a time"),
        "Raise the hard limit (LimitNOFILE of systemd, `ulimit -Hn`), or lower \
         --max-orders-in-flight and --max-uploads-in-flight",
    )
}

pub(super) async fn proxies(of: Arc<Subject>) -> Vec<Finding> {
    let Settings { listen, trusted_proxies, tls_cert, .. } = &of.settings;
    judge_proxies(listen.ip(), trusted_proxies, tls_cert.is_some())
}

fn judge_proxies(listen: IpAddr, proxies: &[IpNet], has_tls: bool) -> Vec<Finding> {
    let check = Check("proxies");
    let broad = proxies.iter().filter(|network| is_too_broad(network)).map(|network| {
        check.fail(
            format!("{network} is trusted, so that clients can forge their addresses"),
            format!("Name only your proxies in {PROXIES}"),
        )
    });
    let mut findings: Vec<_> = broad.collect();
    let is_local = listen.is_loopback();
    // From where the proxies of this machine connect.
    let here: IpAddr =
        if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    match proxies {
        [] if is_local || has_tls => findings.push(check.ok(format!(
            "none is trusted: right without a proxy; name one that there is in {PROXIES}"
        ))),
        [] => findings.push(check.warn(
            format!("other machines reach the API at {listen}, and no proxy is trusted"),
            format!(
                "Put a proxy with TLS before it and name it in {PROXIES}; otherwise all its \
                 clients share the rate limit of one address"
            ),
        )),
        _ if is_local && !proxies.iter().any(|network| network.contains(&here)) => {
            findings.push(check.fail(
                format!("only this machine reaches the API at {listen}, and {here} is not trusted"),
                format!("Add {here} to {PROXIES}, or listen on another address"),
            ));
        }
        _ if findings.is_empty() => {
            findings.push(check.ok(format!("{} networks are trusted", proxies.len())));
        }
        _ => {}
    }
    findings
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
        let level = |flags: &[&str], limit| judge_files(&settings(flags), limit, "it").level;
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
            let found = judge_proxies(listen.parse().unwrap(), &networks, has_tls);
            let found: Vec<_> = found.iter().map(|finding| finding.level).collect();
            assert_eq!(found, levels, "{listen} {proxies:?}");
        }
    }
}
