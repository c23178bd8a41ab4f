//! Orders per second with a growing database. Alternates with an empty database, because the
//! machine's speed drifts by more than the expected difference.

use std::{fs, time::Instant};

use clap::Args;
use test_servers::postgres::Cluster;

use crate::{
    fill::{self, MILLION},
    instance::{Backend, Instance, flush},
    latency::median,
    load::Outcome,
    request::Request,
    schedule::Pace,
    table::{self, Bound, TARGET_COLUMNS, short, target},
    trial::{CONNECTIONS, Plan, alternate, ratios},
};

const COLUMNS: [&str; 7] = [
    "orders in the database",
    "orders/s",
    "empty database",
    "ratio",
    "p99 ms",
    "empty database",
    "seconds to fill",
];

/// Options of the measurement.
#[derive(Debug, Args)]
pub struct Growth {
    /// Millions of orders in the database
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 3, 10])]
    millions: Vec<u64>,
}

impl Default for Growth {
    fn default() -> Self {
        Self { millions: vec![0, 1, 3, 10] }
    }
}

impl Growth {
    /// Runs the measurement on both databases.
    pub fn run(&self, plan: &Plan, cluster: &Cluster) {
        let mut targets = Vec::new();
        for backend in Backend::ALL {
            let mut grown = Grown::new(plan, backend, cluster);
            let mut rows = Vec::new();
            for millions in &self.millions {
                let seconds = grown.fill(millions * MILLION);
                let [with, without] = grown.compare();
                let of = |rounds: &[Outcome], figure: &dyn Fn(&Outcome) -> f64| {
                    short(median(rounds.iter().map(figure)))
                };
                let p99 = |outcome: &Outcome| outcome.latencies.percentile(0.99);
                let share = ratios(&with, &without, Outcome::rate, Outcome::rate);
                let figures = [
                    of(&with, &Outcome::rate),
                    of(&without, &Outcome::rate),
                    short(median(share.clone())),
                    of(&with, &p99),
                    of(&without, &p99),
                ];
                rows.push(
                    [
                        vec![format!("{millions} million")],
                        figures.to_vec(),
                        vec![format!("{seconds:.0}")],
                    ]
                    .concat(),
                );
                if *millions == 10 {
                    targets.push(target(
                        &format!("orders/s on {} with 10 million orders / empty", backend.name()),
                        &share,
                        "",
                        Bound::AtLeast(0.9),
                    ));
                }
            }
            table::print(
                &format!("growth on {}, {CONNECTIONS} connections", backend.name()),
                &COLUMNS,
                &rows,
            );
        }
        table::print("growth: targets", &TARGET_COLUMNS, &targets);
    }
}

/// A growing database, which is kept between rounds.
struct Grown<'a> {
    plan: &'a Plan,
    backend: Backend,
    cluster: &'a Cluster,
    instance: Instance<'a>,
    key: String,
    filled: u64,
}

impl<'a> Grown<'a> {
    fn new(plan: &'a Plan, backend: Backend, cluster: &'a Cluster) -> Self {
        let instance = Instance::new(&plan.binary(), backend, cluster);
        let key = instance.installation.issue_key(&[]);
        Self { plan, backend, cluster, instance, key, filled: 0 }
    }

    /// Adds old orders without pending mails up to this number. Returns the seconds that it took.
    fn fill(&mut self, orders: u64) -> f64 {
        let started = Instant::now();
        if orders > self.filled {
            fill::add(&self.instance, self.filled, orders);
            self.filled = orders;
        }
        started.elapsed().as_secs_f64()
    }

    /// Measures rounds with this database and with an empty one.
    fn compare(&self) -> [Vec<Outcome>; 2] {
        let empty = |seed| {
            flush(self.cluster);
            self.plan
                .trial(self.backend, self.cluster, CONNECTIONS, Pace::Closed, seed)
                .outcome
                .expect_success()
        };
        let rounds = alternate(self.plan.rounds, &[&|seed| self.round(seed), &empty]);
        rounds.try_into().unwrap_or_else(|_| unreachable!("two candidates"))
    }

    fn round(&self, seed: u64) -> Outcome {
        let before = self.instance.rows("orders");
        flush(self.cluster);
        let service = self.instance.installation.start();
        let (outcome, _) = self
            .plan
            .load(&service, Request::order(&self.key, false), CONNECTIONS, Pace::Closed, seed)
            .run(|| ());
        drop(service);
        self.instance.assert_orders(before + outcome.acknowledged);
        // The next round begins without pending mails, like the one with an empty database.
        self.instance.execute("DELETE FROM events;\nDELETE FROM deliveries");
        if self.backend == Backend::Postgres {
            self.instance.execute("VACUUM events, deliveries");
        }
        let _ = fs::remove_dir_all(self.instance.installation.data().join("mail"));
        outcome.expect_success()
    }
}
