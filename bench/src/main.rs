//! Measures the service as a process, next to yardsticks; see the `README.md` of this folder.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot continue has failed"
)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "all figures are non-negative and far below 2^53"
)]
#![cfg_attr(test, allow(clippy::float_cmp, reason = "both sides are computed in the same way"))]

use std::{fs, process::ExitCode};

use clap::{Parser, Subcommand};
use test_servers::postgres::Cluster;

use crate::{
    attack::ATTACK,
    deliveries::Deliveries,
    growth::Growth,
    instance::Backend,
    instructions::Instructions,
    peers::{Peers, bare::Tables},
    reads::Reads,
    slow_clients::SLOW_CLIENTS,
    soak::Soak,
    trial::Plan,
};

mod attack;
mod chart;
mod crowd;
mod deliveries;
mod fill;
mod folder;
mod growth;
mod http;
mod idempotency_key;
mod instance;
mod instructions;
mod latency;
mod load;
mod memory;
mod orders;
mod overload;
mod peers;
mod pgbench;
mod process;
mod reads;
mod receiver;
mod relay;
mod request;
mod schedule;
mod service;
mod slow_clients;
mod soak;
mod table;
mod trial;
mod upload;
mod uploads;
mod webhooks;

#[derive(Debug, Parser)]
#[command(
    about = "Measures notary-orders next to PostgreSQL alone, the disk alone, nginx, and an empty \
             database"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    plan: Plan,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Orders without documents on PostgreSQL and SQLite, next to pgbench
    Orders,
    /// Twice as many orders as the service can create
    Overload,
    /// Orders with documents, next to the disk alone
    Uploads,
    /// Reads of orders, pages and documents, next to pgbench and nginx
    Reads(Reads),
    /// Everything next to peers: pgbench on a plain schema, a Fastify service, and the disk alone
    Peers(Peers),
    /// Memory above idle: at full rate, and during many slow uploads
    Memory,
    /// Mails or webhooks per second, and how late they are while orders arrive
    Deliveries(Deliveries),
    /// Cost of an Idempotency-Key; BASELINE=PATH names another build to compare with
    IdempotencyKey,
    /// A normal client next to two thousand slow ones
    SlowClients,
    /// A normal client next to an attack of two thousand connections: half heads, half bodies, and
    /// floods of wrong keys
    Attack,
    /// Instructions of the service for an order, next to kept figures; fails if they grew
    Instructions(Instructions),
    /// Orders per second with up to 10 million orders in the database
    Growth(Growth),
    /// Mixed load for a long time: memory, file descriptors, threads and queue age, as a chart
    Soak(Soak),
    /// Serves orders for `peers`
    #[command(hide = true)]
    BareService { tables: Tables },
    /// Serves orders with documents for `peers`
    #[command(hide = true)]
    BareUploads { as_service_on: Option<Backend> },
    /// Everything but peers, instructions, growth and soak
    All {
        /// Include growth
        #[arg(long)]
        growth: bool,
    },
}

fn main() -> ExitCode {
    let CommandLine { command, plan } = CommandLine::parse();
    match command {
        Command::BareService { tables } => {
            peers::bare::serve(tables);
            return ExitCode::SUCCESS;
        }
        Command::BareUploads { as_service_on } => peers::bare_uploads::serve(as_service_on),
        _ => {}
    }
    let cluster = instance::cluster();
    println!("{}", machine(&cluster));
    let mut passed = true;
    match command {
        Command::Orders => orders::run(&plan, &cluster),
        Command::Overload => passed = overload::run(&plan, &cluster),
        Command::Uploads => uploads::run(&plan, &cluster),
        Command::Reads(reads) => reads.run(&plan, &cluster),
        Command::Peers(peers) => peers.run(&plan, &cluster),
        Command::Memory => memory::run(&plan, &cluster),
        Command::Deliveries(deliveries) => deliveries.run(&plan, &cluster),
        Command::IdempotencyKey => idempotency_key::run(&plan, &cluster),
        Command::SlowClients => passed = crowd::run(&plan, &cluster, &SLOW_CLIENTS),
        Command::Attack => passed = crowd::run(&plan, &cluster, &ATTACK),
        Command::Instructions(instructions) => passed = instructions.run(&plan, &cluster),
        Command::Growth(growth) => growth.run(&plan, &cluster),
        Command::Soak(soak) => passed = soak.run(&plan, &cluster),
        Command::BareService { .. } | Command::BareUploads { .. } => {
            unreachable!("they need no cluster")
        }
        Command::All { growth } => {
            orders::run(&plan, &cluster);
            passed = overload::run(&plan, &cluster);
            uploads::run(&plan, &cluster);
            Reads::all(1).run(&plan, &cluster);
            memory::run(&plan, &cluster);
            Deliveries::default().run(&plan, &cluster);
            Deliveries::of_webhooks().run(&plan, &cluster);
            idempotency_key::run(&plan, &cluster);
            passed &= crowd::run(&plan, &cluster, &SLOW_CLIENTS);
            passed &= crowd::run(&plan, &cluster, &ATTACK);
            if growth {
                Growth::default().run(&plan, &cluster);
            }
        }
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Describes the machine and the settings of the measurements.
fn machine(cluster: &Cluster) -> String {
    let cores = std::thread::available_parallelism().unwrap();
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap();
    let cpu = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, name)| name);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let version = cluster.sql("postgres", "SHOW server_version");
    let settings = instance::CLUSTER_SETTINGS.join(", ");
    format!(
        "{cores} cores ({cpu}) for service, database and load generator; Linux {}; \
         PostgreSQL {version} with {settings}.",
        kernel.trim()
    )
}
