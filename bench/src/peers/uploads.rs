//! Orders with documents, next to the Fastify service, which does not wait for the disk, and next
//! to the disk alone, which does.

use std::path::Path;

use test_servers::postgres::Cluster;

use super::{fastify, peer::PeerService, plain};
use crate::{
    instance::{Backend, flush},
    latency::median,
    table::{self, Bound, short, target},
    trial::{Plan, alternate, ratios},
    upload::document,
    uploads::{Round, Shape, count_files, disk, service, upload},
};

/// Documents of an order, and the targets of the service.
struct Peer {
    shape: Shape,
    /// The least multiple of Fastify's rate.
    of_fastify: f64,
    /// The most CPU seconds per GB.
    cpu: Option<f64>,
}

const PEERS: [Peer; 3] = [
    Peer {
        shape: Shape {
            name: "10 MB x 1, 8 connections",
            documents: 1,
            bytes: 10_000_000,
            connections: 8,
            target: None,
        },
        of_fastify: 1.6,
        cpu: Some(2.2),
    },
    Peer {
        shape: Shape {
            name: "1 MB x 20, 4 connections",
            documents: 20,
            bytes: 1_000_000,
            connections: 4,
            target: None,
        },
        of_fastify: 1.6,
        cpu: None,
    },
    Peer {
        shape: Shape {
            name: "100 KB x 1, 32 connections",
            documents: 1,
            bytes: 100_000,
            connections: 32,
            target: Some(0.75),
        },
        of_fastify: 1.3,
        cpu: Some(8.0),
    },
];

impl Round {
    fn cpu_per_gb(&self) -> f64 {
        self.cpu * 10.0
    }
}

/// Measures the Fastify service on a new database.
fn fastify_round(
    plan: &Plan,
    shape: &Shape,
    document: &[u8],
    installed: &Path,
    cluster: &Cluster,
) -> Round {
    flush(cluster);
    let database = plain::database(cluster);
    let fastify = PeerService::start(fastify::command(installed), &database);
    let (orders, round) =
        upload(plan, shape, document, "not-checked", &fastify.address, fastify.server());
    plain::assert_orders(&database, orders);
    assert_eq!(
        count_files(fastify.documents(), shape.bytes as u64),
        orders * shape.documents as u64,
        "files of acknowledged orders"
    );
    round
}

/// Runs the measurement. Returns the rows of its targets.
pub fn run(plan: &Plan, cluster: &Cluster, installed: &Path) -> Vec<Vec<String>> {
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for Peer { shape, of_fastify, cpu } in &PEERS {
        let document = document(shape.bytes);
        let rounds = alternate(
            plan.rounds,
            &[
                &|_| service(plan, shape, &document, Backend::Postgres, cluster),
                &|_| service(plan, shape, &document, Backend::Sqlite, cluster),
                &|_| fastify_round(plan, shape, &document, installed, cluster),
                &|_| disk(plan, shape, &document, cluster),
            ],
        );
        let [postgres, sqlite, fastify, disk] = &rounds[..] else {
            unreachable!("four candidates")
        };
        let of =
            |rounds: &[Round], figure: fn(&Round) -> f64| short(median(rounds.iter().map(figure)));
        let rates = |ones: &[Round], others: &[Round]| {
            ratios(ones, others, |round| round.rate, |round| round.rate)
        };
        let name = shape.name;
        for (candidate, rounds) in [
            ("service on PostgreSQL", postgres),
            ("service on SQLite", sqlite),
            ("Fastify, not synced", fastify),
        ] {
            rows.push(vec![
                format!("{name}: {candidate}"),
                of(rounds, |round| round.rate),
                of(rounds, Round::cpu_per_gb),
                of(rounds, |round| round.memory),
            ]);
        }
        let rate = of(disk, |round| round.rate);
        rows.push(vec![format!("{name}: disk alone, synced"), rate, String::new(), String::new()]);
        for (backend, rounds) in [(Backend::Postgres, postgres), (Backend::Sqlite, sqlite)] {
            let label = format!("{name}, {}", backend.name());
            targets.push(target(
                &format!("{label} / Fastify"),
                &rates(rounds, fastify),
                "",
                Bound::AtLeast(*of_fastify),
            ));
            targets.extend(shape.target.map(|least| {
                let share = rates(rounds, disk);
                target(&format!("{label} / disk, synced"), &share, "", Bound::AtLeast(least))
            }));
            targets.extend(cpu.map(|most| {
                let figures: Vec<f64> = rounds.iter().map(Round::cpu_per_gb).collect();
                target(&format!("{label}: CPU s per GB"), &figures, "", Bound::AtMost(most))
            }));
        }
    }
    let columns = ["", "MB/s", "CPU s per GB", "most MiB above idle"];
    table::print("uploads", &columns, &rows);
    targets
}
