//! Downloads of a document from local disk, next to nginx serving the same file.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use test_servers::postgres::Cluster;

use super::nginx::Nginx;
use crate::{
    http::Connection,
    instance::{Backend, Instance, flush},
    latency::median,
    request::{Request, Values},
    table::{self, Bound, short, target},
    trial::{Plan, alternate, ratios},
    upload::{Form, document},
};

const CONNECTIONS: usize = 8;
/// Names and sizes of documents, and the target.
const SHAPES: [(&str, usize, Option<f64>); 2] =
    [("1 MB", 1_000_000, None), ("10 MB", 10_000_000, Some(0.5))];
/// Bytes that a client reads at once.
const PIECE: usize = 128 * 1024;

/// A database with one order, which has one document.
pub struct Stored<'a> {
    pub instance: Instance<'a>,
    key: String,
}

impl<'a> Stored<'a> {
    pub fn new(plan: &Plan, backend: Backend, cluster: &'a Cluster, document: &[u8]) -> Self {
        let instance = Instance::new(&plan.binary(), backend, cluster);
        let key = instance.installation.issue_key(&[]);
        let service = instance.installation.start();
        let mut connection = Connection::open(&service.api).unwrap();
        let answer = Form::new(&key, 1, document).upload(&mut connection, || ()).unwrap();
        assert_eq!(answer.status, 201);
        let stored = Self { instance, key };
        let mut connection = Connection::open(&service.api).unwrap();
        let (answer, body) = connection.get(stored.request().next()).unwrap();
        assert!(answer.status == 200 && body == document, "{answer:?}, or other bytes");
        service.wait_until_delivered();
        stored
    }

    pub fn request(&self) -> Request {
        Request::get(&self.key, "/api/order/1/documents/0", Values::New)
    }

    /// Returns the file of the document.
    fn file(&self) -> PathBuf {
        largest_file(&self.instance.installation.data().join("documents")).unwrap().1
    }
}

fn largest_file(folder: &Path) -> Option<(u64, PathBuf)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter_map(|path| {
            let metadata = path.metadata().unwrap();
            if metadata.is_dir() { largest_file(&path) } else { Some((metadata.len(), path)) }
        })
        .max()
}

#[derive(Clone, Copy)]
struct Round {
    /// Megabytes (10^6 bytes) per second.
    rate: f64,
    /// CPU seconds of the server per GB.
    cpu: f64,
    /// CPU seconds of the clients per GB.
    client_cpu: f64,
    /// Most MiB above idle.
    memory: f64,
}

/// Downloads again and again over all connections. Counts the bytes that arrive in the window.
fn download(
    plan: &Plan,
    address: &str,
    request: &Request,
    length: usize,
    cpu: impl Fn() -> f64,
) -> Round {
    let (received, done) = (&AtomicU64::new(0), &AtomicBool::new(false));
    let probe = || (received.load(Ordering::Relaxed), cpu(), crate::process::own_cpu_seconds());
    let [before, after] = thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            let mut connection = Connection::open(address).unwrap();
            let (mut request, mut piece) = (request.clone(), vec![0; PIECE]);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    connection.send(request.next()).unwrap();
                    let note = |count| {
                        received.fetch_add(count as u64, Ordering::Relaxed);
                    };
                    let answer = connection.discard(&mut piece, note).unwrap();
                    assert_eq!((answer.status, answer.length), (200, length));
                }
            });
        }
        thread::sleep(plan.warmup());
        let before = probe();
        thread::sleep(plan.window());
        let after = probe();
        done.store(true, Ordering::Relaxed);
        [before, after]
    });
    let bytes = (after.0 - before.0) as f64;
    Round {
        rate: bytes / 1e6 / plan.window().as_secs_f64(),
        cpu: (after.1 - before.1) * 1e9 / bytes,
        client_cpu: (after.2 - before.2) * 1e9 / bytes,
        memory: 0.0,
    }
}

fn service(plan: &Plan, stored: &Stored<'_>, length: usize, cluster: &Cluster) -> Round {
    flush(cluster);
    let service = stored.instance.installation.start();
    service.server().reset_peak();
    let idle = service.server().memory();
    let cpu = || service.server().cpu_seconds();
    let round = download(plan, &service.api, &stored.request(), length, cpu);
    Round { memory: service.server().peak_memory() - idle, ..round }
}

/// Runs the measurement. Returns the targets.
pub fn run(plan: &Plan, cluster: &Cluster) -> Vec<Vec<String>> {
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for (size, bytes, least) in SHAPES {
        let document = document(bytes);
        let [postgres, sqlite] =
            Backend::ALL.map(|backend| Stored::new(plan, backend, cluster, &document));
        let nginx = Nginx::start(&sqlite.file());
        let from_nginx = |_| {
            flush(cluster);
            let request = Request::new("GET /document HTTP/1.1\r\nHost: localhost\r\n\r\n");
            download(plan, &nginx.address, &request, bytes, || nginx.cpu_seconds())
        };
        let rounds = alternate(
            plan.rounds,
            &[&|_| service(plan, &postgres, bytes, cluster), &from_nginx, &|_| {
                service(plan, &sqlite, bytes, cluster)
            }],
        );
        for (name, rounds_of) in
            ["service on PostgreSQL", "nginx", "service on SQLite"].iter().zip(&rounds)
        {
            let of = |figure: fn(&Round) -> f64| short(median(rounds_of.iter().map(figure)));
            let share = ratios(rounds_of, &rounds[1], |round| round.rate, |round| round.rate);
            let is_nginx = *name == "nginx";
            let unless_nginx = |figure: String| if is_nginx { String::new() } else { figure };
            rows.push(vec![
                format!("{size}: {name}"),
                of(|round| round.rate),
                unless_nginx(short(median(share.clone()))),
                of(|round| round.cpu),
                of(|round| round.client_cpu),
                unless_nginx(of(|round| round.memory)),
            ]);
            if let (Some(least), false) = (least, is_nginx) {
                let label = format!("download of {size}, {name} / nginx");
                targets.push(target(&label, &share, "", Bound::AtLeast(least)));
            }
        }
    }
    table::print(
        &format!("downloads from local disk, {CONNECTIONS} connections"),
        &["", "MB/s", "of nginx's", "CPU s per GB", "CPU s of the clients", "most MiB above idle"],
        &rows,
    );
    targets
}
