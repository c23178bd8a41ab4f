//! Bodies that never end: each is closed in time, and all hold little memory.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::{
    abuse::connections::MIB,
    harness::service_process::{ServiceProcess, issue_key},
    harness::{CREATE, JSON, created},
    wiring::Wiring,
};

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
        let line = async {
            let mut line = String::new();
            BufReader::new(&mut reader).read_line(&mut line).await.unwrap();
            line
        };
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
