//! The load generator: one blocking thread per connection, which costs two system calls per
//! request.

use std::{
    collections::BTreeMap,
    io,
    ops::RangeInclusive,
    thread,
    time::{Duration, Instant},
};

use crate::{
    http::{Answer, Connection},
    latency::{Latencies, microseconds},
    request::Request,
    schedule::{Pace, Schedule},
};

/// Time between the start of the threads and the first request.
const HEAD_START: Duration = Duration::from_millis(50);
/// Pause between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// How long after the end an overdue request may still be sent.
const GRACE: Duration = Duration::from_millis(250);

/// The answer to a request that succeeds.
#[derive(Debug, Clone)]
pub struct Expected {
    pub status: u16,
    /// Bytes of the body.
    pub lengths: RangeInclusive<usize>,
}

impl Expected {
    pub const CREATED: Self = Self { status: 201, lengths: 0..=usize::MAX };
}

/// A load on a service.
pub struct Load<'a> {
    pub address: &'a str,
    pub request: Request,
    pub expected: Expected,
    pub connections: usize,
    pub pace: Pace,
    /// Time that is not measured.
    pub warmup: Duration,
    pub window: Duration,
    pub seed: u64,
}

/// The result of a load. Counts the window only, unless noted otherwise.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Times to the expected answer: since the request was due in an open loop, otherwise since it
    /// was sent.
    pub latencies: Latencies,
    /// Times to the expected answer since the request was sent.
    pub since_sent: Latencies,
    /// Answers 503 with Retry-After.
    pub shed: u64,
    /// Requests that were due and never sent, because all connections were busy.
    pub unsent: u64,
    /// Expected answers, which acknowledge an order each, including the warm-up.
    pub acknowledged: u64,
    /// Other results of requests by their description, including the warm-up.
    pub others: BTreeMap<String, u64>,
    window: Duration,
}

impl Outcome {
    /// Expected answers per second.
    pub fn rate(&self) -> f64 {
        self.latencies.count() as f64 / self.window.as_secs_f64()
    }

    pub fn shed_rate(&self) -> f64 {
        self.shed as f64 / self.window.as_secs_f64()
    }

    /// Checks that all answers were as expected and all due requests were sent.
    ///
    /// # Panics
    /// If not.
    pub fn expect_success(self) -> Self {
        assert_eq!(
            self.unsent, 0,
            "requests were due and never sent, so their times are not counted"
        );
        assert!(
            self.shed == 0 && self.others.is_empty(),
            "unexpected answers: 503 {} times, {:?}",
            self.shed,
            self.others
        );
        self
    }
}

/// The results of one thread.
#[derive(Default)]
struct Tally {
    latencies: Vec<u32>,
    since_sent: Vec<u32>,
    in_window: u64,
    shed: u64,
    acknowledged: u64,
    others: BTreeMap<String, u64>,
}

impl Load<'_> {
    /// Runs the load. Calls `probe` when the window opens and when it closes.
    ///
    /// # Panics
    /// If the first connections fail.
    pub fn run<T>(&self, probe: impl Fn() -> T) -> (Outcome, [T; 2]) {
        let schedule = Schedule::new(self.pace, self.warmup + self.window, self.seed);
        let connections: Vec<Connection> =
            (0..self.connections).map(|_| Connection::open(self.address).unwrap()).collect();
        let start = Instant::now() + HEAD_START;
        let (tallies, probes) = thread::scope(|scope| {
            let spawn = |connection| {
                let schedule = &schedule;
                thread::Builder::new()
                    .stack_size(128 * 1024)
                    .spawn_scoped(scope, move || self.work(connection, schedule, start))
                    .unwrap()
            };
            let threads: Vec<_> = connections.into_iter().map(spawn).collect();
            let probe_at = |moment| {
                sleep_until(moment);
                probe()
            };
            let probes =
                [self.warmup, self.warmup + self.window].map(|since| probe_at(start + since));
            (threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>(), probes)
        });
        (self.sum(tallies, &schedule), probes)
    }

    fn sum(&self, tallies: Vec<Tally>, schedule: &Schedule) -> Outcome {
        let mut outcome = Outcome { window: self.window, ..Outcome::default() };
        let (mut latencies, mut since_sent, mut in_window) = (Vec::new(), Vec::new(), 0);
        for tally in tallies {
            latencies.extend(tally.latencies);
            since_sent.extend(tally.since_sent);
            in_window += tally.in_window;
            outcome.shed += tally.shed;
            outcome.acknowledged += tally.acknowledged;
            for (other, count) in tally.others {
                *outcome.others.entry(other).or_default() += count;
            }
        }
        outcome.unsent = schedule.due_since(self.warmup).map_or(0, |due| due as u64 - in_window);
        outcome.latencies = Latencies::new(latencies);
        outcome.since_sent = Latencies::new(since_sent);
        outcome
    }

    fn work(&self, mut connection: Connection, schedule: &Schedule, start: Instant) -> Tally {
        let mut tally = Tally::default();
        let mut request = self.request.clone();
        let (opens, end) = (start + self.warmup, start + self.warmup + self.window);
        sleep_until(start);
        loop {
            let Some(due) = schedule.next(start.elapsed()).map(|due| start + due) else {
                return tally;
            };
            sleep_until(due);
            let sent = Instant::now();
            // A thread that woke up late must not count as one without a free connection.
            if due >= end || sent >= end + GRACE {
                return tally;
            }
            let answer = connection.send(request.next()).and_then(|()| connection.answer());
            let done = Instant::now();
            // A closed loop counts requests that are done in the window, an open loop those that
            // are due in it.
            let counts = match self.pace {
                Pace::Closed => (opens..end).contains(&done),
                Pace::Open(_) => due >= opens,
            };
            let times = [microseconds(done - due), microseconds(done - sent)];
            tally.note(&answer, &self.expected, counts, times);
            if answer.is_err() || answer.is_ok_and(|answer| answer.closes) {
                match reconnect(self.address, end) {
                    Some(new) => connection = new,
                    None => return tally,
                }
            }
        }
    }
}

impl Tally {
    /// Notes an answer and its times since the request was due and sent.
    fn note(
        &mut self,
        answer: &io::Result<Answer>,
        expected: &Expected,
        counts: bool,
        [since_due, since_sent]: [u32; 2],
    ) {
        self.in_window += u64::from(counts);
        let other = match answer {
            Ok(Answer { status, length, .. })
                if *status == expected.status && expected.lengths.contains(length) =>
            {
                self.acknowledged += 1;
                if counts {
                    self.latencies.push(since_due);
                    self.since_sent.push(since_sent);
                }
                return;
            }
            Ok(Answer { status: 503, retry_after: true, .. }) => {
                self.shed += u64::from(counts);
                return;
            }
            Ok(Answer { status: 503, .. }) => "503 without Retry-After".to_owned(),
            Ok(answer) if answer.status == expected.status => {
                format!("{} with {} bytes", answer.status, answer.length)
            }
            Ok(answer) => answer.status.to_string(),
            Err(error) => format!("no answer: {error}"),
        };
        *self.others.entry(other).or_default() += 1;
    }
}

fn reconnect(address: &str, end: Instant) -> Option<Connection> {
    while Instant::now() < end {
        match Connection::open(address) {
            Ok(connection) => return Some(connection),
            Err(_) => thread::sleep(RECONNECT_PAUSE),
        }
    }
    None
}

fn sleep_until(moment: Instant) {
    if let Some(time) = moment.checked_duration_since(Instant::now()) {
        thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const ANSWERS: [&str; 3] = [
        "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ];

    /// Sends one answer after the other. The third one closes the connection.
    fn serve(mut stream: TcpStream) {
        let mut request = vec![0; 4096];
        for answer in ANSWERS {
            let mut length = 0;
            while !request[..length].ends_with(b"}}") {
                match stream.read(&mut request[length..]).unwrap() {
                    0 => return,
                    count => length += count,
                }
            }
            stream.write_all(answer.as_bytes()).unwrap();
        }
    }

    fn run(pace: Pace) -> Outcome {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            listener.incoming().for_each(|stream| drop(thread::spawn(|| serve(stream.unwrap()))));
        });
        let (warmup, window) = (Duration::from_millis(50), Duration::from_millis(500));
        let load = Load {
            address: &address,
            request: Request::order("k", false),
            expected: Expected { status: 201, lengths: 2..=2 },
            connections: 3,
            pace,
            warmup,
            window,
            seed: 1,
        };
        load.run(|| ()).0
    }

    #[test]
    fn answers_are_counted_by_kind() {
        let outcome = run(Pace::Closed);
        assert!(
            outcome.acknowledged > 3 && outcome.acknowledged >= outcome.latencies.count() as u64,
            "{outcome:?}"
        );
        let kinds: Vec<&str> = outcome.others.keys().map(String::as_str).collect();
        assert_eq!(kinds, ["503 without Retry-After"]);
        // The kinds alternate; the end and the warm-up account for the difference.
        assert!(
            outcome.acknowledged - outcome.others["503 without Retry-After"] <= 3,
            "{outcome:?}"
        );
        assert!(outcome.shed > 0 && outcome.shed <= outcome.acknowledged, "{outcome:?}");
    }

    #[test]
    fn open_loop_accounts_for_all_due_requests() {
        let outcome = run(Pace::Open(600.0));
        let due = Schedule::new(Pace::Open(600.0), Duration::from_millis(550), 1)
            .due_since(Duration::from_millis(50))
            .unwrap() as u64;
        let answered = outcome.latencies.count() as u64 + outcome.shed;
        let others: u64 = outcome.others.values().sum();
        assert!(
            (due - others..=due).contains(&(answered + outcome.unsent)),
            "{due} due: {outcome:?}"
        );
    }
}
