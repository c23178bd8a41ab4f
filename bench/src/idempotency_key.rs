//! The cost of an `Idempotency-Key`. Uses test orders, so that no mails are delivered meanwhile.
//! With `BASELINE=PATH` of another build, also compares both builds without keys: what clients pay
//! that do not use them. Those are real orders; each round waits until all mails are delivered.

use std::path::{Path, PathBuf};

use test_servers::postgres::Cluster;

use crate::{
    instance::{Backend, Instance},
    latency::median,
    request::Request,
    schedule::Pace,
    service::Service,
    table::{self, short},
    trial::{CONNECTIONS, Plan, alternate, ratios},
};

/// A service that runs in all rounds.
struct Candidate<'a> {
    service: Service,
    key: String,
    _instance: Instance<'a>,
}

impl<'a> Candidate<'a> {
    fn new(binary: &Path, backend: Backend, cluster: &'a Cluster, kind: &[&str]) -> Self {
        let instance = Instance::new(binary, backend, cluster);
        let key = instance.installation.issue_key(kind);
        Self { service: instance.installation.start(), key, _instance: instance }
    }

    /// Measures the orders per second of one round.
    fn round(&self, plan: &Plan, with_idempotency_key: bool) -> f64 {
        let request = Request::order(&self.key, with_idempotency_key);
        let (outcome, _) =
            plan.load(&self.service, request, CONNECTIONS, Pace::Closed, 0).run(|| ());
        self.service.wait_until_delivered();
        outcome.expect_success().rate()
    }
}

/// Runs the measurement on both databases.
pub fn run(plan: &Plan, cluster: &Cluster) {
    let mut rows = Vec::new();
    let mut compare = |label: String, one: &dyn Fn(u64) -> f64, other: &dyn Fn(u64) -> f64| {
        let rounds = alternate(plan.rounds, &[one, other]);
        let ratio = median(ratios(&rounds[0], &rounds[1], |rate| *rate, |rate| *rate));
        rows.push(vec![
            label,
            short(median(rounds[0].clone())),
            short(median(rounds[1].clone())),
            format!("{ratio:.3}"),
        ]);
    };
    for backend in Backend::ALL {
        let own = Candidate::new(&plan.binary(), backend, cluster, &["--test"]);
        compare(
            format!("{}: with a key on every order / without", backend.name()),
            &|_| own.round(plan, true),
            &|_| own.round(plan, false),
        );
        if let Some(baseline) = std::env::var_os("BASELINE").map(PathBuf::from) {
            let own = Candidate::new(&plan.binary(), backend, cluster, &[]);
            let before = Candidate::new(&baseline, backend, cluster, &[]);
            compare(
                format!("{}: this build without keys / the other", backend.name()),
                &|_| own.round(plan, false),
                &|_| before.round(plan, false),
            );
        }
    }
    table::print(
        "cost of an Idempotency-Key",
        &["", "orders/s", "orders/s of the other", "ratio"],
        &rows,
    );
}
