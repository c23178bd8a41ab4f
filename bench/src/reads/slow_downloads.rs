//! Memory of the service during many slow downloads.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use test_servers::postgres::Cluster;

use super::downloads::Stored;
use crate::{
    crowd::raise_file_limit,
    instance::Backend,
    table::{self, Bound, short, target},
    trial::Plan,
    upload::document,
};

const CLIENTS: usize = 500;
const DOCUMENT_BYTES: usize = 10_000_000;
/// Bytes of the receive buffer of a client. The kernel doubles it.
const RECEIVE_BUFFER: usize = 8 * 1024;
/// What a client reads at once, after a random pause of this length on average: 10 KB/s.
const PIECE: usize = 1000;
const PAUSE: Duration = Duration::from_millis(100);
const LENGTH: Duration = Duration::from_secs(20);
/// Time for the memory to settle after a start.
const SETTLE: Duration = Duration::from_secs(3);

/// A client that reads slowly, and checks what it reads.
struct Client {
    stream: TcpStream,
    head: Vec<u8>,
    is_body: bool,
    /// Bytes of the body.
    received: usize,
    due: Instant,
}

impl Client {
    fn start(address: SocketAddr, request: &[u8]) -> Self {
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        // Before it connects, because the window's scale follows from it.
        sockopt::set_socket_recv_buffer_size(&stream, RECEIVE_BUFFER).unwrap();
        connect(&stream, &address).unwrap();
        let mut stream = TcpStream::from(stream);
        stream.write_all(request).unwrap();
        stream.set_nonblocking(true).unwrap();
        let due = Instant::now() + random_pause();
        Self { stream, head: Vec::new(), is_body: false, received: 0, due }
    }

    /// Reads a piece.
    ///
    /// # Panics
    /// If the connection has ended, or the answer is another one.
    fn read(&mut self, document: &[u8]) {
        let mut piece = [0; PIECE];
        let count = match self.stream.read(&mut piece) {
            Ok(0) => panic!("the service closed a download after {} bytes", self.received),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("a download broke after {} bytes: {error}", self.received),
        };
        let mut piece = &piece[..count];
        if !self.is_body {
            self.head.extend_from_slice(piece);
            let Some(end) = self.head.windows(4).position(|window| window == b"\r\n\r\n") else {
                return;
            };
            assert!(self.head.starts_with(b"HTTP/1.1 200 "), "{}", self.head.escape_ascii());
            self.is_body = true;
            piece = &piece[piece.len() - (self.head.len() - end - 4)..];
        }
        assert_eq!(piece, &document[self.received..self.received + piece.len()]);
        self.received += piece.len();
    }
}

/// Returns a pause between nothing and twice [`PAUSE`].
fn random_pause() -> Duration {
    PAUSE.mul_f64(2.0 * fastrand::f64())
}

/// Runs the measurement. Returns the targets.
pub fn run(plan: &Plan, cluster: &Cluster) -> Vec<Vec<String>> {
    raise_file_limit(CLIENTS);
    let document = document(DOCUMENT_BYTES);
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for backend in Backend::ALL {
        let name = backend.name();
        let stored = Stored::new(plan, backend, cluster, &document);
        let service = stored.instance.installation.start();
        thread::sleep(SETTLE);
        let idle = service.server().memory();
        service.server().reset_peak();
        let clients = download(service.api.parse().unwrap(), &stored, &document);
        let (above, at_end) =
            (service.server().peak_memory() - idle, service.server().memory() - idle);
        let received: Vec<usize> = clients.iter().map(|client| client.received).collect();
        let least = received.iter().min().copied().unwrap_or_default();
        let sum: usize = received.iter().sum();
        let rate = |bytes: f64| short(bytes / 1000.0 / LENGTH.as_secs_f64());
        rows.push(vec![
            name.to_owned(),
            short(idle),
            short(above),
            short(at_end),
            rate(sum as f64 / CLIENTS as f64),
            rate(least as f64),
        ]);
        targets.push(target(
            &format!("{name}: {CLIENTS} slow downloads"),
            &[above],
            " MiB",
            Bound::AtMost(32.0),
        ));
    }
    table::print(
        &format!("{CLIENTS} slow downloads of 10 MB from local disk, for {LENGTH:?}"),
        &[
            "",
            "MiB idle",
            "most MiB above idle",
            "at the end",
            "KB/s of a client",
            "of the slowest",
        ],
        &rows,
    );
    targets
}

/// Downloads slowly. Returns the clients, whose downloads are still in progress.
fn download(address: SocketAddr, stored: &Stored<'_>, document: &[u8]) -> Vec<Client> {
    let request = stored.request().next().to_vec();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::start(address, &request)).collect();
    let end = Instant::now() + LENGTH;
    while Instant::now() < end {
        let now = Instant::now();
        for client in clients.iter_mut().filter(|client| client.due <= now) {
            client.read(document);
            client.due += random_pause();
        }
        thread::sleep(Duration::from_millis(2));
    }
    assert!(clients.iter().all(|client| client.received > 0), "a download did not begin");
    clients
}
