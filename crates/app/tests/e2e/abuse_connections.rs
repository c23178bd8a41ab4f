//! Connections by the thousand that are slow, idle, or never read; more than there are files for;
//! heads that do not end. Nobody else notices.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, client, client_builder, created, form_with_deed, order,
        raw_form_with_deed, spooled,
    },
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

pub const MIB: u64 = 1024 * 1024;
/// In which a client is served whatever others do.
const SERVED: Duration = Duration::from_secs(10);
/// A head or a refused body has ten seconds, the body of an order fifteen; the rest is for a
/// machine that is busy.
const CUT: Duration = Duration::from_secs(15 + 10 + 20);

pub struct Service {
    pub process: Arc<ServiceProcess>,
    pub wiring: Wiring,
    pub key: String,
}

impl Service {
    /// By a shell that does something first.
    pub fn start(first: &str) -> Self {
        allow_files();
        let wiring = Wiring::new();
        let process =
            Arc::new(ServiceProcess::start_after(&wiring, first, &["--rate-per-second=0"]));
        Self { key: issue_key(&wiring), process, wiring }
    }

    fn address(&self) -> SocketAddr {
        self.process.address.parse().unwrap()
    }

    /// A request up to its body.
    fn head(&self, path: &str, more: &str) -> String {
        format!(
            "POST {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{more}\r\n",
            self.key
        )
    }

    /// An order with a document on a connection that stays.
    async fn upload_on(&self, connection: &mut TcpStream, file_number: &str) {
        let body = raw_form_with_deed(file_number);
        let head = self.head(CREATE_WITH_DOCUMENTS, &format!("Content-Length: {}\r\n", body.len()));
        let head = head.replace("application/json", "multipart/form-data; boundary=b");
        connection.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
        let mut answer = Vec::new();
        // The end of the order record, which has no object within.
        while !answer.ends_with(b"}") {
            assert_ne!(
                connection.read_buf(&mut answer).await.unwrap(),
                0,
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
        assert!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
    }

    /// Orders on connections of its own, one after another, until told to stop; how many.
    pub fn order_on(
        &self,
        name: &'static str,
        client: Client,
        until: Arc<AtomicUsize>,
    ) -> JoinHandle<usize> {
        let (url, upload, key) =
            (self.process.url(CREATE), self.process.url(CREATE_WITH_DOCUMENTS), self.key.clone());
        tokio::spawn(async move {
            let mut stored = 0;
            while until.load(Ordering::Relaxed) > 0 {
                let (asked, number) = (Instant::now(), format!("F-{name}-{stored}"));
                let request = if stored % 4 == 0 {
                    client.post(&upload).multipart(form_with_deed(&number))
                } else {
                    client.post(&url).json(&order(&number))
                };
                created(request.bearer_auth(&key).send().await.unwrap()).await;
                assert!(asked.elapsed() < SERVED, "{number}: {:?}", asked.elapsed());
                stored += 1;
            }
            stored
        })
    }
}

/// Connections are files, and a process may have a thousand of them unless it asks for more.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    assert!(limit.maximum.is_none_or(|files| files >= 4_096), "`ulimit -Hn` must be at least 4096");
}

/// Each request on a connection of its own.
pub fn every_time_anew() -> Client {
    client_builder().pool_max_idle_per_host(0).build().unwrap()
}

/// Connects, sends what it begins with and then a byte each second, until the service closes; the
/// status that it was told, or 0.
async fn dribble(address: SocketAddr, first: String, byte: Option<u8>) -> u16 {
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
    let mut answer = Vec::new();
    // One that is reset in the middle of what it sends may have read its answer before.
    let _ = reader.read_to_end(&mut answer).await;
    writing.abort();
    String::from_utf8_lossy(&answer).split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_that_are_slow_or_idle_are_cut_and_keep_nobody_from_ordering() {
    // What shells and systemd begin with; the service asks for more.
    let service = Service::start("ulimit -S -n 1024");
    let body = service.head(CREATE, "Content-Length: 1000\r\n") + "{";
    let refused = format!(
        "POST {CREATE_WITH_DOCUMENTS} HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n"
    );
    let kinds: [(&str, Option<u8>, u16); 5] = [
        ("", None, 408),
        ("POST /api/order", None, 408),
        ("POST / HTTP/1.1\r\nX: ", Some(b'x'), 408),
        (&body, Some(b' '), 400),
        (&refused, Some(b' '), 401),
    ];
    let open = Arc::new(AtomicUsize::new(2_000));
    let clients = (0..2_000).map(|at| {
        let ((first, byte, status), address, open) =
            (kinds[at % kinds.len()], service.address(), Arc::clone(&open));
        let first = first.to_owned();
        tokio::spawn(async move {
            let began = Instant::now();
            let told = dribble(address, first, byte).await;
            open.fetch_sub(1, Ordering::Relaxed);
            assert_eq!(told, status);
            assert!(began.elapsed() < CUT, "{status} after {:?}", began.elapsed());
        })
    });
    let clients: Vec<_> = clients.collect();
    let ordering = [
        service.order_on("anew", every_time_anew(), Arc::clone(&open)),
        service.order_on("kept", client(), Arc::clone(&open)),
    ];
    for client in clients {
        client.await.unwrap();
    }
    let [anew, kept] = ordering;
    let _ = (anew.await.unwrap(), kept.await.unwrap());
    assert!(service.wiring.rows("orders") > 10);
    assert_eq!(spooled(service.wiring.data()).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_never_reads_holds_little_and_not_for_ever() {
    let service = Service::start(":");
    created(service.process.post(&service.key, "F-0").await).await;
    let (files, memory) = (service.process.open_files(), service.process.memory());
    let request =
        "GET /docs/swagger-ui-5.35.0/swagger-ui-bundle.js HTTP/1.1\r\nHost: t\r\n\r\n".repeat(8);
    let mut connections = Vec::new();
    for _ in 0..200 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(service.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        connections.push(stream);
    }
    created(service.process.post(&service.key, "F-1").await).await;
    let began = Instant::now();
    // Cut 30 seconds after they have last read something.
    while service.process.open_files() > files + 10 {
        let held = service.process.memory().saturating_sub(memory);
        assert!(held < 80 * MIB, "{} MiB for 200 who do not read", held / MIB);
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{} files are open",
            service.process.open_files()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    created(service.process.post(&service.key, "F-2").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_there_are_no_more_files_those_who_are_served_go_on_and_the_others_follow() {
    let service = Service::start("ulimit -n 100");
    let mut kept = TcpStream::connect(service.address()).await.unwrap();
    service.upload_on(&mut kept, "F-before").await;
    let crowd = join_all((0..400).map(|_| TcpStream::connect(service.address()))).await;
    let began = Instant::now();
    for at in 0..20 {
        service.upload_on(&mut kept, &format!("F-{at}")).await;
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(service.process.open_files() < 100);
    drop(crowd);
    let began = Instant::now();
    created(service.process.post(&service.key, "F-after").await).await;
    assert!(began.elapsed() < SERVED, "{:?}", began.elapsed());
    assert_eq!(service.wiring.rows("orders"), 22);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_too_large_or_do_not_end_are_refused_and_hold_little() {
    let service = Service::start(":");
    created(service.process.post(&service.key, "F-0").await).await;
    let memory = service.process.memory();
    let many = service.head(CREATE, &"X: y\r\n".repeat(100));
    let large = service.head(CREATE, &format!("X: {}\r\n", "y".repeat(200_000)));
    let endless = format!("POST {CREATE} HTTP/1.1\r\nX: {}", "y".repeat(120_000));
    for (head, status) in [(many, 431), (large, 431)] {
        let told = join_all((0..50).map(|_| dribble(service.address(), head.clone(), None))).await;
        // One that is still sending when it is refused may not get to read that.
        assert!(
            told.iter().all(|told| [status, 0].contains(told)) && told.contains(&status),
            "{told:?}"
        );
    }
    let open = Arc::new(AtomicUsize::new(1));
    let endless: Vec<_> = (0..200)
        .map(|_| tokio::spawn(dribble(service.address(), endless.clone(), Some(b'y'))))
        .collect();
    let ordering = service.order_on("anew", every_time_anew(), Arc::clone(&open));
    for client in endless {
        assert!([408, 431].contains(&client.await.unwrap()));
    }
    let held = service.process.peak_memory().saturating_sub(memory);
    assert!(held < 100 * MIB, "{} MiB", held / MIB);
    open.store(0, Ordering::Relaxed);
    assert!(ordering.await.unwrap() > 0);
}
