//! Heads and bodies that never end: each is closed in time, and all hold little memory.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    abuse_connections::{MIB, Service},
    harness::{CREATE, JSON, created},
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

/// A request whose body is not read, and the first byte of the next one.
const REQUEST_AND_BYTE: &[u8] =
    b"POST /unknown HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n{}P";

/// Reads until there is a whole head, and returns its first line.
async fn status_line(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    String::from_utf8(answer).unwrap().lines().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_later_heads_do_not_lock_others_out() {
    let service = Service::start("ulimit -n 512");
    let address = service.process.address;
    let held = join_all((0..96).map(async |_| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(REQUEST_AND_BYTE).await.unwrap();
        stream
    }));
    let mut held = held.await;
    let started = Instant::now();
    created(service.process.order("F-1").await).await;
    let closed = join_all(held.iter_mut().map(async |stream| {
        // The answer, and then the end or a reset.
        while stream.read(&mut [0; 4096]).await.is_ok_and(|length| length > 0) {
            let _ = stream.write_all(b"O").await;
        }
    }));
    closed.await;
    // A later head has 75 s. The rest allows for a busy machine.
    assert!(started.elapsed() < Duration::from_secs(110), "{:?}", started.elapsed());
    created(service.process.order("F-2").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_hold_bounded_memory_and_shut_out_no_other_key() {
    let wiring = Wiring::new();
    let process = ServiceProcess::keyed(&wiring, &["--rate-per-second=0"]);
    let hostile = process.as_key(&issue_key(&wiring));
    created(process.order("F-0").await).await;
    let memory = process.memory();
    let beginning = hostile.head(CREATE, &format!("{JSON}Content-Length: 262144\r\n"));
    let unfinished = [beginning.into_bytes(), vec![b' '; 200_000]].concat();
    let opening = join_all((0..200).map(async |_| {
        let mut stream = TcpStream::connect(process.address).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        let line = async { status_line(&mut reader).await };
        // The service reads the bodies that it does not permit in part only.
        let (line, _) = tokio::join!(line, writer.write_all(&unfinished));
        line
    }));
    let order = async {
        let started = Instant::now();
        for at in 1..20 {
            created(process.order(&format!("F-{at}")).await).await;
        }
        started.elapsed()
    };
    let (statuses, elapsed) = tokio::join!(opening, order);
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    let grown = process.peak_memory().saturating_sub(memory);
    // 64 bodies of 200 kB, 200 connections with 160 KiB that actix reads ahead, and the allocator's
    // gaps.
    assert!(grown < 96 * MIB, "{} MiB", grown / MIB);
    let count = |status: &str| statuses.iter().filter(|line| line.contains(status)).count();
    assert!(count(" 503 ") >= 64 && count(" 408 ") >= 64, "{statuses:?}");
    assert_eq!(count(" 503 ") + count(" 408 "), 200);
}
