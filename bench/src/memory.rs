//! Memory of the process: idle, at full rate, and during many slow uploads of large documents.

use std::{
    thread,
    time::{Duration, Instant},
};

use test_servers::postgres::Cluster;

use crate::{
    http::Connection,
    instance::{Backend, Instance, flush},
    latency::median,
    schedule::Pace,
    service::{Installation, Service},
    table::{self, Bound, TARGET_COLUMNS, short, target},
    trial::{CONNECTIONS, Plan},
    upload::{Form, document},
};

const DOCUMENTS: usize = 20;
const DOCUMENT_BYTES: usize = 10_000_000;
/// Pause after each chunk of 64 KiB, for about 4 MB/s per client.
const PAUSE: Duration = Duration::from_millis(15);
/// Time for the memory to settle after a start.
const SETTLE: Duration = Duration::from_secs(3);
const STARTS: usize = 7;

/// Runs the measurement on both databases. Writes 12.8 GB for each.
pub fn run(plan: &Plan, cluster: &Cluster) {
    let mut rows = Vec::new();
    let mut targets = Vec::new();
    for backend in Backend::ALL {
        let name = backend.name();
        let starts: Vec<f64> = (0..STARTS).map(|_| start_seconds(plan, backend, cluster)).collect();
        let at_full_rate: Vec<f64> = (0..plan.rounds)
            .map(|round| {
                flush(cluster);
                let trial = plan.trial(backend, cluster, CONNECTIONS, Pace::Closed, round.into());
                assert!(trial.outcome.others.is_empty(), "{:?}", trial.outcome.others);
                trial.memory
            })
            .collect();
        let SlowUploads { idle, above_idle: under_uploads, seconds, .. } =
            slow_uploads(plan, backend, cluster, PAUSE, |_, _| 0);
        rows.push(vec![
            name.to_owned(),
            format!("{:.0}", median(starts) * 1000.0),
            short(idle),
            short(median(at_full_rate.clone())),
            short(under_uploads),
            format!("{seconds:.0}"),
        ]);
        targets.push(target(
            &format!("{name}: {CONNECTIONS} connections at full rate"),
            &at_full_rate,
            " MiB",
            Bound::AtMost(32.0),
        ));
        targets.push(target(
            &format!("{name}: {CONNECTIONS} slow uploads of {DOCUMENTS} x 10 MB"),
            &[under_uploads],
            " MiB",
            Bound::AtMost(32.0),
        ));
    }
    let columns = [
        "",
        "ms from start to ready",
        "MiB idle",
        "MiB above idle at full rate",
        "MiB above idle during slow uploads",
        "seconds of the uploads",
    ];
    table::print("memory", &columns, &rows);
    table::print("memory: targets", &TARGET_COLUMNS, &targets);
}

/// Measures the seconds of a first start.
fn start_seconds(plan: &Plan, backend: Backend, cluster: &Cluster) -> f64 {
    let database = (backend == Backend::Postgres).then(|| cluster.database());
    let installation = Installation::new(
        &plan.binary(),
        database.as_ref().map(test_servers::postgres::Database::url),
    );
    let ready_after = installation.start().ready_after.as_secs_f64();
    if let Some(database) = database {
        cluster.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", database.name));
    }
    ready_after
}

/// What many slow uploads take.
pub struct SlowUploads {
    /// MiB before.
    idle: f64,
    /// Most MiB above idle.
    pub above_idle: f64,
    seconds: f64,
    /// Megabytes (10^6 bytes) per second.
    pub rate: f64,
}

/// Uploads [`DOCUMENTS`] over each of [`CONNECTIONS`], with a pause after each chunk of 64 KiB.
/// Calls `beside` when the uploads have begun; it returns the number of other orders. All are
/// completed.
pub fn slow_uploads(
    plan: &Plan,
    backend: Backend,
    cluster: &Cluster,
    pause: Duration,
    beside: impl FnOnce(&Service, &str) -> u64,
) -> SlowUploads {
    let instance = Instance::new(&plan.binary(), backend, cluster);
    let document = document(DOCUMENT_BYTES);
    let key = instance.installation.issue_key(&[]);
    let form = Form::new(&key, DOCUMENTS, &document);
    let service = instance.installation.start();
    thread::sleep(SETTLE);
    let idle = service.server().memory();
    service.server().reset_peak();
    let started = Instant::now();
    let others = thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            let (mut form, mut connection) =
                (form.clone(), Connection::open(&service.api).unwrap());
            scope.spawn(move || {
                let answer = form.upload(&mut connection, || thread::sleep(pause)).unwrap();
                assert_eq!(answer.status, 201);
            });
        }
        beside(&service, &key)
    });
    let seconds = started.elapsed().as_secs_f64();
    instance.assert_orders(CONNECTIONS as u64 + others);
    SlowUploads {
        idle,
        above_idle: service.server().peak_memory() - idle,
        seconds,
        rate: (CONNECTIONS * DOCUMENTS * DOCUMENT_BYTES) as f64 / 1e6 / seconds,
    }
}
