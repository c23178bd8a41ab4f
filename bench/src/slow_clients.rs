//! What a normal client notices of two thousand slow ones: heads and bodies of a byte a second, and
//! connections on which nothing is said.

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
    instance::{Instance, Wiring, flush},
    latency::median,
    load::Outcome,
    request::Request,
    schedule::Pace,
    service::Service,
    table::{self, Bound, short},
    trial::{Plan, alternate, ratios},
};

const SLOW: usize = 2_000;
/// Files of this process beside those connections.
const FILES: u64 = 200;
/// Between two bytes of a slow client.
const TICK: Duration = Duration::from_secs(1);
/// The normal client orders so many times in a second, at random moments.
const RATE: f64 = 50.0;
const NORMAL: usize = 16;

/// One that takes its time. The service cuts it off sooner or later; then it comes again.
struct SlowClient<'a> {
    address: &'a str,
    begin: &'a str,
    says_more: bool,
    stream: TcpStream,
}

impl<'a> SlowClient<'a> {
    fn connect(address: &'a str, (begin, says_more): (&'a str, bool)) -> Self {
        Self { address, begin, says_more, stream: open(address, begin) }
    }

    /// Says a byte, and answers whether it had been cut off.
    fn tick(&mut self) -> bool {
        let said = if self.says_more { self.stream.write(b" ").map(drop) } else { Ok(()) };
        let cut = [
            said,
            self.stream.read(&mut [0; 1024]).and_then(|read| {
                if read == 0 { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
            }),
        ];
        let was_cut = cut
            .into_iter()
            .filter_map(Result::err)
            .any(|error| error.kind() != ErrorKind::WouldBlock);
        if was_cut {
            self.stream = open(self.address, self.begin);
        }
        was_cut
    }
}

fn open(address: &str, begin: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(begin.as_bytes()).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// One round of the normal client, with so many slow ones; the orders, and how many slow clients
/// were cut off meanwhile.
fn round(plan: &Plan, service: &Service, key: &str, slow: usize, seed: u64) -> (Outcome, usize) {
    let begin = format!(
        "POST /api/order/create HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    );
    let (head, body) =
        (format!("{begin}X-Slow: "), format!("{begin}Content-Length: 10000\r\n\r\n{{"));
    let kinds = [(head.as_str(), true), (&body, true), ("", false)];
    let clients: Vec<_> =
        (0..slow).map(|at| SlowClient::connect(&service.api, kinds[at % kinds.len()])).collect();
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let crowd = scope.spawn(move || {
            let (mut clients, mut cut) = (clients, 0);
            // A few at a time, as they would come of themselves.
            for group in (0..10).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                cut += clients
                    .iter_mut()
                    .skip(group)
                    .step_by(10)
                    .filter_map(|client| client.tick().then_some(()))
                    .count();
                thread::sleep(TICK / 10);
            }
            cut
        });
        let outcome = plan
            .load(service, Request::order(key, false), NORMAL, Pace::Open(RATE), seed)
            .run(|| ())
            .0
            .all_created();
        done.store(true, Ordering::Relaxed);
        (outcome, crowd.join().unwrap())
    })
}

/// Runs it on both wirings.
///
/// # Panics
/// If the normal client got an answer other than 201.
pub fn run(plan: &Plan, cluster: &Cluster) {
    allow_files();
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for wiring in Wiring::ALL {
        let instance = Instance::new(&plan.binary(), wiring, cluster);
        let key = instance.site.issue_key(&["--test"]);
        let service = instance.site.start();
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
            let (p50, cut) = (
                of(&|(outcome, _)| outcome.latencies.percentile(0.5)),
                rounds.iter().map(|(_, cut)| cut).sum::<usize>(),
            );
            rows.push(vec![
                format!("{}, {slow} slow clients", wiring.name()),
                p50,
                of(&p99),
                cut.to_string(),
                "0".to_owned(),
            ]);
        }
        let ratios = ratios(&rounds[1], &rounds[0], p99, p99);
        targets.push(table::target(
            &format!("{}: p99 with {SLOW} slow clients / without", wiring.name()),
            &ratios,
            "",
            Bound::AtMost(2.0),
        ));
        drop(service);
        instance.put_aside();
    }
    let title = format!("{RATE} orders per second of a normal client, beside {SLOW} slow ones");
    table::print(
        &title,
        &["", "p50 ms", "p99 ms", "slow ones cut off", "answers other than 201"],
        &rows,
    );
    table::print("slow clients", &table::TARGET_COLUMNS, &targets);
}

/// # Panics
/// If this process may not have so many files.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let wanted = SLOW as u64 + FILES;
    assert!(
        limit.maximum.is_none_or(|files| files >= wanted),
        "{SLOW} connections need `ulimit -Hn {wanted}`"
    );
}
