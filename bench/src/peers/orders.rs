//! Orders without documents and with three mail recipients: at full rate, at half of it, and one
//! after the other.

use std::{path::Path, process::Command};

use test_servers::postgres::Cluster;

use super::{
    bare::{self, Tables},
    fastify,
    peer::PeerService,
    plain,
};
use crate::{
    instance::{Backend, Instance, flush},
    latency::{Latencies, median},
    load::{Expected, Load},
    pgbench::Pgbench,
    process::Server,
    request::Request,
    schedule::Pace,
    table::{self, Bound, short, target, without_target},
    trial::{CONNECTIONS, Plan, alternate, ratios},
};

/// Clients of `pgbench` that fully load PostgreSQL.
const PGBENCH_CLIENTS: usize = 32;

/// The places of the candidates among the rounds.
const PGBENCH: usize = 0;
const POSTGRES: usize = 1;
const SQLITE: usize = 2;
const BARE_POSTGRES: usize = 4;
const BARE_SQLITE: usize = 5;
const CHECKED: usize = 6;
const CHECKED_SQLITE: usize = 7;
const FASTIFY: usize = 8;

/// CPU seconds and bytes of the write-ahead log of a cluster: all of them, or those of an order.
#[derive(Clone, Copy)]
struct Usage {
    cpu: f64,
    wal: f64,
}

impl Usage {
    /// Returns what all processes of a cluster used so far.
    fn now(cluster: &Cluster) -> Self {
        let wal = cluster.sql("postgres", "SELECT pg_current_wal_lsn() - '0/0'").parse().unwrap();
        Self { cpu: Server(cluster.postmaster()).cpu_seconds(), wal }
    }

    /// Returns what each of these orders used between two moments.
    fn of_each(orders: u64, [before, after]: [Self; 2]) -> Self {
        let orders = orders as f64;
        Self { cpu: (after.cpu - before.cpu) / orders, wal: (after.wal - before.wal) / orders }
    }
}

/// What a server needs for a load.
struct Needs {
    /// CPU seconds per order.
    cpu: f64,
    /// Most MiB.
    memory: f64,
    memory_above_idle: f64,
}

/// A round of one candidate.
struct Round {
    rate: f64,
    latencies: Latencies,
    /// What the service needs; `pgbench` is none.
    service: Option<Needs>,
    /// What PostgreSQL uses for an order; nothing with SQLite.
    database: Option<Usage>,
    orders: u64,
    /// Mails that were delivered by the end of the round.
    mails: Option<f64>,
}

impl Round {
    fn p99(&self) -> f64 {
        self.latencies.percentile(0.99)
    }

    /// Returns the CPU seconds of the service per 1,000 orders.
    fn cpu(&self) -> Option<f64> {
        Some(self.service.as_ref()?.cpu * 1000.0)
    }

    /// Returns the CPU seconds of PostgreSQL per 1,000 orders.
    fn database_cpu(&self) -> Option<f64> {
        Some(self.database?.cpu * 1000.0)
    }

    fn wal(&self) -> Option<f64> {
        Some(self.database?.wal)
    }

    fn memory_above_idle(&self) -> Option<f64> {
        Some(self.service.as_ref()?.memory_above_idle)
    }
}

/// The load of some rounds.
#[derive(Clone, Copy)]
struct Loads<'a> {
    plan: &'a Plan,
    cluster: &'a Cluster,
    fastify: &'a Path,
    connections: usize,
    pgbench_clients: usize,
    rate: Option<f64>,
}

impl Loads<'_> {
    fn pgbench(&self) -> Round {
        flush(self.cluster);
        let pgbench = Pgbench {
            clients: self.pgbench_clients,
            rate: self.rate,
            warmup: self.plan.warmup(),
            window: self.plan.window(),
        };
        let database = plain::database(self.cluster);
        let before = Usage::now(self.cluster);
        let outcome = plain::run(pgbench, &database);
        let usage = [before, Usage::now(self.cluster)];
        plain::assert_orders(&database, outcome.transactions);
        Round {
            rate: outcome.rate,
            latencies: outcome.latencies,
            service: None,
            // pgbench cannot be observed in its window alone.
            database: Some(Usage::of_each(outcome.transactions, usage)),
            orders: outcome.transactions,
            mails: None,
        }
    }

    fn service(&self, backend: Backend, seed: u64) -> Round {
        flush(self.cluster);
        let instance = Instance::new(&self.plan.binary(), backend, self.cluster);
        let request = Request::order_with_recipients(&instance.installation.issue_key(&[]));
        let service = instance.installation.start();
        let database = (backend == Backend::Postgres).then_some(self.cluster);
        let mut round = self.watch(service.server(), &service.api, request, database, seed);
        round.mails = Some(service.metric("notary_orders_mails_total{outcome=\"delivered\"}"));
        instance.assert_orders(round.orders);
        round
    }

    fn peer(&self, command: Command, seed: u64) -> Round {
        flush(self.cluster);
        let database = plain::database(self.cluster);
        let peer = PeerService::start(command, &database.url());
        let request = Request::order_with_recipients("not-checked");
        let round = self.watch(peer.server(), &peer.address, request, Some(self.cluster), seed);
        plain::assert_orders(&database, round.orders);
        round
    }

    /// Measures a bare service on the service's tables.
    fn bare(&self, tables: Tables, seed: u64) -> Round {
        flush(self.cluster);
        let backend = match tables {
            Tables::Sqlite | Tables::CheckedSqlite => Backend::Sqlite,
            Tables::Plain | Tables::Postgres | Tables::CheckedPostgres => Backend::Postgres,
        };
        let instance = Instance::new(&self.plan.binary(), backend, self.cluster);
        let database = (backend == Backend::Postgres).then_some(self.cluster);
        let peer = PeerService::start(bare::command(tables), &instance.url());
        let request = Request::order_with_recipients("not-checked");
        let round = self.watch(peer.server(), &peer.address, request, database, seed);
        drop(peer);
        instance.assert_orders(round.orders);
        round
    }

    fn watch(
        &self,
        server: Server,
        address: &str,
        request: Request,
        database: Option<&Cluster>,
        seed: u64,
    ) -> Round {
        let load = Load {
            address,
            request,
            expected: Expected::CREATED,
            connections: self.connections,
            pace: self.rate.map_or(Pace::Closed, Pace::Open),
            warmup: self.plan.warmup(),
            window: self.plan.window(),
            seed,
        };
        server.reset_peak();
        let idle = server.memory();
        let (outcome, [before, after]) =
            load.run(|| (server.cpu_seconds(), database.map(Usage::now)));
        let memory = server.peak_memory();
        let outcome = outcome.expect_success();
        let orders = outcome.latencies.count() as u64;
        let usage = before.1.zip(after.1).map(|(before, after)| [before, after]);
        Round {
            rate: outcome.rate(),
            service: Some(Needs {
                cpu: (after.0 - before.0) / orders as f64,
                memory,
                memory_above_idle: memory - idle,
            }),
            database: usage.map(|usage| Usage::of_each(orders, usage)),
            orders: outcome.acknowledged,
            latencies: outcome.latencies,
            mails: None,
        }
    }

    /// Measures `pgbench`, the service on both databases and the bare services, and the Fastify
    /// service unless there is a rate, which it might not reach.
    fn alternate(&self) -> Vec<Vec<Round>> {
        let candidates: [&dyn Fn(u64) -> Round; 9] = [
            &|_| self.pgbench(),
            &|seed| self.service(Backend::Postgres, seed),
            &|seed| self.service(Backend::Sqlite, seed),
            &|seed| self.peer(bare::command(Tables::Plain), seed),
            &|seed| self.bare(Tables::Postgres, seed),
            &|seed| self.bare(Tables::Sqlite, seed),
            &|seed| self.bare(Tables::CheckedPostgres, seed),
            &|seed| self.bare(Tables::CheckedSqlite, seed),
            &|seed| self.peer(fastify::command(self.fastify), seed),
        ];
        let count = candidates.len() - usize::from(self.rate.is_some());
        alternate(self.plan.rounds, &candidates[..count])
    }

    /// Measures and prints the rounds.
    fn run(&self, title: &str) -> Vec<Vec<Round>> {
        let rounds = self.alternate();
        let names = [
            "pgbench, plain schema",
            "service on PostgreSQL",
            "service on SQLite",
            "bare service, plain schema",
            "bare service, the service's tables, PostgreSQL",
            "bare service, the service's tables, SQLite",
            "bare service with the service's checks, PostgreSQL",
            "bare service with the service's checks, SQLite",
            "Fastify, 2 processes",
        ];
        let rows: Vec<_> =
            names.iter().zip(&rounds).map(|(name, rounds)| row(name, rounds)).collect();
        table::print(title, &COLUMNS, &rows);
        rounds
    }
}

const COLUMNS: [&str; 11] = [
    "",
    "orders/s",
    "p50 ms",
    "p99 ms",
    "CPU s per 1,000 orders, service",
    "PostgreSQL",
    "WAL bytes an order",
    "most MiB",
    "above idle",
    "orders",
    "mails delivered",
];

/// Returns a figure of the rounds that have it.
fn some(rounds: &[Round], figure: impl Fn(&Round) -> Option<f64>) -> Vec<f64> {
    rounds.iter().filter_map(figure).collect()
}

fn row(name: &str, rounds: &[Round]) -> Vec<String> {
    let of = |figure: &dyn Fn(&Round) -> Option<f64>| {
        let figures = some(rounds, figure);
        if figures.is_empty() { String::new() } else { short(median(figures)) }
    };
    vec![
        name.to_owned(),
        of(&|round| Some(round.rate)),
        of(&|round| Some(round.latencies.percentile(0.5))),
        of(&|round| Some(round.p99())),
        of(&Round::cpu),
        of(&Round::database_cpu),
        of(&Round::wal),
        of(&|round| Some(round.service.as_ref()?.memory)),
        of(&Round::memory_above_idle),
        rounds.iter().map(|round| round.orders).sum::<u64>().to_string(),
        of(&|round| round.mails),
    ]
}

/// Runs the measurement. Returns the rows of its targets.
pub fn run(plan: &Plan, cluster: &Cluster, fastify: &Path) -> Vec<Vec<String>> {
    let loads = Loads {
        plan,
        cluster,
        fastify,
        connections: CONNECTIONS,
        pgbench_clients: PGBENCH_CLIENTS,
        rate: None,
    };
    let full = loads.run(&format!(
        "{CONNECTIONS} connections (pgbench: {PGBENCH_CLIENTS}), each sends the next order after the \
         answer; {} mail recipients",
        Request::RECIPIENTS
    ));
    let [pgbench, postgres, sqlite, fastify] =
        [PGBENCH, POSTGRES, SQLITE, FASTIFY].map(|candidate| &full[candidate]);

    // Half of the slower rate: if pgbench is slower, half of the service's rate could overload it.
    let rate = |rounds: &[Round]| median(rounds.iter().map(|round| round.rate));
    let half = rate(postgres).min(rate(pgbench)) / 2.0;
    let at_half = Loads { rate: Some(half), ..loads }.run(&format!(
        "{half:.0} orders/s, half of the slower rate of the service on PostgreSQL and pgbench, at \
         random moments; times since an order was due"
    ));
    let lone = Loads { connections: 1, pgbench_clients: 1, ..loads }
        .run("one client, one order after the other");

    let at_most = |label: &str, figures: &[f64], unit, bound| {
        target(label, figures, unit, Bound::AtMost(bound))
    };
    let mut targets = vec![
        target(
            "orders/s on PostgreSQL / pgbench, plain schema",
            &rates(postgres, pgbench),
            "",
            Bound::AtLeast(1.0),
        ),
        target(
            "orders/s on PostgreSQL / Fastify",
            &rates(postgres, fastify),
            "",
            Bound::AtLeast(3.0),
        ),
        target(
            "orders/s on SQLite / on PostgreSQL",
            &rates(sqlite, postgres),
            "",
            Bound::AtLeast(1.3),
        ),
        at_most("CPU s per 1,000: service on PostgreSQL", &some(postgres, Round::cpu), "", 0.05),
        at_most("CPU s per 1,000: PostgreSQL", &some(postgres, Round::database_cpu), "", 0.06),
        at_most("CPU s per 1,000: service on SQLite", &some(sqlite, Round::cpu), "", 0.09),
        at_most("WAL bytes an order", &some(postgres, Round::wal), "", 1300.0),
        at_most(
            "p99 at half of the rate / pgbench",
            &ratios(&at_half[POSTGRES], &at_half[PGBENCH], Round::p99, Round::p99),
            "",
            1.0,
        ),
        at_most(
            "a lone client: time per order / pgbench",
            &rates(&lone[PGBENCH], &lone[POSTGRES]),
            "",
            1.4,
        ),
        at_most(
            "MiB above idle at full rate, PostgreSQL",
            &some(postgres, Round::memory_above_idle),
            "",
            16.0,
        ),
        at_most(
            "MiB above idle at full rate, SQLite",
            &some(sqlite, Round::memory_above_idle),
            "",
            16.0,
        ),
    ];
    targets.extend(bare(&full, &at_half, &lone));
    targets
}

fn rates(ones: &[Round], others: &[Round]) -> Vec<f64> {
    ratios(ones, others, |round| round.rate, |round| round.rate)
}

/// Returns what the bare services reach in place of the service.
fn bare(full: &[Vec<Round>], at_half: &[Vec<Round>], lone: &[Vec<Round>]) -> [Vec<String>; 8] {
    [
        ("bare service on PostgreSQL / Fastify", rates(&full[BARE_POSTGRES], &full[FASTIFY])),
        ("bare service with checks / Fastify", rates(&full[CHECKED], &full[FASTIFY])),
        (
            "bare service on SQLite / service on PostgreSQL",
            rates(&full[BARE_SQLITE], &full[POSTGRES]),
        ),
        (
            "bare service with checks on SQLite / on PostgreSQL",
            rates(&full[CHECKED_SQLITE], &full[CHECKED]),
        ),
        (
            "p99 at half of the rate, bare service on PostgreSQL / pgbench",
            ratios(&at_half[BARE_POSTGRES], &at_half[PGBENCH], Round::p99, Round::p99),
        ),
        (
            "p99 at half of the rate, bare service with checks on PostgreSQL / pgbench",
            ratios(&at_half[CHECKED], &at_half[PGBENCH], Round::p99, Round::p99),
        ),
        (
            "a lone client: bare service on PostgreSQL / pgbench",
            rates(&lone[PGBENCH], &lone[BARE_POSTGRES]),
        ),
        (
            "a lone client: bare service with checks on PostgreSQL / pgbench",
            rates(&lone[PGBENCH], &lone[CHECKED]),
        ),
    ]
    .map(|(label, figures)| without_target(label, &figures, ""))
}
