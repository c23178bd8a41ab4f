//! Orders with documents, next to a yardstick that only writes the same files with the same
//! concurrency, with `fsync` of each file and its folder.

use std::{
    fs::{self, File},
    hint::black_box,
    io::Write as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};
use test_servers::postgres::Cluster;

use crate::{
    folder::Folder,
    http::Connection,
    instance::{Backend, Instance, flush},
    latency::median,
    process::{Server, own_cpu_seconds},
    table::{self, Bound, TARGET_COLUMNS, short, target},
    trial::{Plan, alternate, ratios},
    upload::{Form, document},
};

/// Limit on the bytes of a round, so that it fits on a small disk.
const MAX_ROUND_BYTES: u64 = 3_000_000_000;

/// Documents of an order, and the connections that upload them.
pub struct Shape {
    pub name: &'static str,
    pub documents: usize,
    pub bytes: usize,
    pub connections: usize,
    /// The least share of the disk alone.
    pub target: Option<f64>,
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "1 x 10 MB, 8 connections",
        documents: 1,
        bytes: 10_000_000,
        connections: 8,
        target: Some(0.6),
    },
    Shape {
        name: "20 x 1 MB, 8 connections",
        documents: 20,
        bytes: 1_000_000,
        connections: 8,
        target: None,
    },
    Shape {
        name: "1 x 100 KB, 32 connections",
        documents: 1,
        bytes: 100_000,
        connections: 32,
        target: Some(0.5),
    },
];

/// A round of one candidate.
#[derive(Clone, Copy)]
pub struct Round {
    /// Megabytes (10^6 bytes) per second.
    pub rate: f64,
    /// CPU seconds of the service per 100 MB; those of the threads that write, if it is the disk.
    pub cpu: f64,
    /// Most MiB above idle.
    pub memory: f64,
}

/// Runs `work` on several threads until the window ends or [`MAX_ROUND_BYTES`] are written. Returns
/// the number of runs and the seconds that they took.
fn work_for<'a>(
    plan: &Plan,
    threads: usize,
    bytes: u64,
    work: impl Fn(usize) -> Box<dyn FnMut() + 'a> + Sync,
) -> (u64, f64) {
    let (started, done) = (Instant::now(), AtomicU64::new(0));
    let max_runs = MAX_ROUND_BYTES / bytes;
    let finished: Vec<(u64, Duration)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let (work, done) = (&work, &done);
                scope.spawn(move || {
                    let (mut work, mut own) = (work(thread), 0);
                    while started.elapsed() < plan.window()
                        && done.fetch_add(1, Ordering::Relaxed) < max_runs
                    {
                        work();
                        own += 1;
                    }
                    (own, started.elapsed())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let last = finished.iter().map(|(_, at)| *at).max().unwrap_or_default();
    (finished.iter().map(|(own, _)| own).sum(), last.as_secs_f64())
}

/// Measures a new service on a new database.
pub fn service(
    plan: &Plan,
    shape: &Shape,
    document: &[u8],
    backend: Backend,
    cluster: &Cluster,
) -> Round {
    flush(cluster);
    let instance = Instance::new(&plan.binary(), backend, cluster);
    let key = instance.installation.issue_key(&[]);
    let service = instance.installation.start();
    let (orders, round) = upload(plan, shape, document, &key, &service.api, service.server());
    assert_documents(&instance, shape, orders, &instance.installation.data().join("documents"));
    round
}

/// Checks that the database and the folder have the documents of all acknowledged orders.
///
/// # Panics
/// If they have not.
pub fn assert_documents(instance: &Instance<'_>, shape: &Shape, orders: u64, folder: &Path) {
    instance.assert_orders(orders);
    let files = count_files(folder, shape.bytes as u64);
    let documents = orders * shape.documents as u64;
    assert_eq!(
        (instance.rows("documents"), files),
        (documents, documents),
        "rows of documents, and files"
    );
}

/// Uploads orders to a server until the round ends. Returns their number.
pub fn upload(
    plan: &Plan,
    shape: &Shape,
    document: &[u8],
    key: &str,
    address: &str,
    server: Server,
) -> (u64, Round) {
    let form = Form::new(key, shape.documents, document);
    server.reset_peak();
    let (idle, cpu) = (server.memory(), server.cpu_seconds());
    let bytes = (shape.documents * shape.bytes) as u64;
    let (orders, seconds) = work_for(plan, shape.connections, bytes, |_| {
        let (mut form, mut connection) = (form.clone(), Connection::open(address).unwrap());
        Box::new(move || assert_eq!(form.upload(&mut connection, || ()).unwrap().status, 201))
    });
    let (cpu, memory) = (server.cpu_seconds() - cpu, server.peak_memory() - idle);
    let megabytes = (orders * bytes) as f64 / 1e6;
    (orders, Round { rate: megabytes / seconds, cpu: cpu * 100.0 / megabytes, memory })
}

/// Counts the files of this size in a folder and its subfolders.
pub fn count_files(folder: &Path, bytes: u64) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let count = |entry: fs::DirEntry| {
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            count_files(&entry.path(), bytes)
        } else {
            u64::from(metadata.len() == bytes)
        }
    };
    entries.map(count).sum()
}

/// Measures a thread for each connection that only writes the documents.
pub fn disk(plan: &Plan, shape: &Shape, document: &[u8], cluster: &Cluster) -> Round {
    flush(cluster);
    let folder = Folder::new();
    let cpu = own_cpu_seconds();
    let (files, seconds) = work_for(plan, shape.connections, shape.bytes as u64, |thread| {
        let path = folder.path().to_owned();
        let (opened, mut number) = (File::open(&path).unwrap(), 0_u64);
        Box::new(move || {
            let mut file = File::create(path.join(format!("{thread}-{number}"))).unwrap();
            file.write_all(document).unwrap();
            file.sync_all().unwrap();
            opened.sync_all().unwrap();
            number += 1;
        })
    });
    let cpu = own_cpu_seconds() - cpu;
    let megabytes = (files * shape.bytes as u64) as f64 / 1e6;
    Round { rate: megabytes / seconds, cpu: cpu * 100.0 / megabytes, memory: 0.0 }
}

/// Measures SHA-256 on one core in megabytes per second.
fn sha256() -> f64 {
    let bytes = document(64_000_000);
    let rates = (0..5).map(|_| {
        let started = Instant::now();
        black_box(Sha256::digest(black_box(&bytes)));
        64.0 / started.elapsed().as_secs_f64()
    });
    median(rates.collect::<Vec<_>>())
}

/// Runs the measurement on both databases.
pub fn run(plan: &Plan, cluster: &Cluster) {
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for shape in &SHAPES {
        let document = document(shape.bytes);
        let sqlite = |_| service(plan, shape, &document, Backend::Sqlite, cluster);
        let postgres = |_| service(plan, shape, &document, Backend::Postgres, cluster);
        let rounds = alternate(
            plan.rounds,
            &[&sqlite, &|_| disk(plan, shape, &document, cluster), &postgres],
        );
        let of =
            |rounds: &[Round], figure: fn(&Round) -> f64| short(median(rounds.iter().map(figure)));
        let disk = &rounds[1];
        rows.push(vec![
            format!("{}: disk alone", shape.name),
            of(disk, |round| round.rate),
            String::new(),
            of(disk, |round| round.cpu),
            String::new(),
        ]);
        for (name, rounds) in [("SQLite", &rounds[0]), ("PostgreSQL", &rounds[2])] {
            let share = ratios(rounds, disk, |round| round.rate, |round| round.rate);
            let name = format!("{}: {name}", shape.name);
            let figures = [
                of(rounds, |round| round.rate),
                short(median(share.clone())),
                of(rounds, |round| round.cpu),
                of(rounds, |round| round.memory),
            ];
            rows.push([vec![name.clone()], figures.to_vec()].concat());
            targets.extend(
                shape.target.map(|least| {
                    target(&format!("{name} / disk"), &share, "", Bound::AtLeast(least))
                }),
            );
        }
    }
    let title = "uploads, each durable before it is acknowledged";
    table::print(
        title,
        &["", "MB/s", "share of the disk alone", "CPU s per 100 MB", "most MiB above idle"],
        &rows,
    );
    println!("\nSHA-256 on one core: {} MB/s.", short(sha256()));
    table::print("uploads: targets", &TARGET_COLUMNS, &targets);
}
