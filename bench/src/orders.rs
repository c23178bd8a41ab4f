//! Orders without documents: at full rate, at half of it, and one after the other.

use test_servers::postgres::Cluster;

use crate::{
    instance::{Backend, flush},
    latency::{Latencies, median},
    pgbench::{self, Pgbench},
    schedule::Pace,
    table::{self, Bound, TARGET_COLUMNS, short, target},
    trial::{CONNECTIONS, Plan, Trial, alternate, ratios},
};

/// A round of the service or of `pgbench`.
pub enum Round {
    Service(Box<Trial>),
    Pgbench(pgbench::Outcome),
}

impl Round {
    pub fn rate(&self) -> f64 {
        match self {
            Self::Service(trial) => trial.outcome.rate(),
            Self::Pgbench(outcome) => outcome.rate,
        }
    }

    pub fn latencies(&self) -> &Latencies {
        match self {
            Self::Service(trial) => &trial.outcome.latencies,
            Self::Pgbench(outcome) => &outcome.latencies,
        }
    }

    fn p99(&self) -> f64 {
        self.latencies().percentile(0.99)
    }

    pub fn client_cpu(&self) -> f64 {
        match self {
            Self::Service(trial) => trial.client_cpu,
            Self::Pgbench(outcome) => outcome.cpu,
        }
    }

    /// Returns the number of acknowledged orders, which are all in the database, or of reads.
    pub fn orders(&self) -> u64 {
        match self {
            Self::Service(trial) => trial.outcome.acknowledged,
            Self::Pgbench(outcome) => outcome.transactions,
        }
    }

    pub fn trial(&self) -> Option<&Trial> {
        match self {
            Self::Service(trial) => Some(trial),
            Self::Pgbench(_) => None,
        }
    }
}

const COLUMNS: [&str; 11] = [
    "",
    "orders/s",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "CPU s per 1,000 orders",
    "CPU s of the client",
    "most MiB above idle",
    "orders",
    "mails delivered",
    "mails waiting",
];

/// Measures rounds of the service on PostgreSQL, of `pgbench`, and of the service on SQLite.
fn rounds(
    plan: &Plan,
    cluster: &Cluster,
    connections: usize,
    rate: Option<f64>,
) -> [Vec<Round>; 3] {
    let pace = rate.map_or(Pace::Closed, Pace::Open);
    let service = |backend, seed| {
        flush(cluster);
        let mut trial = plan.trial(backend, cluster, connections, pace, seed);
        trial.outcome = trial.outcome.expect_success();
        Round::Service(Box::new(trial))
    };
    let pgbench = |_| {
        flush(cluster);
        let instance = crate::instance::Instance::new(&plan.binary(), Backend::Postgres, cluster);
        let outcome =
            Pgbench { clients: connections, rate, warmup: plan.warmup(), window: plan.window() }
                .run(&instance);
        Round::Pgbench(outcome)
    };
    let rounds = alternate(
        plan.rounds,
        &[&|seed| service(Backend::Postgres, seed), &pgbench, &|seed| {
            service(Backend::Sqlite, seed)
        }],
    );
    rounds.try_into().unwrap_or_else(|_| unreachable!("three candidates"))
}

/// Returns the median of a figure over the rounds of a service; nothing for those of `pgbench`.
pub fn median_of_trials(rounds: &[Round], figure: &dyn Fn(&Trial) -> f64) -> String {
    let trials: Vec<&Trial> = rounds.iter().filter_map(Round::trial).collect();
    if trials.is_empty() {
        String::new()
    } else {
        short(median(trials.iter().map(|trial| figure(trial))))
    }
}

fn row(name: &str, rounds: &[Round]) -> Vec<String> {
    let of = |figure: &dyn Fn(&Round) -> f64| short(median(rounds.iter().map(figure)));
    let of_trials = |figure: &dyn Fn(&Trial) -> f64| median_of_trials(rounds, figure);
    vec![
        name.to_owned(),
        of(&Round::rate),
        of(&|round| round.latencies().percentile(0.5)),
        of(&Round::p99),
        of(&|round| round.latencies().percentile(0.999)),
        of_trials(&|trial| trial.cpu),
        of(&Round::client_cpu),
        of_trials(&|trial| trial.memory),
        rounds.iter().map(Round::orders).sum::<u64>().to_string(),
        of_trials(&|trial| trial.delivered),
        of_trials(&|trial| trial.waiting),
    ]
}

fn print(title: &str, [postgres, pgbench, sqlite]: &[Vec<Round>; 3]) {
    let rows = [
        row("service on PostgreSQL", postgres),
        row("pgbench", pgbench),
        row("service on SQLite", sqlite),
    ];
    table::print(title, &COLUMNS, &rows);
}

/// Runs the measurement.
pub fn run(plan: &Plan, cluster: &Cluster) {
    let full = rounds(plan, cluster, CONNECTIONS, None);
    print(&format!("{CONNECTIONS} connections, each sends the next order after the answer"), &full);
    let [postgres, pgbench, sqlite] = &full;
    let cpu = |rounds: &[Round]| {
        rounds.iter().filter_map(Round::trial).map(|trial| trial.cpu).collect::<Vec<_>>()
    };
    let mut targets = vec![
        target(
            "orders/s on PostgreSQL / pgbench",
            &ratios(postgres, pgbench, Round::rate, Round::rate),
            "",
            Bound::AtLeast(1.0),
        ),
        target(
            "orders/s on SQLite / on PostgreSQL",
            &ratios(sqlite, postgres, Round::rate, Round::rate),
            "",
            Bound::AtLeast(1.0),
        ),
        target("CPU seconds per 1,000 orders, PostgreSQL", &cpu(postgres), "", Bound::AtMost(0.04)),
        target("CPU seconds per 1,000 orders, SQLite", &cpu(sqlite), "", Bound::AtMost(0.04)),
    ];

    // Half of the slower rate: if pgbench is slower, half of the service's rate could overload it.
    let half =
        median(postgres.iter().map(Round::rate)).min(median(pgbench.iter().map(Round::rate))) / 2.0;
    let at_half = rounds(plan, cluster, CONNECTIONS, Some(half));
    print(
        &format!(
            "{half:.0} orders/s, half of the slower rate of the service on PostgreSQL and pgbench, \
             at random moments; times since an order was due"
        ),
        &at_half,
    );
    targets.push(target(
        "p99 at half of the rate / pgbench",
        &ratios(&at_half[0], &at_half[1], Round::p99, Round::p99),
        "",
        Bound::AtMost(2.0),
    ));

    let lone = rounds(plan, cluster, 1, None);
    print("one client, one order after the other", &lone);
    let time = ratios(&lone[1], &lone[0], Round::rate, Round::rate);
    targets.push(target("a lone client: time per order / pgbench", &time, "", Bound::AtMost(1.5)));
    table::print("orders: targets", &TARGET_COLUMNS, &targets);
}
