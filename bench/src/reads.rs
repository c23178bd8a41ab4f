//! Reads: an order by its identifier, pages, and downloads of documents.

use clap::{Args, ValueEnum};
use test_servers::postgres::Cluster;

use crate::{
    fill,
    http::Connection,
    instance::{Backend, Instance, flush},
    latency::median,
    load::{Expected, Load},
    orders::{Round, median_of_trials},
    request::Request,
    schedule::Pace,
    service::Service,
    table::{self, TARGET_COLUMNS, short},
    trial::{CONNECTIONS, Plan, Trial, watch},
};

mod by_id;
mod downloads;
mod nginx;
mod pages;
mod slow_downloads;

/// Options of the measurement.
#[derive(Debug, Args)]
pub struct Reads {
    /// Millions of orders in the large database of the pages
    #[arg(long, default_value_t = 10)]
    millions: u64,
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Part::ALL)]
    only: Vec<Part>,
}

impl Reads {
    /// Everything, with so many millions of orders in the large database.
    pub fn all(millions: u64) -> Self {
        Self { millions, only: Part::ALL.to_vec() }
    }
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    ById,
    Pages,
    Downloads,
    SlowDownloads,
}

impl Part {
    const ALL: [Self; 4] = [Self::ById, Self::Pages, Self::Downloads, Self::SlowDownloads];
}

impl Reads {
    /// Runs the measurement on both databases.
    pub fn run(&self, plan: &Plan, cluster: &Cluster) {
        let mut targets = Vec::new();
        for part in &self.only {
            targets.extend(match part {
                Part::ById => by_id::run(plan, cluster),
                Part::Pages => pages::run(plan, cluster, self.millions),
                Part::Downloads => downloads::run(plan, cluster),
                Part::SlowDownloads => slow_downloads::run(plan, cluster),
            });
        }
        table::print("reads: targets", &TARGET_COLUMNS, &targets);
    }
}

/// A database with old orders of one client, which has the identifiers from 1 on.
struct Filled<'a> {
    instance: Instance<'a>,
    key: String,
    orders: u64,
}

impl<'a> Filled<'a> {
    fn new(plan: &Plan, backend: Backend, cluster: &'a Cluster, orders: u64) -> Self {
        let instance = Instance::new(&plan.binary(), backend, cluster);
        let key = instance.installation.issue_key(&[]);
        fill::add(&instance, 0, orders);
        instance.assert_orders(orders);
        flush(cluster);
        Self { instance, key, orders }
    }

    /// Runs a round of a new service. Checks the answers to the first and the last number in full,
    /// and all others by their length.
    fn round(
        &self,
        plan: &Plan,
        request: Request,
        ends: [u64; 2],
        check: impl Fn(u64, &serde_json::Value),
    ) -> Round {
        let service = self.instance.installation.start();
        let lengths = ends.map(|number| checked(&service, request.clone(), number, &check));
        let [least, most] = [lengths[0].min(lengths[1]), lengths[0].max(lengths[1])];
        let load = Load {
            expected: Expected { status: 200, lengths: least..=most },
            ..plan.load(&service, request, CONNECTIONS, Pace::Closed, 0)
        };
        let mut trial = watch(&service, &load);
        trial.outcome = trial.outcome.expect_success();
        Round::Service(Box::new(trial))
    }
}

/// Checks an answer. Returns the length of its body.
fn checked(
    service: &Service,
    mut request: Request,
    number: u64,
    check: &impl Fn(u64, &serde_json::Value),
) -> usize {
    let mut connection = Connection::open(&service.api).unwrap();
    let (answer, body) = connection.get(request.for_order(number)).unwrap();
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(body));
    check(number, &serde_json::from_slice(body).unwrap());
    answer.length
}

const COLUMNS: [&str; 8] = [
    "",
    "reads/s",
    "p50 ms",
    "p99 ms",
    "CPU s per 1,000 reads",
    "CPU s of the client",
    "most MiB above idle",
    "reads",
];

/// Returns a row with [`COLUMNS`].
fn row(name: &str, rounds: &[Round]) -> Vec<String> {
    let of = |figure: &dyn Fn(&Round) -> f64| short(median(rounds.iter().map(figure)));
    let of_trials = |figure: &dyn Fn(&Trial) -> f64| median_of_trials(rounds, figure);
    vec![
        name.to_owned(),
        of(&Round::rate),
        of(&|round| round.latencies().percentile(0.5)),
        of(&|round| round.latencies().percentile(0.99)),
        of_trials(&|trial| trial.cpu),
        of(&Round::client_cpu),
        of_trials(&|trial| trial.memory),
        rounds.iter().map(Round::orders).sum::<u64>().to_string(),
    ]
}
