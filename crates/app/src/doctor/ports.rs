//! The ports of the service: free, or served by it.

use std::{io::ErrorKind, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::finding::{Checked, Finding};
use crate::{listen, settings::Settings};

const CHECK: &str = "ports";

/// Time limit for an answer. A service asks its database for some of its metrics.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);

/// Most bytes of an answer that are read.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;

/// The service that runs on the operators' port of the settings.
pub(super) struct RunningService {
    version: String,
    /// Its limit of open files.
    pub(super) max_files: Option<u64>,
}

/// Returns the service that runs on the operators' port.
pub(super) async fn running_service(settings: &Settings) -> Option<RunningService> {
    let metrics = get(settings.ops_listen, "/metrics").await?;
    let build = metrics.lines().find_map(|line| line.strip_prefix("notary_orders_build_info{"))?;
    let version = build.split('"').nth(1)?.to_owned();
    let files = metrics.lines().find_map(|line| line.strip_prefix("process_max_fds "));
    Some(RunningService { version, max_files: files.and_then(|number| number.parse().ok()) })
}

pub(super) async fn check(settings: Arc<Settings>) -> Checked {
    const API: &str = "--listen (NOTARY_ORDERS_LISTEN)";
    const OPS: &str = "--ops-listen (NOTARY_ORDERS_OPS_LISTEN)";
    let Settings { listen, ops_listen, base_path, tls_cert, .. } = &*settings;
    if listen == ops_listen && listen.port() != 0 {
        let text = format!("{API} and {OPS} name the same address");
        return Ok(vec![Finding::fail(CHECK, text, "Choose another port for one of them")]);
    }
    let ops =
        async { Some(judge_version(*ops_listen, &running_service(&settings).await?.version)) };
    let api = async {
        let answer = get(*listen, &format!("{base_path}/openapi.json")).await?;
        // With TLS, the service answers a plain request that it expects TLS.
        let has_tls = answer.contains("expects TLS");
        let is_service = has_tls || answer.contains("notary-orders");
        is_service.then(|| judge_tls(*listen, has_tls, tls_cert.is_some()))
    };
    let (api, ops) = futures_util::join!(judge(*listen, API, api), judge(*ops_listen, OPS, ops));
    Ok(vec![api, ops])
}

fn judge_tls(address: SocketAddr, has_tls: bool, expected: bool) -> Finding {
    let service = format!("{address} is served by this service");
    if has_tls == expected {
        return Finding::ok(CHECK, service);
    }
    let with = if has_tls { "with" } else { "without" };
    Finding::warn(
        CHECK,
        format!("{service} {with} TLS"),
        "Restart the service with these settings, or correct --tls-cert (NOTARY_ORDERS_TLS_CERT)",
    )
}

fn judge_version(address: SocketAddr, version: &str) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    if version == own {
        return Finding::ok(CHECK, format!("{address} is served by this service"));
    }
    Finding::warn(
        CHECK,
        format!("{address} is served by version {version}, and this program is {own}"),
        "Restart the service, unless an upgrade is going on",
    )
}

/// Judges a port. `service` judges the service there; `None` if another program has the port.
async fn judge(
    address: SocketAddr,
    setting: &str,
    service: impl Future<Output = Option<Finding>>,
) -> Finding {
    let error = match listen::listen(address) {
        Ok(_) if address.port() == 0 => {
            return Finding::ok(CHECK, format!("{setting} is any port"));
        }
        Ok(_) => return Finding::ok(CHECK, format!("{address} is free for {setting}")),
        Err(error) => error,
    };
    if error.kind() != ErrorKind::AddrInUse {
        let text = format!("{address} cannot be used: {error}");
        return Finding::fail(CHECK, text, format!("Correct {setting}"));
    }
    service.await.unwrap_or_else(|| {
        Finding::fail(
            CHECK,
            format!("{address} is in use, and does not answer as this service"),
            format!("Stop the other program, or choose another port in {setting}"),
        )
    })
}

/// Returns the answer of an HTTP server to a `GET`, with its head.
async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let exchange = async {
        let mut stream = TcpStream::connect(listen::local_address(address)).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer).await.ok()?;
        String::from_utf8(answer).ok().filter(|answer| answer.starts_with("HTTP/1.1 "))
    };
    timeout(ANSWER_LIMIT, exchange).await.ok().flatten()
}
