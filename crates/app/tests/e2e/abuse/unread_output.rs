//! Nobody reads the output of the service: a full pipe blocks neither orders nor the start nor the
//! stop.

use std::{
    io::{BufRead as _, BufReader, PipeReader, Write as _, pipe},
    process::{Child, Stdio},
};

use crate::{
    harness::raw::answers,
    harness::service_process::{ServiceProcess, issue_key, notary_orders},
    harness::{CREATE, JSON, created, eventually, eventually_async},
    wiring::Wiring,
};

/// A stop that waited for a reader would wait for the grace period, which is longer than the test does.
const LONG_GRACE: &str = "--shutdown-grace-secs=3600";

/// Sends invalid orders, each of which makes a line, until more lines are dropped than before.
async fn drop_lines(server: &ServiceProcess) {
    const REQUESTS: usize = 200;
    const DROPPED: &str = "notary_orders_log_lines_dropped_total";
    let before = server.metric(DROPPED).await;
    while server.metric(DROPPED).await == before {
        let invalid = server.head(CREATE, &format!("{JSON}Content-Length: 2\r\n")) + "{}";
        let last = invalid.replace("Host", "Connection: close\r\nHost");
        let requests = invalid.repeat(REQUESTS - 1) + &last;
        assert_eq!(answers(server.address, requests.into_bytes()).await.len(), REQUESTS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_log_blocks_neither_orders_nor_stop() {
    let wiring = Wiring::embedded();
    let key = issue_key(&wiring);
    let (server, _log) =
        ServiceProcess::start_unread(&wiring, &["--rate-per-second=0", LONG_GRACE]);
    let mut server = server.with_key(key);
    drop_lines(&server).await;
    created(server.order("F-1").await).await;
    assert_eq!(server.readiness().await.0, 200);

    server.signal("-TERM");
    eventually(|| server.ended().is_some()).await;
    assert!(server.ended().unwrap().success());
}

/// Returns the ends of a pipe that is full.
fn full_pipe() -> (PipeReader, Stdio) {
    const CAPACITY: usize = 65_536;
    let (reader, mut writer) = pipe().unwrap();
    writer.write_all(&vec![b' '; CAPACITY]).unwrap();
    (reader, writer.into())
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_output_blocks_neither_start_nor_stop() {
    let wiring = Wiring::embedded();
    let (_reader, full) = full_pipe();
    let mut command = notary_orders(&wiring, &[LONG_GRACE]);
    // The first start prints a key there.
    let mut server = Process(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap());
    let mut log = BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("\"listening\"") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0);
    }
    let kill = format!("kill -TERM {}", server.0.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    eventually_async(async || server.0.try_wait().unwrap().is_some()).await;
    assert!(server.0.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_error_does_not_block_a_failed_start() {
    let wiring = Wiring::embedded();
    for flag in ["--listen=nowhere", "--mail-url=pigeon://host"] {
        let (_reader, full) = full_pipe();
        let mut command = notary_orders(&wiring, &[flag]);
        let mut server = Process(command.stdout(Stdio::null()).stderr(full).spawn().unwrap());
        eventually(|| server.0.try_wait().unwrap().is_some()).await;
        assert!(!server.0.wait().unwrap().success(), "{flag}");
    }
}
