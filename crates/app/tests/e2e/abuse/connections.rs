//! Thousands of slow, idle or unread connections, more connections than file descriptors, and
//! endless heads. Other clients must not notice.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::{Client, StatusCode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use test_servers::tools::is_nightly;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};

use crate::{
    harness::service_process::{ServiceProcess, issue_key},
    harness::{
        Api, CREATE, CREATE_WITH_DOCUMENTS, JSON, PATIENCE, client, client_without_pool, created,
        eventually_async, order, patiently, spooled,
    },
    wiring::Wiring,
};

pub const MIB: u64 = 1024 * 1024;
/// Longer than a slow connection may stay open. The service allows 10 s for a first head or a rejected
/// body, 15 s for the body of an order, and 75 s for a later head.
const CLOSE_TIME: Duration = Duration::from_secs(75 + PATIENCE.as_secs());

/// A service process with its stores.
pub struct Service {
    pub process: ServiceProcess,
    pub wiring: Wiring,
}

impl Service {
    /// Starts the service from a shell that first runs a command, such as `ulimit -n 100`.
    pub fn start(first: &str) -> Self {
        raise_file_limit();
        let wiring = Wiring::embedded();
        let process = ServiceProcess::start_after(&wiring, first, &["--rate-per-second=0"]);
        Self { process: process.with_key(issue_key(&wiring)), wiring }
    }

    /// Creates an order with a document on an open connection.
    async fn upload_on(&self, connection: &mut TcpStream, file_number: &str) {
        let request = self.process.raw_order_with_deed(file_number, "");
        connection.write_all(&request).await.unwrap();
        let mut response = Vec::new();
        // The order record contains no other object, so its end is the only `}`.
        while !response.ends_with(b"}") {
            let read = connection.read_buf(&mut response).await.unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&response));
        }
        assert!(response.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&response));
    }

    /// Creates orders one after another until `remaining` is 0. Returns the number of orders.
    pub fn create_orders(
        &self,
        name: &'static str,
        client: Client,
        remaining: Arc<AtomicUsize>,
    ) -> JoinHandle<usize> {
        let service = Api { client, ..(*self.process).clone() };
        tokio::spawn(async move {
            let mut count = 0;
            while remaining.load(Ordering::Relaxed) > 0 {
                let number = format!("F-{name}-{count}");
                let path = if count % 4 == 0 { CREATE_WITH_DOCUMENTS } else { CREATE };
                let order = async {
                    loop {
                        let answer = service.order_on(path, &number).send().await.unwrap();
                        if answer.status() != StatusCode::SERVICE_UNAVAILABLE {
                            break created(answer).await;
                        }
                        // The database of a busy machine may be late. A permit must never be missing.
                        let text = answer.text().await.unwrap();
                        assert!(text.contains("A dependency of the service"), "{text}");
                    }
                };
                patiently(order).await;
                count += 1;
            }
            count
        })
    }
}

/// Raises the soft limit of open files, by default about 1,000, to the hard limit: each connection
/// needs a file descriptor.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    assert!(limit.maximum.is_none_or(|files| files >= 4_096), "`ulimit -Hn` must be at least 4096");
}

/// Sends some text, then a byte each second, until the service closes the connection. Returns the
/// status of the response, or 0 if there is none.
async fn send_slowly(address: SocketAddr, first: String, byte: Option<u8>) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(first.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let writing = tokio::spawn(async move {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        while let Some(byte) = byte {
            second.tick().await;
            if writer.write_all(&[byte]).await.is_err() {
                break;
            }
        }
        writer
    });
    let mut response = Vec::new();
    // The response may arrive before the connection is reset.
    let _ = reader.read_to_end(&mut response).await;
    writing.abort();
    String::from_utf8_lossy(&response).split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_idle_connections_are_closed_while_orders_succeed() {
    // The default soft limit of shells and systemd; the service raises it.
    let service = Service::start("ulimit -S -n 1024");
    // Of another client, because a key has a quarter of the permits for bodies.
    let hostile = issue_key(&service.wiring);
    let begin =
        |service: &Api, path| service.head(path, &format!("{JSON}Content-Length: 1000\r\n")) + "{";
    let body = begin(&service.process.as_key(&hostile), CREATE);
    let unauthorized = begin(&service.process.as_key("unknown"), CREATE_WITH_DOCUMENTS);
    let kinds: [(&str, Option<u8>, u16); 6] = [
        ("", None, 408),
        ("POST /api/order", None, 408),
        ("POST / HTTP/1.1\r\nX: ", Some(b'x'), 408),
        (&body, Some(b' '), 408),
        (&unauthorized, Some(b' '), 401),
        // The first byte of the next head arrives with the request.
        ("GET /unknown HTTP/1.1\r\nHost: t\r\n\r\nP", None, 404),
    ];
    let connections = if is_nightly() { 2_000 } else { 100 };
    let open = Arc::new(AtomicUsize::new(connections));
    let clients = (0..connections).map(|at| {
        let ((first, byte, status), address, open) =
            (kinds[at % kinds.len()], service.process.address, Arc::clone(&open));
        let first = first.to_owned();
        tokio::spawn(async move {
            let answer = tokio::time::timeout(CLOSE_TIME, send_slowly(address, first, byte)).await;
            open.fetch_sub(1, Ordering::Relaxed);
            let actual = answer.unwrap_or_else(|_| panic!("no {status}: it stays open"));
            assert!(actual == status || (actual, byte) == (503, Some(b' ')), "{actual} {status}");
        })
    });
    let clients: Vec<_> = clients.collect();
    let orders = [
        service.create_orders("new", client_without_pool(), Arc::clone(&open)),
        service.create_orders("pooled", client(), Arc::clone(&open)),
    ];
    for client in clients {
        client.await.unwrap();
    }
    for task in orders {
        task.await.unwrap();
    }
    assert!(service.wiring.rows("orders") > 10);
    let memory = service.process.peak_memory();
    assert!(memory < 256 * MIB, "{} MiB", memory / MIB);
    assert_eq!(spooled(service.wiring.data()).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_hold_little_memory_and_are_closed() {
    let service = Service::start(":");
    created(service.process.order("F-0").await).await;
    let (files, memory) = (service.process.open_files(), service.process.memory());
    let get = |path: &str, encoding: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: t\r\nAccept-Encoding: {encoding}\r\n\r\n").repeat(8)
    };
    let bundle = "/docs/swagger-ui-5.35.0/swagger-ui-bundle.js";
    let requests = [get(bundle, "identity"), get(bundle, "gzip"), get("/openapi.json", "gzip")];
    let mut connections = Vec::new();
    for request in requests.iter().cycle().take(210) {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(service.process.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        connections.push(stream);
    }
    // A busy machine is not done with the responses yet: the client repeats its order.
    eventually_async(async || service.process.order("F-1").await.status() == StatusCode::CREATED)
        .await;
    // The service closes a connection 30 seconds after the last read.
    let deadline = Instant::now() + PATIENCE;
    while service.process.open_files() > files + 10 {
        let held = service.process.memory().saturating_sub(memory);
        assert!(held < 24 * MIB, "{} MiB for 210 connections", held / MIB);
        assert!(Instant::now() < deadline, "{} files are open", service.process.open_files());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    created(service.process.order("F-2").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_connections_are_served_at_the_file_limit() {
    let service = Service::start("ulimit -n 100");
    let mut open = TcpStream::connect(service.process.address).await.unwrap();
    service.upload_on(&mut open, "F-before").await;
    let others = join_all((0..400).map(|_| TcpStream::connect(service.process.address))).await;
    for at in 0..20 {
        patiently(service.upload_on(&mut open, &format!("F-{at}"))).await;
    }
    assert!(service.process.open_files() < 100);
    drop(others);
    created(patiently(service.process.order("F-after")).await).await;
    assert_eq!(service.wiring.rows("orders"), 22);
}

/// Returns the beginning of an order of 260 KB.
fn unfinished_json(api: &Api) -> String {
    api.head(CREATE, &format!("{JSON}Content-Length: 262000\r\n")) + &" ".repeat(260_000)
}

fn unfinished_json_with_wrong_key(api: &Api) -> String {
    unfinished_json(&api.as_key(&format!("nok_{:016x}_{:048x}", 1, 1)))
}

fn unfinished_form(api: &Api) -> String {
    let length = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 900000\r\n";
    let part = "--b\r\nContent-Disposition: form-data; name=\"requestedBy\"\r\n\r\n";
    api.head(CREATE_WITH_DOCUMENTS, length) + part + &" ".repeat(250_000) + "\r\n"
}

/// It is rejected at its second part.
fn rejected_form(api: &Api) -> String {
    let part = "\r\n--b\r\nContent-Disposition: form-data; name=\"requestedBy\"\r\n\r\n";
    unfinished_form(api) + part + &" ".repeat(250_000) + part
}

fn answered_json(api: &Api) -> String {
    let body = order("F-1").to_string() + &" ".repeat(250_000);
    api.head(CREATE, &format!("{JSON}Content-Length: {}\r\n", body.len())) + &body
}

fn unfinished_head(_: &Api) -> String {
    format!("POST {CREATE} HTTP/1.1\r\nX: {}", "y".repeat(15_000))
}

/// A key does not vouch for a body, only a permit does. The client of the key has a quarter of them. A body whose
/// permit is free again holds nothing, though its connection stays open.
#[tokio::test(flavor = "multi_thread")]
async fn connections_without_permit_hold_little_memory() {
    const CONNECTIONS: usize = 400;
    type Unfinished = fn(&Api) -> String;
    let kinds: [(Unfinished, u64); 6] = [
        (unfinished_json_with_wrong_key, 24),
        (unfinished_head, 24),
        (unfinished_json, 80),
        (unfinished_form, 80),
        (rejected_form, 80),
        (answered_json, 80),
    ];
    for (unfinished, most) in kinds {
        let service = Service::start(":");
        // The first requests fill buffers of the process.
        created(service.process.order("F-0").await).await;
        let (memory, sent) = (service.process.memory(), unfinished(&service.process));
        let opening = (0..CONNECTIONS).map(async |_| {
            let mut stream = TcpStream::connect(service.process.address).await.unwrap();
            // The service reads a part of it only.
            let _ = timeout(Duration::from_secs(3), stream.write_all(sent.as_bytes())).await;
            stream
        });
        let held = join_all(opening).await;
        let grown = service.process.peak_memory().saturating_sub(memory);
        assert!(grown < most * MIB, "{} MiB: {}", grown / MIB, &sent[..60]);
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_of_16_kib_is_served() {
    let service = Service::start(":");
    for (size, expected) in [(6_000, 201), (15_000, 201), (17_000, 431)] {
        let padding = format!("X: {}\r\n", "y".repeat(size));
        let request = service.process.raw_order_with_deed(&format!("F-{size}"), &padding);
        let mut stream = TcpStream::connect(service.process.address).await.unwrap();
        stream.write_all(&request).await.unwrap();
        let mut response = Vec::new();
        while !response.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut response).await.unwrap(), 0, "{size}");
        }
        let response = String::from_utf8_lossy(&response);
        assert!(response.starts_with(&format!("HTTP/1.1 {expected}")), "{size}: {response}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_heads_are_rejected_with_little_memory() {
    let service = Service::start(":");
    created(service.process.order("F-0").await).await;
    let memory = service.process.memory();
    let many = service.process.head(CREATE, &"X: y\r\n".repeat(100));
    let large = service.process.head(CREATE, &format!("X: {}\r\n", "y".repeat(200_000)));
    let endless = format!("POST {CREATE} HTTP/1.1\r\nX: {}", "y".repeat(120_000));
    for (head, status) in [(many, 431), (large, 431)] {
        let statuses =
            join_all((0..50).map(|_| send_slowly(service.process.address, head.clone(), None)))
                .await;
        // A client that is still sending may lose the response.
        assert!(
            statuses.iter().all(|actual| [status, 0].contains(actual))
                && statuses.contains(&status),
            "{statuses:?}"
        );
    }
    let open = Arc::new(AtomicUsize::new(1));
    let endless: Vec<_> = (0..200)
        .map(|_| tokio::spawn(send_slowly(service.process.address, endless.clone(), Some(b'y'))))
        .collect();
    let orders = service.create_orders("new", client_without_pool(), Arc::clone(&open));
    for client in endless {
        assert!([408, 431].contains(&client.await.unwrap()));
    }
    let held = service.process.peak_memory().saturating_sub(memory);
    assert!(held < 32 * MIB, "{} MiB", held / MIB);
    open.store(0, Ordering::Relaxed);
    assert!(orders.await.unwrap() > 0);
}
