//! Bodies that never end, and the largest documents: all hold little memory.

use bytes::Bytes;
use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::{
    Body,
    multipart::{Form, Part},
};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::{
    abuse::connections::MIB,
    harness::service_process::{ServiceProcess, issue_key, run},
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, JSON, client_without_pool, created, deed, form, order,
        patiently, with_documents,
    },
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    #[ignore = "nightly: measures memory with hundreds of megabytes"]
    largest_signed_documents_use_little_memory,
    #[ignore = "nightly: measures memory with hundreds of megabytes"]
    archive_of_large_documents_is_sent_in_little_memory,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: measures memory with hundreds of megabytes"]
async fn unfinished_bodies_hold_bounded_memory_and_shut_out_no_other_key() {
    let wiring = Wiring::embedded();
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
        for at in 1..20 {
            created(patiently(process.order(&format!("F-{at}"))).await).await;
        }
    };
    let (statuses, ()) = tokio::join!(opening, order);
    let grown = process.peak_memory().saturating_sub(memory);
    // 64 bodies of 200 kB, 200 connections with 160 KiB that actix reads ahead, and the allocator's
    // gaps.
    assert!(grown < 96 * MIB, "{} MiB", grown / MIB);
    let count = |status: &str| statuses.iter().filter(|line| line.contains(status)).count();
    assert!(count(" 503 ") >= 64 && count(" 408 ") >= 64, "{statuses:?}");
    assert_eq!(count(" 503 ") + count(" 408 "), 200);
}

/// Four clients upload a document of 50 MiB each while four others download one.
async fn largest_signed_documents_use_little_memory(kind: Kind) {
    const SIZE: usize = 50 * 1024 * 1024;
    const BLOCK: usize = 64 * 1024;
    let wiring = kind.wiring();
    let flags = ["--rate-per-second=0", "--reads-rate-per-second=0"];
    let client = ServiceProcess::keyed(&wiring, &flags);
    let key = run(&wiring, &["keys", "issue", "--name=service", "--for-service=42"]);
    let service = client.as_key(key.trim());
    created(client.order("F-1").await).await;
    let path = "/api/order/1/signed-documents";
    let block = |at: usize| {
        let beginning: &[u8] = if at == 0 { b"%PDF-1.7\n" } else { b"" };
        Bytes::from([beginning, &vec![b' '; BLOCK - beginning.len()]].concat())
    };
    let blocks = [block(0), block(1)];
    let document = || (0..SIZE / BLOCK).map(|at| blocks[at.min(1)].clone());
    let expected = document().fold(Sha256::new(), Sha256::chain_update).finalize();
    let upload = async |at: usize| {
        let body = stream::iter(document().map(Ok::<_, std::io::Error>).collect::<Vec<_>>());
        let body = Body::wrap_stream(body);
        let part = Part::stream_with_length(body, SIZE as u64).file_name(format!("{at}.pdf"));
        let request = service.post(path).multipart(Form::new().part("documents", part));
        created(request.send().await.unwrap()).await;
    };
    // The first ones fill the buffers of a process that has just started.
    upload(0).await;
    let memory = client.memory();
    let download = async || {
        let request = client_without_pool().get(client.url(&format!("{path}/0")));
        let answer = request.bearer_auth(&client.key).send().await.unwrap();
        let mut bytes = answer.bytes_stream();
        let mut sha256 = Sha256::new();
        while let Some(block) = bytes.next().await {
            sha256.update(block.unwrap());
        }
        assert_eq!(sha256.finalize(), expected);
    };
    tokio::join!(join_all((1..=4).map(upload)), join_all((1..=4).map(async |_| download().await)));
    let held = client.peak_memory().saturating_sub(memory);
    assert!(held < 128 * MIB, "{} MiB", held / MIB);
    let list = client.read(path).await;
    assert_eq!(list["data"].as_array().unwrap().len(), 5);
}

async fn archive_of_large_documents_is_sent_in_little_memory(kind: Kind) {
    let wiring = kind.wiring();
    let process = ServiceProcess::keyed(&wiring, &[]);
    let mut large = deed();
    large.resize(8 * 1024 * 1024, b' ');
    let form = with_documents(form(&order("F-1")), 12, &large);
    created(process.post(CREATE_WITH_DOCUMENTS).multipart(form).send().await.unwrap()).await;
    let memory = process.peak_memory();
    let mut answer = process.get("/api/order/1/documents.zip").await;
    let mut size = 0;
    while let Some(block) = answer.chunk().await.unwrap() {
        size += block.len() as u64;
    }
    assert!(size > 96 * MIB && size < 97 * MIB, "{size}");
    let grown = process.peak_memory().saturating_sub(memory);
    assert!(grown < 32 * MIB, "{} MiB", grown / MIB);
}
