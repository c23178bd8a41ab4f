//! The stop: first the service only reports that it is not ready, then it stops, and another signal
//! ends it at once.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use reqwest::StatusCode;

use crate::{
    harness::service_process::{ServiceProcess, issue_key, on_a_terminal},
    harness::{Api, CREATE, PATIENCE, created, eventually, eventually_async},
    wiring::Wiring,
};

/// Starts a server and lets it drain for longer than any test.
async fn draining(wiring: &Wiring, signal: &str) -> ServiceProcess {
    let server = ServiceProcess::keyed(wiring, &["--drain-secs=3600"]);
    server.gets_ready().await;
    server.signal(signal);
    eventually_async(async || server.readiness().await.0 == StatusCode::SERVICE_UNAVAILABLE).await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_service_is_unready_and_serves_requests() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let wiring = Wiring::embedded();
        let server = draining(&wiring, signal).await;
        assert_eq!(server.readiness().await.1["status"], "stopping");
        // Each of these is a new connection.
        for file_number in ["F-1", "F-2"] {
            created(server.order(file_number).await).await;
        }
        assert_eq!(server.ops("/healthz").await.0, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_stops_after_the_drain() {
    let wiring = Wiring::embedded();
    for signal in ["-TERM", "-INT", "-HUP"] {
        let server = ServiceProcess::start(&wiring, &["--drain-secs=1"]);
        assert_eq!(server.stop(signal).0, Some(0), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_signal_ends_the_stop_at_once() {
    let wiring = Wiring::embedded();
    let mut server = draining(&wiring, "-TERM").await;
    // Signals that follow the first one closely count as the same request.
    eventually_async(async || {
        server.signal("-TERM");
        server.ended().is_some()
    })
    .await;
    assert_eq!(server.ended().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nohup_keeps_the_service_running() {
    let wiring = Wiring::embedded();
    let key = issue_key(&wiring);
    let mut server = ServiceProcess::start_after(&wiring, "trap '' HUP", &[]).with_key(key);
    server.signal("-HUP");
    created(server.order("F-1").await).await;
    assert!(server.ended().is_none());
    assert_eq!(server.stop("-TERM").0, Some(0));
}

/// Opens a connection with the beginning of a request.
pub fn half_a_request(service: &Api, path: &str) -> TcpStream {
    let (media_type, first) = if path == CREATE {
        ("application/json", "{")
    } else {
        ("multipart/form-data; boundary=b", "--b\r\n")
    };
    let mut stream = TcpStream::connect(service.address).unwrap();
    let headers = format!("Content-Type: {media_type}\r\nContent-Length: 1000\r\n");
    stream.write_all((service.head(path, &headers) + first).as_bytes()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_request_is_cut_off_within_the_grace_period() {
    let wiring = Wiring::embedded();
    let mut server = ServiceProcess::keyed(&wiring, &["--shutdown-grace-secs=2"]);
    let mut slow = half_a_request(&server, CREATE);
    server.signal("-TERM");
    let ended = tokio::task::spawn_blocking(move || slow.read(&mut [0; 1024]));
    assert!(matches!(ended.await.unwrap(), Ok(0) | Err(_)));
    eventually(|| server.ended().is_some()).await;
    assert_eq!(server.ended().unwrap().code(), Some(0));
}

/// An operator at a terminal has no load balancer.
#[test]
fn service_on_a_terminal_stops_without_a_drain() {
    const CTRL_C: &[u8] = b"\x03";
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_notary-orders"));
    command.arg("--data-dir").arg(data.path());
    command.args(["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0"]);
    let mut terminal = on_a_terminal(&command).env_clear().spawn().unwrap();
    let (mut lines, mut line) = (BufReader::new(terminal.stdout.take().unwrap()), String::new());
    while !line.contains("curl -i") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0);
    }
    terminal.stdin.as_mut().unwrap().write_all(CTRL_C).unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(terminal.wait().unwrap().success());
    assert!(rest.contains("stopped") && !rest.contains("before the stop"), "{rest}");
}
