//! A normal client next to two thousand hostile connections.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use test_servers::postgres::Cluster;

use crate::{
    instance::{Backend, Instance, flush},
    latency::median,
    load::Outcome,
    request::Request,
    schedule::Pace,
    service::Service,
    table::{self, Bound, short},
    trial::{Plan, alternate, ratios},
};

/// Hostile connections.
const CONNECTIONS: usize = 2_000;
/// Other open files of this process.
const OTHER_FILES: u64 = 200;
/// Time between two actions of a connection.
const TICK: Duration = Duration::from_secs(1);
/// Orders per second of the normal client, at random moments.
const RATE: f64 = 50.0;
const NORMAL: usize = 16;

/// What a set of hostile connections does.
pub struct Crowd {
    /// Its name in the tables.
    pub name: &'static str,
    /// Returns the kinds of connections, for a valid API key. Each kind has the same number.
    pub kinds: fn(&str) -> Vec<Kind>,
    /// Flags of the service.
    pub flags: &'static [&'static str],
}

/// A kind of hostile connection.
#[derive(Clone)]
pub struct Kind {
    /// Bytes that it sends first.
    pub begin: Vec<u8>,
    /// What it does every second after that.
    pub then: Then,
}

/// What a connection does every second.
#[derive(Clone)]
pub enum Then {
    Nothing,
    Byte,
    /// Sends this many requests without waiting for answers.
    Requests(Request, usize),
}

/// A hostile connection. Reconnects when the service closes it.
struct Connection<'a> {
    address: &'a str,
    kind: Kind,
    /// Bytes of the beginning that are sent.
    begun: usize,
    stream: TcpStream,
}

impl<'a> Connection<'a> {
    fn open(address: &'a str, kind: Kind) -> Self {
        Self { address, kind, begun: 0, stream: open(address) }
    }

    /// Sends bytes and discards what was received. Returns whether the service had closed the
    /// connection.
    fn tick(&mut self) -> bool {
        let sent = match &mut self.kind.then {
            _ if self.begun < self.kind.begin.len() => {
                self.stream.write(&self.kind.begin[self.begun..]).map(|count| self.begun += count)
            }
            Then::Nothing => Ok(()),
            Then::Byte => self.stream.write(b" ").map(drop),
            Then::Requests(request, count) => {
                let requests: Vec<u8> = (0..*count).flat_map(|_| request.next().to_vec()).collect();
                self.stream.write(&requests).map(drop)
            }
        };
        let mut buffer = [0; 8 * 1024];
        let received = loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break Err(ErrorKind::BrokenPipe.into()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        let was_closed = [sent, received]
            .into_iter()
            .filter_map(Result::err)
            .any(|error| error.kind() != ErrorKind::WouldBlock);
        if was_closed {
            (self.stream, self.begun) = (open(self.address), 0);
        }
        was_closed
    }
}

fn open(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Runs one round of the normal client next to hostile connections. Returns its outcome, and the
/// number of connections that the service closed.
fn round(plan: &Plan, service: &Service, key: &str, kinds: &[Kind], seed: u64) -> (Outcome, usize) {
    let hostile = if kinds.is_empty() { 0 } else { CONNECTIONS };
    let connections: Vec<_> = (0..hostile)
        .map(|at| Connection::open(&service.api, kinds[at % kinds.len()].clone()))
        .collect();
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let hostile = scope.spawn(move || {
            let (mut connections, mut closed) = (connections, 0);
            // In ten groups, so that the actions are spread over the second.
            for group in (0..10).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                closed += connections
                    .iter_mut()
                    .skip(group)
                    .step_by(10)
                    .filter_map(|connection| connection.tick().then_some(()))
                    .count();
                thread::sleep(TICK / 10);
            }
            closed
        });
        let outcome = plan
            .load(service, Request::order(key, false), NORMAL, Pace::Open(RATE), seed)
            .run(|| ())
            .0;
        done.store(true, Ordering::Relaxed);
        (outcome, hostile.join().unwrap())
    })
}

/// Runs the measurement on both databases. Returns whether every answer to the normal client was
/// 201, and every acknowledged order is in the database.
pub fn run(plan: &Plan, cluster: &Cluster, crowd: &Crowd) -> bool {
    raise_file_limit(CONNECTIONS);
    let name = crowd.name;
    let (mut rows, mut targets, mut passed) = (Vec::new(), Vec::new(), true);
    for backend in Backend::ALL {
        let instance = Instance::new(&plan.binary(), backend, cluster);
        let limits = ["--test", "--limit-per-second=100000", "--limit-burst=100000"];
        let key = instance.installation.issue_key(&limits);
        let service = instance.installation.start_with(crowd.flags);
        let with = |kinds: Vec<Kind>| {
            let (service, key) = (&service, &key);
            move |seed| {
                flush(cluster);
                round(plan, service, key, &kinds, seed)
            }
        };
        let rounds = alternate(plan.rounds, &[&with(Vec::new()), &with((crowd.kinds)(&key))]);
        let p99 = |(outcome, _): &(Outcome, usize)| outcome.latencies.percentile(0.99);
        for (rounds, hostile) in rounds.iter().zip([0, CONNECTIONS]) {
            let of = |figure: &dyn Fn(&(Outcome, usize)) -> f64| {
                short(median(rounds.iter().map(figure)))
            };
            let refused: Vec<_> =
                rounds.iter().filter_map(|(outcome, _)| refusals(outcome)).collect();
            passed &= refused.is_empty();
            let (p50, closed) = (
                of(&|(outcome, _)| outcome.latencies.percentile(0.5)),
                rounds.iter().map(|(_, closed)| closed).sum::<usize>(),
            );
            rows.push(vec![
                format!("{}, {hostile} {name}", backend.name()),
                p50,
                of(&p99),
                closed.to_string(),
                if refused.is_empty() { "none".to_owned() } else { refused.join("; ") },
            ]);
        }
        let ratios = ratios(&rounds[1], &rounds[0], p99, p99);
        targets.push(table::target(
            &format!("{}: p99 with {CONNECTIONS} {name} / without", backend.name()),
            &ratios,
            "",
            Bound::AtMost(2.0),
        ));
        if passed {
            let acknowledged = |(outcome, _): &(Outcome, usize)| outcome.acknowledged;
            instance.assert_orders(rounds.iter().flatten().map(acknowledged).sum());
        }
    }
    let title =
        format!("{RATE} orders per second of a normal client, next to {CONNECTIONS} {name}");
    table::print(
        &title,
        &["", "p50 ms", "p99 ms", "connections closed by the service", "answers other than 201"],
        &rows,
    );
    table::print(name, &table::TARGET_COLUMNS, &targets);
    passed
}

/// Describes the answers other than 201, and the orders that were due and never sent.
fn refusals(outcome: &Outcome) -> Option<String> {
    let Outcome { shed, unsent, others, .. } = outcome;
    let is_fine = *shed == 0 && *unsent == 0 && others.is_empty();
    (!is_fine).then(|| format!("{shed} 503, {unsent} never sent, {others:?}"))
}

/// Raises the limit of open files for so many connections.
///
/// # Panics
/// If the hard limit is too low.
pub fn raise_file_limit(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let needed = connections as u64 + OTHER_FILES;
    assert!(
        limit.maximum.is_none_or(|files| files >= needed),
        "{connections} connections need `ulimit -Hn {needed}`"
    );
}
