//! Memory of the service as a process: idle, at full rate, and while many clients slowly upload
//! many large documents.

use std::{
    thread,
    time::{Duration, Instant},
};

use test_servers::postgres::Cluster;

use crate::{
    http::Connection,
    instance::{Instance, Wiring, flush},
    latency::median,
    schedule::Pace,
    service::Site,
    table::{self, Bound, TARGET_COLUMNS, short, target},
    trial::{CONNECTIONS, Plan},
    upload::{Form, document},
};

const DOCUMENTS: usize = 20;
const DOCUMENT_BYTES: usize = 10_000_000;
/// Pause after each chunk of 64 KiB: about 4 MB/s for each client.
const PAUSE: Duration = Duration::from_millis(15);
/// For what a start leaves behind.
const CALM: Duration = Duration::from_secs(3);
const STARTS: usize = 7;

/// Runs it all; it writes 12.8 GB, as often as there are wirings, and needs the room.
pub fn run(plan: &Plan, cluster: &Cluster) {
    let mut rows = Vec::new();
    let mut targets = Vec::new();
    for wiring in Wiring::ALL {
        let name = wiring.name();
        let starts: Vec<f64> = (0..STARTS).map(|_| start(plan, wiring, cluster)).collect();
        let at_full_rate: Vec<f64> = (0..plan.rounds)
            .map(|round| {
                flush(cluster);
                let trial = plan.trial(wiring, cluster, CONNECTIONS, Pace::Closed, round.into());
                assert!(trial.outcome.others.is_empty(), "{:?}", trial.outcome.others);
                trial.memory
            })
            .collect();
        let (idle, under_uploads, seconds) = slow_uploads(plan, wiring, cluster);
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
        "MiB over idle at full rate",
        "MiB over idle under slow uploads",
        "seconds that they took",
    ];
    table::print("memory", &columns, &rows);
    table::print("memory: targets", &TARGET_COLUMNS, &targets);
}

/// Seconds that a first start takes.
fn start(plan: &Plan, wiring: Wiring, cluster: &Cluster) -> f64 {
    let database = (wiring == Wiring::Postgres).then(|| cluster.database());
    let site =
        Site::new(&plan.binary(), database.as_ref().map(test_servers::postgres::Database::url));
    let ready_after = site.start().ready_after.as_secs_f64();
    if let Some(database) = database {
        cluster.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", database.name));
    }
    ready_after
}

/// MiB when idle, MiB over it at the most, and the seconds of the uploads. All are complete, so
/// that what they need at their end is counted.
fn slow_uploads(plan: &Plan, wiring: Wiring, cluster: &Cluster) -> (f64, f64, f64) {
    let instance = Instance::new(&plan.binary(), wiring, cluster);
    let document = document(DOCUMENT_BYTES);
    let form = Form::new(&instance.site.issue_key(&[]), DOCUMENTS, &document);
    let service = instance.site.start();
    thread::sleep(CALM);
    let idle = service.memory();
    service.forget_peak();
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            let (mut form, mut connection) =
                (form.clone(), Connection::open(&service.api).unwrap());
            scope.spawn(move || {
                assert_eq!(
                    form.upload(&mut connection, || thread::sleep(PAUSE)).unwrap().status,
                    201
                )
            });
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    instance.assert_orders(CONNECTIONS as u64);
    (idle, service.peak_memory() - idle, seconds)
}
