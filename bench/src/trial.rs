//! One round of a service: orders for a while, watched from outside, and counted in its database
//! afterwards.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use test_servers::postgres::Cluster;

use crate::{
    instance::{Instance, Wiring},
    load::{Load, Outcome},
    request::Request,
    schedule::Pace,
    service::{Service, own_cpu_seconds},
};

/// Connections that keep a service as busy as it can be.
pub const CONNECTIONS: usize = 64;

/// How long everything takes, and what is measured.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Rounds of each contestant
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..), global = true)]
    pub rounds: u16,
    /// Seconds of each round that are measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..), global = true)]
    pub seconds: u16,
    /// Seconds of each round that are not measured, before those that are
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16), global = true)]
    pub warmup: u16,
    /// The service's program [default: the one beside this]
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

    /// Orders over so many connections for a round.
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
            connections,
            pace,
            warmup: self.warmup(),
            window: self.window(),
            seed,
        }
    }

    /// A round of a new service on a new database; real orders, so that its workers deliver mails
    /// meanwhile.
    pub fn trial(
        &self,
        wiring: Wiring,
        cluster: &Cluster,
        connections: usize,
        pace: Pace,
        seed: u64,
    ) -> Trial {
        let instance = Instance::new(&self.binary(), wiring, cluster);
        let request = Request::order(&instance.site.issue_key(&[]), false);
        let service = instance.site.start();
        let trial = watch(&service, &self.load(&service, request, connections, pace, seed));
        instance.assert_orders(trial.outcome.acknowledged);
        drop(service);
        instance.put_aside();
        trial
    }
}

/// What a round of a service showed.
pub struct Trial {
    pub outcome: Outcome,
    /// Seconds of CPU of the service per 1,000 orders acknowledged in the window.
    pub cpu: f64,
    /// The same of the load generator.
    pub own_cpu: f64,
    /// MiB of memory over what it had when it was idle, at the most.
    pub memory: f64,
    /// Mails delivered until the end of the round.
    pub delivered: f64,
    /// Mails that waited then.
    pub waiting: f64,
}

/// Runs a load on a service that has been idle until then.
pub fn watch(service: &Service, load: &Load<'_>) -> Trial {
    service.forget_peak();
    let idle = service.memory();
    let (outcome, [before, after]) = load.run(|| (service.cpu_seconds(), own_cpu_seconds()));
    let per_thousand = |seconds: f64| seconds * 1000.0 / outcome.latencies.count() as f64;
    Trial {
        cpu: per_thousand(after.0 - before.0),
        own_cpu: per_thousand(after.1 - before.1),
        memory: service.peak_memory() - idle,
        delivered: service.metric("notary_orders_mails_total{outcome=\"delivered\"}"),
        waiting: service.metric("notary_orders_follow_ups_pending"),
        outcome,
    }
}

/// Runs every contestant once in each round, in an order that moves on, so that none is always
/// first.
pub fn alternate<T>(rounds: u16, contestants: &[&dyn Fn(u64) -> T]) -> Vec<Vec<T>> {
    let mut results: Vec<Vec<T>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..usize::from(rounds) {
        for turn in 0..contestants.len() {
            let at = (round + turn) % contestants.len();
            results[at].push(contestants[at](round as u64));
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    results
}

/// One figure of the one by the same of the other, round by round.
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
    fn contestants_take_turns_in_going_first() {
        let turns = RefCell::new(Vec::new());
        let one = |round| turns.borrow_mut().push((round, 'a'));
        let other = |round| turns.borrow_mut().push((round, 'b'));
        assert_eq!(alternate(2, &[&one, &other]), [[(), ()], [(), ()]]);
        assert_eq!(*turns.borrow(), [(0, 'a'), (0, 'b'), (1, 'b'), (1, 'a')]);
    }
}
