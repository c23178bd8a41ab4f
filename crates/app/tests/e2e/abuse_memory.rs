//! Heads and bodies that never end: each is closed in time, and all hold little memory.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    abuse_connections::{MIB, Service},
    harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, order},
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

/// A request whose body is not read, and the first byte of the next one.
const REQUEST_AND_BYTE: &[u8] =
    b"POST /unknown HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n{}P";

/// Reads until there is a whole head, and returns its first line.
async fn status_line(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    String::from_utf8(answer).unwrap().lines().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_later_heads_do_not_lock_others_out() {
    let service = Service::start("ulimit -n 256");
    let address = service.process.address.clone();
    let held = join_all((0..96).map(async |_| {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(REQUEST_AND_BYTE).await.unwrap();
        stream
    }));
    let mut held = held.await;
    let started = Instant::now();
    created(service.process.post(&service.key, "F-1").await).await;
    let closed = join_all(held.iter_mut().map(async |stream| {
        // The answer, and then the end or a reset.
        while stream.read(&mut [0; 4096]).await.is_ok_and(|length| length > 0) {
            let _ = stream.write_all(b"O").await;
        }
    }));
    closed.await;
    // A head has 10 s. The rest allows for a busy machine.
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    created(service.process.post(&service.key, "F-2").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hopeless_request_is_rejected_without_continue() {
    let app = TestApp::start().await;
    let expect = "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length:";
    let large = app.head(CREATE, &format!("{expect} 100000000000\r\n"));
    let huge_form = app
        .head(CREATE_WITH_DOCUMENTS, &format!("{expect} 100000000000\r\n"))
        .replace("application/json", "multipart/form-data; boundary=b");
    let wrong_key = large.replace(&app.key, "no_key");
    for (head, status) in [(large, 413), (huge_form, 413), (wrong_key, 401)] {
        let mut stream = TcpStream::connect(app.address()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let line = status_line(&mut stream).await;
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{line}");
    }
    let body = order("F-1").to_string();
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    let head = app.head(CREATE, &format!("{expect} {}\r\n", body.len()));
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(status_line(&mut stream).await, "HTTP/1.1 100 Continue");
    stream.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(status_line(&mut stream).await, "HTTP/1.1 201 Created");
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_hold_bounded_memory_and_orders_pass() {
    let wiring = Wiring::new();
    let process = ServiceProcess::start(&wiring, &["--rate-per-second=0", "--body-memory-mb=8"]);
    let (hostile, other) = (issue_key(&wiring), issue_key(&wiring));
    created(process.post(&other, "F-0").await).await;
    let memory = process.memory();
    let beginning = format!(
        "POST {CREATE} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {hostile}\r\n\
         Content-Type: application/json\r\nContent-Length: 262144\r\n\r\n"
    );
    let unfinished = [beginning.into_bytes(), vec![b' '; 200_000]].concat();
    let opening = join_all((0..200).map(async |_| {
        let mut stream = TcpStream::connect(&process.address).await.unwrap();
        let _ = stream.write_all(&unfinished).await;
        stream
    }));
    let mut held = opening.await;
    created(process.post(&other, "F-1").await).await;
    created(process.post(&hostile, "F-2").await).await;
    // The budget, 200 connections, and the allocator's gaps.
    let grown = process.memory().saturating_sub(memory);
    assert!(grown < 32 * MIB, "{} MiB", grown / MIB);
    let statuses = join_all(held.iter_mut().map(status_line)).await;
    let count = |status: &str| statuses.iter().filter(|line| line.contains(status)).count();
    assert!(count(" 503 ") > 100 && count(" 408 ") > 10, "{statuses:?}");
    assert_eq!(count(" 503 ") + count(" 408 "), 200);
}
