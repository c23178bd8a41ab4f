//! The service next to yardsticks that share nothing with it: `pgbench` on a plain schema, a
//! service in a mainstream stack, bare programs, and the disk alone.

use std::fs;

use clap::{Args, ValueEnum};
use test_servers::postgres::Cluster;

use crate::{
    table::{self, Bound, TARGET_COLUMNS, target},
    trial::Plan,
};

pub mod bare;
mod bare_checked;
mod bare_intake;
mod bare_sqlite;
mod bare_tables;
pub mod bare_uploads;
mod fastify;
mod orders;
mod peer;
mod plain;
mod received;
mod slow_uploads;
mod uploads;

/// Options of the measurement.
#[derive(Debug, Args)]
pub struct Peers {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Part::ALL)]
    only: Vec<Part>,
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Orders without documents
    Orders,
    /// Orders with documents
    Uploads,
    /// Orders without documents beside slow uploads
    SlowUploads,
}

impl Part {
    const ALL: [Self; 3] = [Self::Orders, Self::Uploads, Self::SlowUploads];
}

impl Peers {
    /// Runs the measurement on both databases.
    pub fn run(&self, plan: &Plan, cluster: &Cluster) {
        let fastify = fastify::install();
        let mut targets = Vec::new();
        for part in &self.only {
            targets.extend(match part {
                Part::Orders => orders::run(plan, cluster, &fastify),
                Part::Uploads => uploads::run(plan, cluster, &fastify),
                Part::SlowUploads => slow_uploads::run(plan, cluster),
            });
        }
        let binary = fs::metadata(plan.binary()).unwrap().len() as f64 / f64::from(1 << 20);
        targets.push(target("binary", &[binary], " MiB", Bound::AtMost(20.0)));
        table::print("peers: targets", &TARGET_COLUMNS, &targets);
    }
}
