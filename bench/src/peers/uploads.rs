//! Orders with documents, next to the Fastify service, which does not wait for the disk, and next
//! to a bare program and the disk alone, which do.

use std::{fs, path::Path, process::Command};

use test_servers::postgres::Cluster;

use super::{
    bare_intake::{MAILS, OBJECTS},
    bare_uploads, fastify,
    peer::PeerService,
    plain,
};
use crate::{
    instance::{Backend, Instance, flush},
    latency::median,
    table::{self, Bound, short, target, without_target},
    trial::{Plan, alternate, ratios},
    upload::document,
    uploads::{Round, Shape, assert_documents, count_files, disk, service, upload},
};

/// Documents of an order, and the targets of the service.
struct Peer {
    shape: Shape,
    /// The least multiple of Fastify's rate.
    of_fastify: f64,
    /// The most CPU seconds per GB.
    cpu: Option<f64>,
}

/// The bare program, and the same with the statements and mails of the service: they have rows, but
/// no targets.
const BARE: &str = "bare program";
const BARE_POSTGRES: &str = "bare program as the service on PostgreSQL";
const BARE_SQLITE: &str = "bare program as the service on SQLite";

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

/// Measures a peer on a new database.
fn peer_round(
    plan: &Plan,
    shape: &Shape,
    document: &[u8],
    command: Command,
    cluster: &Cluster,
) -> Round {
    flush(cluster);
    let database = plain::database(cluster);
    let peer = PeerService::start(command, &database.url());
    let (orders, round) =
        upload(plan, shape, document, "not-checked", &peer.address, peer.server());
    plain::assert_orders(&database, orders);
    assert_eq!(
        count_files(peer.documents(), shape.bytes as u64),
        orders * shape.documents as u64,
        "files of acknowledged orders"
    );
    round
}

/// Measures the bare program on a new database of the service.
fn bare_round(
    plan: &Plan,
    shape: &Shape,
    document: &[u8],
    backend: Backend,
    cluster: &Cluster,
) -> Round {
    flush(cluster);
    let instance = Instance::new(&plan.binary(), backend, cluster);
    let peer = PeerService::start(bare_uploads::command(Some(backend)), &instance.url());
    let (orders, round) =
        upload(plan, shape, document, "not-checked", &peer.address, peer.server());
    assert_documents(&instance, shape, orders, &peer.documents().join(OBJECTS));
    let mails = fs::read_dir(peer.documents().join(MAILS)).unwrap().count();
    assert!(mails > 0, "mails are delivered meanwhile");
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
                &|_| peer_round(plan, shape, &document, fastify::command(installed), cluster),
                &|_| peer_round(plan, shape, &document, bare_uploads::command(None), cluster),
                &|_| bare_round(plan, shape, &document, Backend::Postgres, cluster),
                &|_| bare_round(plan, shape, &document, Backend::Sqlite, cluster),
                &|_| disk(plan, shape, &document, cluster),
            ],
        );
        let [postgres, sqlite, fastify, bare, bare_postgres, bare_sqlite, disk] = &rounds[..]
        else {
            unreachable!("seven candidates")
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
            ("bare program in Rust, synced", bare),
            (BARE_POSTGRES, bare_postgres),
            (BARE_SQLITE, bare_sqlite),
        ] {
            rows.push(vec![
                format!("{name}: {candidate}"),
                of(rounds, |round| round.rate),
                of(rounds, Round::cpu_per_gb),
                of(rounds, |round| round.memory),
            ]);
        }
        rows.push(vec![
            format!("{name}: disk alone, synced"),
            of(disk, |round| round.rate),
            of(disk, Round::cpu_per_gb),
            String::new(),
        ]);
        // The bare programs show how much of a missed target the machine leaves.
        let candidates = [
            (Backend::Postgres.name(), postgres, true),
            (Backend::Sqlite.name(), sqlite, true),
            (BARE, bare, false),
            (BARE_POSTGRES, bare_postgres, false),
            (BARE_SQLITE, bare_sqlite, false),
        ];
        for (candidate, rounds, has_targets) in candidates {
            let mut row = |figure: &str, figures: &[f64], bound| {
                let label = format!("{name}, {candidate}{figure}");
                targets.push(if has_targets {
                    target(&label, figures, "", bound)
                } else {
                    without_target(&label, figures, "")
                });
            };
            row(" / Fastify", &rates(rounds, fastify), Bound::AtLeast(*of_fastify));
            if let Some(least) = shape.target {
                row(" / disk, synced", &rates(rounds, disk), Bound::AtLeast(least));
            }
            if let Some(most) = *cpu {
                let figures: Vec<f64> = rounds.iter().map(Round::cpu_per_gb).collect();
                row(": CPU s per GB", &figures, Bound::AtMost(most));
            }
        }
    }
    let columns = ["", "MB/s", "CPU s per GB", "most MiB above idle"];
    table::print("uploads", &columns, &rows);
    targets
}
