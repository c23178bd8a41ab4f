//! A normal client next to two thousand slow ones: heads and bodies of one byte per second, and
//! silent connections.

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

const SLOW: usize = 2_000;
/// Other open files of this process.
const OTHER_FILES: u64 = 200;
/// Time between two bytes of a slow client.
const TICK: Duration = Duration::from_secs(1);
/// Orders per second of the normal client, at random moments.
const RATE: f64 = 50.0;
const NORMAL: usize = 16;

/// A slow client. Reconnects when the service closes its connection.
struct SlowClient<'a> {
    address: &'a str,
    begin: &'a str,
    sends_bytes: bool,
    stream: TcpStream,
}

impl<'a> SlowClient<'a> {
    fn connect(address: &'a str, (begin, sends_bytes): (&'a str, bool)) -> Self {
        Self { address, begin, sends_bytes, stream: open(address, begin) }
    }

    /// Sends a byte. Returns whether the service had closed the connection.
    fn tick(&mut self) -> bool {
        let sent = if self.sends_bytes { self.stream.write(b" ").map(drop) } else { Ok(()) };
        let results = [
            sent,
            self.stream.read(&mut [0; 1024]).and_then(|read| {
                if read == 0 { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
            }),
        ];
        let was_closed = results
            .into_iter()
            .filter_map(Result::err)
            .any(|error| error.kind() != ErrorKind::WouldBlock);
        if was_closed {
            self.stream = open(self.address, self.begin);
        }
        was_closed
    }
}

fn open(address: &str, begin: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(begin.as_bytes()).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Runs one round of the normal client next to slow ones. Returns its outcome, and the number of
/// connections of slow clients that the service closed.
fn round(plan: &Plan, service: &Service, key: &str, slow: usize, seed: u64) -> (Outcome, usize) {
    let begin = format!(
        "POST /api/order/create HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    );
    let (head, body) =
        (format!("{begin}X-Slow: "), format!("{begin}Content-Length: 10000\r\n\r\n{{"));
    let kinds = [(head.as_str(), true), (&body, true), ("", false)];
    let clients: Vec<_> =
        (0..slow).map(|at| SlowClient::connect(&service.api, kinds[at % kinds.len()])).collect();
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let slow_clients = scope.spawn(move || {
            let (mut clients, mut closed) = (clients, 0);
            // In ten groups, so that the bytes are spread over the second.
            for group in (0..10).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                closed += clients
                    .iter_mut()
                    .skip(group)
                    .step_by(10)
                    .filter_map(|client| client.tick().then_some(()))
                    .count();
                thread::sleep(TICK / 10);
            }
            closed
        });
        let outcome = plan
            .load(service, Request::order(key, false), NORMAL, Pace::Open(RATE), seed)
            .run(|| ())
            .0
            .expect_all_created();
        done.store(true, Ordering::Relaxed);
        (outcome, slow_clients.join().unwrap())
    })
}

/// Runs the measurement on both databases.
///
/// # Panics
/// If the normal client got an answer other than 201.
pub fn run(plan: &Plan, cluster: &Cluster) {
    raise_file_limit();
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for backend in Backend::ALL {
        let instance = Instance::new(&plan.binary(), backend, cluster);
        let key = instance.installation.issue_key(&["--test"]);
        let service = instance.installation.start();
        let with = |slow: usize| {
            let (service, key) = (&service, &key);
            move |seed| {
                flush(cluster);
                round(plan, service, key, slow, seed)
            }
        };
        let rounds = alternate(plan.rounds, &[&with(0), &with(SLOW)]);
        instance
            .assert_orders(rounds.iter().flatten().map(|(outcome, _)| outcome.acknowledged).sum());
        let p99 = |(outcome, _): &(Outcome, usize)| outcome.latencies.percentile(0.99);
        for (rounds, slow) in rounds.iter().zip([0, SLOW]) {
            let of = |figure: &dyn Fn(&(Outcome, usize)) -> f64| {
                short(median(rounds.iter().map(figure)))
            };
            let (p50, closed) = (
                of(&|(outcome, _)| outcome.latencies.percentile(0.5)),
                rounds.iter().map(|(_, closed)| closed).sum::<usize>(),
            );
            rows.push(vec![
                format!("{}, {slow} slow clients", backend.name()),
                p50,
                of(&p99),
                closed.to_string(),
                "0".to_owned(),
            ]);
        }
        let ratios = ratios(&rounds[1], &rounds[0], p99, p99);
        targets.push(table::target(
            &format!("{}: p99 with {SLOW} slow clients / without", backend.name()),
            &ratios,
            "",
            Bound::AtMost(2.0),
        ));
        drop(service);
        instance.keep_until_the_end();
    }
    let title = format!("{RATE} orders per second of a normal client, next to {SLOW} slow ones");
    table::print(
        &title,
        &["", "p50 ms", "p99 ms", "slow connections closed", "answers other than 201"],
        &rows,
    );
    table::print("slow clients", &table::TARGET_COLUMNS, &targets);
}

/// Raises the limit of open files.
///
/// # Panics
/// If the hard limit is too low.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let needed = SLOW as u64 + OTHER_FILES;
    assert!(
        limit.maximum.is_none_or(|files| files >= needed),
        "{SLOW} connections need `ulimit -Hn {needed}`"
    );
}
