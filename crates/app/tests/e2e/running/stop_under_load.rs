//! SIGTERM under full load. Clients open connections while the service reports that it is ready, as
//! behind a load balancer, and every request gets its own response. The variable `STOPS` sets the
//! number of stops; `just stops` makes fifty.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    iter::repeat_n,
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use serde_json::Value;
use tokio::task::block_in_place;

use crate::{
    harness::service_process::ServiceProcess,
    harness::{Api, PATIENCE, setting, spooled},
    wiring::Wiring,
};

const STOPS: u32 = 3;

/// The way a client uses its connections.
#[derive(Clone, Copy)]
enum Mode {
    /// Sends requests on one connection until the service closes it.
    KeepAlive,
    /// Opens a connection for each request.
    Close,
    /// Sends orders with documents on one connection.
    Upload,
}

const CLIENTS: &[(Mode, usize)] = &[(Mode::KeepAlive, 16), (Mode::Close, 8), (Mode::Upload, 4)];

struct Client<'a> {
    mode: Mode,
    service: &'a Api,
    next: &'a AtomicUsize,
    ready: &'a AtomicBool,
}

impl Client<'_> {
    /// Creates orders until the service is not ready, and returns their number.
    ///
    /// # Panics
    /// If a connection is refused, or a request gets no response or that of another one.
    fn run(&self) -> usize {
        let mut acknowledged = 0;
        while self.ready.load(Ordering::Relaxed) {
            let stream = TcpStream::connect(self.service.address);
            acknowledged += self.use_connection(stream.expect("a ready service accepts"));
        }
        acknowledged
    }

    fn use_connection(&self, mut stream: TcpStream) -> usize {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut responses = BufReader::new(stream.try_clone().unwrap());
        for acknowledged in 1.. {
            let file_number = format!("F-{}", self.next.fetch_add(1, Ordering::Relaxed));
            stream
                .write_all(&self.request(&file_number))
                .unwrap_or_else(|error| panic!("{file_number} cannot be sent: {error}"));
            if response_closes(&mut responses, &file_number) {
                return acknowledged;
            }
        }
        unreachable!("the service closes every connection");
    }

    fn request(&self, file_number: &str) -> Vec<u8> {
        match self.mode {
            Mode::KeepAlive => self.service.raw_order(file_number, "").into_bytes(),
            Mode::Close => {
                self.service.raw_order(file_number, "Connection: close\r\n").into_bytes()
            }
            Mode::Upload => self.service.raw_order_with_deed(file_number, ""),
        }
    }
}

/// Returns whether the service reports that it is ready.
fn is_ready(ops_address: SocketAddr) -> bool {
    let mut answer = [0; 12];
    let asked = TcpStream::connect(ops_address).and_then(|mut stream| {
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: test\r\n\r\n")?;
        stream.read_exact(&mut answer)
    });
    asked.is_ok() && answer.ends_with(b" 200")
}

/// Reads the response to an order, and returns whether it closes the connection.
fn response_closes(responses: &mut BufReader<TcpStream>, file_number: &str) -> bool {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = responses
            .read_line(&mut head)
            .unwrap_or_else(|error| panic!("{file_number}: {error} after {head:?}"));
        assert_ne!(read, 0, "{file_number}: incomplete response {head:?}");
    }
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 201 "), "{file_number}: {head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    responses.read_exact(&mut body).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["file_number"], file_number);
    head.contains("\r\nconnection: close\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_answers_every_accepted_connection() {
    assert_answered(CLIENTS);
}

/// Between the requests of this client the service has no connection.
#[tokio::test(flavor = "multi_thread")]
async fn stop_answers_client_without_keep_alive() {
    assert_answered(&[(Mode::Close, 1)]);
}

fn assert_answered(modes: &[(Mode, usize)]) {
    let stops = setting("STOPS", STOPS);
    let (wiring, next) = (Wiring::embedded(), AtomicUsize::new(0));
    let mut acknowledged = 0;
    for _ in 0..stops {
        let service = ServiceProcess::keyed(&wiring, &["--rate-per-second=0", "--drain-secs=5"]);
        let api = (*service).clone();
        let ready = AtomicBool::new(true);
        let before = next.load(Ordering::Relaxed);
        acknowledged += block_in_place(|| {
            thread::scope(|scope| {
                let client = |mode| Client { mode, service: &api, next: &next, ready: &ready };
                let all = modes.iter().flat_map(|&(mode, count)| repeat_n(mode, count));
                let clients: Vec<_> =
                    all.map(|mode| scope.spawn(move || client(mode).run())).collect();
                // The health check of a load balancer.
                scope.spawn(|| {
                    while is_ready(api.ops_address) {
                        thread::sleep(Duration::from_millis(20));
                    }
                    ready.store(false, Ordering::Relaxed);
                });
                while next.load(Ordering::Relaxed) < before + 20 * modes.len() {
                    thread::sleep(Duration::from_millis(1));
                }
                thread::sleep(Duration::from_millis(fastrand::u64(0..100)));
                assert_eq!(service.stop("-TERM").0, Some(0));
                clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
            })
        });
    }
    println!("{stops} stops, {acknowledged} orders acknowledged");
    assert_eq!(acknowledged, next.load(Ordering::Relaxed), "a request got no response");
    assert_eq!(wiring.rows("orders"), acknowledged);
    assert_eq!(wiring.rows("documents"), wiring.objects().len());
    assert_eq!(spooled(wiring.data()), Vec::<PathBuf>::new());
}
