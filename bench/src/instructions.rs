//! Instructions of the service for an order, counted by Valgrind. Unlike times they hardly depend
//! on the machine and its load, so that a build can be compared with kept figures.

use std::{collections::BTreeMap, fs};

use clap::Args;
use test_servers::postgres::Cluster;

use crate::{
    http::Connection,
    instance::{Backend, Instance},
    latency::median,
    request::Request,
    table::{self, Bound, TARGET_COLUMNS, target},
    trial::{Plan, alternate},
};

/// The kept figures.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");
/// The most that a figure may be, as a multiple of the kept one.
const MOST: f64 = 1.15;
/// Orders before the counted ones, which fill caches.
const WARMUP: u32 = 100;
/// Counted orders.
const ORDERS: u32 = 1000;

/// Counts instructions only, without a simulated cache.
const VALGRIND: [&str; 4] =
    ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];

/// Options of the measurement.
#[derive(Debug, Args)]
pub struct Instructions {
    /// Keep the figures of this build, for later ones to be compared with
    #[arg(long)]
    record: bool,
}

/// What is counted.
#[derive(Clone, Copy)]
enum Work {
    /// A test order, which has no mails.
    Order,
    /// A real order, until its mails are delivered.
    OrderAndMails,
}

impl Work {
    const ALL: [Self; 2] = [Self::Order, Self::OrderAndMails];

    fn name(self) -> String {
        match self {
            Self::Order => "an order".to_owned(),
            Self::OrderAndMails => format!("an order and its {} mails", Request::RECIPIENTS),
        }
    }

    fn key(self) -> &'static [&'static str] {
        match self {
            Self::Order => &["--test"],
            Self::OrderAndMails => &[],
        }
    }

    /// Returns the instructions for each of the counted orders.
    fn count(self, plan: &Plan, backend: Backend, cluster: &Cluster) -> f64 {
        let [less, more] = [WARMUP, WARMUP + ORDERS]
            .map(|orders| self.count_process(plan, backend, cluster, orders));
        (more - less) / f64::from(ORDERS)
    }

    /// Returns the instructions of a process that creates orders, one after the other.
    fn count_process(self, plan: &Plan, backend: Backend, cluster: &Cluster, orders: u32) -> f64 {
        let mut instance = Instance::new(&plan.binary(), backend, cluster);
        let mut request =
            Request::order_with_recipients(&instance.installation.issue_key(self.key()));
        let log = instance.installation.data().join("valgrind.log");
        instance.installation.wrapper = VALGRIND.map(str::to_owned).to_vec();
        instance.installation.wrapper.push(format!("--log-file={}", log.display()));
        let service = instance.installation.start();
        let mut connection = Connection::open(&service.api).unwrap();
        for _ in 0..orders {
            connection.send(request.next()).unwrap();
            assert_eq!(connection.answer().unwrap().status, 201);
        }
        if matches!(self, Self::OrderAndMails) {
            service.wait_until_delivered();
        }
        service.stop();
        instance.assert_orders(orders.into());
        let log = fs::read_to_string(log).unwrap();
        parse(&log).unwrap_or_else(|| panic!("Valgrind counted nothing: {log}"))
    }
}

/// Returns the number of the line `==PID== I   refs:      1,234`.
fn parse(log: &str) -> Option<f64> {
    let count = log.lines().find_map(|line| {
        let (name, count) = line.split_once(" refs:")?;
        name.trim_end().ends_with(" I").then_some(count)
    })?;
    count.trim().replace(',', "").parse().ok()
}

impl Instructions {
    /// Runs the measurement on both databases. Returns whether no figure grew too much.
    pub fn run(&self, plan: &Plan, cluster: &Cluster) -> bool {
        let kinds: Vec<(Backend, Work)> = Backend::ALL
            .into_iter()
            .flat_map(|backend| Work::ALL.map(|work| (backend, work)))
            .collect();
        let counts: Vec<_> = kinds
            .iter()
            .map(|(backend, work)| move |_| work.count(plan, *backend, cluster))
            .collect();
        let candidates: Vec<&dyn Fn(u64) -> f64> =
            counts.iter().map(|count| count as &dyn Fn(u64) -> f64).collect();
        let names =
            kinds.iter().map(|(backend, work)| format!("{}, {}", backend.name(), work.name()));
        let figures: BTreeMap<String, Vec<f64>> =
            names.zip(alternate(plan.rounds, &candidates)).collect();
        if self.record {
            let medians: BTreeMap<_, _> = figures
                .iter()
                .map(|(name, rounds)| (name, median(rounds.clone()) as u64))
                .collect();
            fs::write(KEPT, serde_json::to_string_pretty(&medians).unwrap() + "\n").unwrap();
        }
        let kept: BTreeMap<String, f64> =
            serde_json::from_str(&fs::read_to_string(KEPT).unwrap()).unwrap();
        let (rows, passed) = compare(&figures, &kept);
        table::print("thousands of instructions of the service", &TARGET_COLUMNS, &rows);
        if !passed {
            println!(
                "\nThe service needs over {:.0} % more instructions than {KEPT} has. If that is \
                 worth it, `bench instructions --record` keeps the new figures.",
                (MOST - 1.0) * 100.0
            );
        }
        passed
    }
}

/// Returns a row for each figure, and whether none exceeds its kept one too much.
fn compare(
    figures: &BTreeMap<String, Vec<f64>>,
    kept: &BTreeMap<String, f64>,
) -> (Vec<Vec<String>>, bool) {
    let rows: Vec<_> = figures
        .iter()
        .map(|(name, rounds)| {
            let thousands: Vec<f64> = rounds.iter().map(|count| count / 1000.0).collect();
            let kept = kept.get(name).unwrap_or_else(|| panic!("{KEPT} has no figure of {name}"));
            target(name, &thousands, "", Bound::AtMost((kept * MOST / 1000.0).round()))
        })
        .collect();
    let passed = rows.iter().all(|row| row.last().is_some_and(|met| met == "yes"));
    (rows, passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_found_in_the_log() {
        assert_eq!(parse("==7== Cachegrind\n==7== I   refs:      2,105,595\n"), Some(2_105_595.0));
        assert_eq!(parse("==7== I refs:        12\n"), Some(12.0));
        assert_eq!(parse("==7== LLi refs: 3\n"), None);
    }

    #[test]
    fn growth_by_more_than_15_percent_fails() {
        let kept = BTreeMap::from([("order".to_owned(), 500_000.0)]);
        let passes = |count| {
            compare(&BTreeMap::from([("order".to_owned(), vec![1.0, count, 1e9])]), &kept).1
        };
        assert!(passes(575_000.0));
        assert!(!passes(576_000.0));
    }
}
