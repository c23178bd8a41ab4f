//! One round of a service: a load, observed from outside, and the orders counted in the database.

use std::{path::PathBuf, time::Duration};

use clap::{Args, value_parser};
use test_servers::postgres::Cluster;

use crate::{
    instance::{Backend, Instance},
    load::{Expected, Load, Outcome},
    process::own_cpu_seconds,
    request::Request,
    schedule::Pace,
    service::Service,
};

/// Connections that fully load a service.
pub const CONNECTIONS: usize = 64;

/// Number and length of the rounds, and the program under test.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Rounds of each candidate
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u16).range(1..), global = true)]
    pub rounds: u16,
    /// Measured seconds of each round
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u16).range(1..), global = true)]
    pub seconds: u16,
    /// Seconds of each round before the measured ones
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16), global = true)]
    pub warmup: u16,
    /// The program of the service [default: the one next to this program]
    #[arg(long, env = "NOTARY_ORDERS_BINARY", global = true)]
    binary: Option<PathBuf>,
}

impl Plan {
    pub fn window(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    pub fn warmup(&self) -> Duration {
        Duration::from_secs(self.warmup.into())
    }

    pub fn binary(&self) -> PathBuf {
        self.binary
            .clone()
            .unwrap_or_else(|| std::env::current_exe().unwrap().with_file_name("notary-orders"))
    }

    /// Returns the load of one round.
    pub fn load<'a>(
        &self,
        service: &'a Service,
        request: Request,
        connections: usize,
        pace: Pace,
        seed: u64,
    ) -> Load<'a> {
        Load {
            address: &service.api,
            request,
            expected: Expected::CREATED,
            connections,
            pace,
            warmup: self.warmup(),
            window: self.window(),
            seed,
        }
    }

    /// Runs a round of a new service on a new database. The orders are real, so that its workers
    /// deliver mails meanwhile.
    pub fn trial(
        &self,
        backend: Backend,
        cluster: &Cluster,
        connections: usize,
        pace: Pace,
        seed: u64,
    ) -> Trial {
        let instance = Instance::new(&self.binary(), backend, cluster);
        let request = Request::order(&instance.installation.issue_key(&[]), false);
        let service = instance.installation.start();
        let trial = watch(&service, &self.load(&service, request, connections, pace, seed));
        instance.assert_orders(trial.outcome.acknowledged);
        trial
    }
}

/// The result of a round.
pub struct Trial {
    pub outcome: Outcome,
    /// CPU seconds of the service per 1,000 expected answers in the window.
    pub cpu: f64,
    /// CPU seconds of the load generator per 1,000 of these answers.
    pub client_cpu: f64,
    /// Most MiB above idle.
    pub memory: f64,
    /// Mails delivered by the end of the round.
    pub delivered: f64,
    /// Mails pending at the end of the round.
    pub waiting: f64,
}

/// Runs a load on an idle service.
pub fn watch(service: &Service, load: &Load<'_>) -> Trial {
    service.server().reset_peak();
    let idle = service.server().memory();
    let (outcome, [before, after]) =
        load.run(|| (service.server().cpu_seconds(), own_cpu_seconds()));
    let per_thousand = |seconds: f64| seconds * 1000.0 / outcome.latencies.count() as f64;
    Trial {
        cpu: per_thousand(after.0 - before.0),
        client_cpu: per_thousand(after.1 - before.1),
        memory: service.server().peak_memory() - idle,
        delivered: service.metric("notary_orders_mails_total{outcome=\"delivered\"}"),
        waiting: service.pending_mails(),
        outcome,
    }
}

/// Runs every candidate once per round. The order rotates, so that none is always first.
pub fn alternate<T>(rounds: u16, candidates: &[&dyn Fn(u64) -> T]) -> Vec<Vec<T>> {
    let mut results: Vec<Vec<T>> = candidates.iter().map(|_| Vec::new()).collect();
    for round in 0..usize::from(rounds) {
        for offset in 0..candidates.len() {
            let at = (round + offset) % candidates.len();
            results[at].push(candidates[at](round as u64));
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    results
}

/// Returns the ratio of two figures for each round.
pub fn ratios<T, U>(
    ones: &[T],
    others: &[U],
    one: impl Fn(&T) -> f64,
    other: impl Fn(&U) -> f64,
) -> Vec<f64> {
    ones.iter().zip(others).map(|(a, b)| one(a) / other(b)).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn order_of_candidates_rotates() {
        let calls = RefCell::new(Vec::new());
        let one = |round| calls.borrow_mut().push((round, 'a'));
        let other = |round| calls.borrow_mut().push((round, 'b'));
        assert_eq!(alternate(2, &[&one, &other]), [[(), ()], [(), ()]]);
        assert_eq!(*calls.borrow(), [(0, 'a'), (0, 'b'), (1, 'b'), (1, 'a')]);
    }
}
