//! Twice as many orders as the service can create.

use std::collections::BTreeMap;

use test_servers::postgres::Cluster;

use crate::{
    instance::{Backend, flush},
    latency::median,
    schedule::Pace,
    table::{self, short},
    trial::{CONNECTIONS, Plan, Trial},
};

/// More connections than the service's concurrency limit, so that the service sheds load instead of
/// its clients waiting.
const CLIENTS: usize = 512;

const COLUMNS: [&str; 11] = [
    "",
    "due/s",
    "accepted/s",
    "shed/s",
    "p50 ms of the accepted",
    "p99 ms",
    "p99.9 ms",
    "p99 ms since sent",
    "most MiB above idle",
    "never sent",
    "other answers",
];

/// Runs the measurement on both databases. Returns whether every answer was 201 or a proper 503.
pub fn run(plan: &Plan, cluster: &Cluster) -> bool {
    let (mut rows, mut passed) = (Vec::new(), true);
    for backend in Backend::ALL {
        let full = (0..plan.rounds).map(|round| {
            flush(cluster);
            plan.trial(backend, cluster, CONNECTIONS, Pace::Closed, round.into())
                .outcome
                .expect_success()
                .rate()
        });
        let rate = 2.0 * median(full);
        let rounds = (0..plan.rounds).map(|round| {
            flush(cluster);
            plan.trial(backend, cluster, CLIENTS, Pace::Open(rate), round.into())
        });
        let trials: Vec<Trial> = rounds.collect();
        let of = |figure: &dyn Fn(&Trial) -> f64| short(median(trials.iter().map(figure)));
        let mut others: BTreeMap<&str, u64> = BTreeMap::new();
        for (other, count) in trials.iter().flat_map(|trial| &trial.outcome.others) {
            *others.entry(other).or_default() += count;
        }
        passed &= others.is_empty();
        rows.push(vec![
            backend.name().to_owned(),
            short(rate),
            of(&|trial| trial.outcome.rate()),
            of(&|trial| trial.outcome.shed_rate()),
            of(&|trial| trial.outcome.latencies.percentile(0.5)),
            of(&|trial| trial.outcome.latencies.percentile(0.99)),
            of(&|trial| trial.outcome.latencies.percentile(0.999)),
            of(&|trial| trial.outcome.since_sent.percentile(0.99)),
            of(&|trial| trial.memory),
            trials.iter().map(|trial| trial.outcome.unsent).sum::<u64>().to_string(),
            if others.is_empty() { "none".to_owned() } else { format!("{others:?}") },
        ]);
    }
    table::print(
        &format!(
            "twice the rate of {CONNECTIONS} connections, over {CLIENTS}; \
             times since an order was due"
        ),
        &COLUMNS,
        &rows,
    );
    println!(
        "\nEvery answer was 201, or 503 with Retry-After, and every acknowledged order is in the \
         database: {}.",
        if passed { "yes" } else { "no" }
    );
    passed
}
