//! Mixed load for a long time: whether anything grows that should not.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use test_servers::postgres::Cluster;

use crate::{
    http::Connection,
    instance::{Instance, Wiring},
    latency::median,
    picture::{self, Panel},
    request::Request,
    service::Service,
    table::{self, short},
    trial::Plan,
    upload::{Form, document},
};

/// When the service is warm, in seconds.
const WARM: f64 = 300.0;
/// Seconds over whose samples a figure is the median.
const SPAN: f64 = 60.0;
/// How far above its value when warm a figure may be at the end.
const FLAT: f64 = 1.05;
/// Seconds that a mail may wait.
const WAITS: f64 = 60.0;
/// Pauses between requests of one client, on average, and how many clients there are.
const ORDERS: (Duration, usize) = (Duration::from_millis(100), 6);
const UPLOADS: (Duration, usize) = (Duration::from_millis(500), 2);
const SLOW_UPLOADS: (Duration, usize) = (Duration::from_secs(1), 2);
const REFUSALS: (Duration, usize) = (Duration::from_millis(200), 1);
const DEPARTURES: (Duration, usize) = (Duration::from_millis(200), 1);

/// How long, and where the picture goes.
#[derive(Debug, Clone, Args)]
pub struct Soak {
    /// Minutes for each wiring
    #[arg(default_value_t = 30.0)]
    minutes: f64,
    /// Only this wiring
    #[arg(long, value_parser = ["postgres", "sqlite"])]
    on: Option<String>,
    /// Folder for the pictures
    #[arg(long, default_value = "target")]
    pictures: PathBuf,
}

/// What the service has at a moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Seconds since the start.
    at: f64,
    memory: f64,
    descriptors: f64,
    threads: f64,
    /// Seconds.
    queue_age: f64,
}

/// A figure of a sample, and what it is.
type Figure = (&'static str, fn(&Sample) -> f64);
const FIGURES: [Figure; 4] = [
    ("resident memory, MiB", |sample| sample.memory),
    ("file descriptors", |sample| sample.descriptors),
    ("threads", |sample| sample.threads),
    ("age of the oldest mail that waits, s", |sample| sample.queue_age),
];

impl Soak {
    /// Whether nothing grew, every answer the expected one, and every acknowledged order kept.
    pub fn run(&self, plan: &Plan, cluster: &Cluster) -> bool {
        let wirings = Wiring::ALL.into_iter().filter(|wiring| {
            self.on.as_ref().is_none_or(|on| wiring.name().to_lowercase().starts_with(on))
        });
        // All of them, whatever the first has shown.
        let flat: Vec<bool> = wirings.map(|wiring| self.on_wiring(plan, wiring, cluster)).collect();
        flat.iter().all(|flat| *flat)
    }

    fn on_wiring(&self, plan: &Plan, wiring: Wiring, cluster: &Cluster) -> bool {
        let instance = Instance::new(&plan.binary(), wiring, cluster);
        let key = instance.site.issue_key(&[]);
        let service = instance.site.start();
        let load = Load {
            address: &service.api,
            key: &key,
            stop: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
        };
        let (samples, answers) =
            load.while_sampling(|| sample(&service, Duration::from_secs_f64(self.minutes * 60.0)));
        service.settle();
        let acknowledged = load.acknowledged.load(Ordering::Relaxed);
        let unknown: u64 = answers.values().filter_map(|answers| answers.get(&503)).sum();
        let rows = instance.rows("orders");
        assert!(
            (acknowledged..=acknowledged + unknown).contains(&rows),
            "{rows} orders, {acknowledged} acknowledged, {unknown} times 503"
        );

        let panels = FIGURES.map(|(title, figure)| Panel {
            title,
            points: samples.iter().map(|sample| (sample.at / 60.0, figure(sample))).collect(),
        });
        let picture = self.pictures.join(format!("soak-{}.svg", wiring.name().to_lowercase()));
        picture::draw(&picture, "minutes", &panels);
        let end = samples.last().unwrap().at;
        let rows = FIGURES.map(|(title, figure)| {
            let over = |from: f64, to: f64| {
                samples
                    .iter()
                    .filter(|sample| (from..=to).contains(&sample.at))
                    .map(figure)
                    .collect::<Vec<_>>()
            };
            let (warm, last) = (
                median(over(WARM.min(end), (WARM + SPAN).min(end))),
                median(over(end - SPAN, end)),
            );
            (title, warm, last, samples.iter().map(figure).fold(0.0, f64::max))
        });
        let columns = ["", "in minute 5", "in the last minute", "÷", "most"];
        let shown: Vec<_> = rows
            .iter()
            .map(|(title, warm, last, most)| {
                vec![
                    (*title).to_owned(),
                    short(*warm),
                    short(*last),
                    short(last / warm),
                    short(*most),
                ]
            })
            .collect();
        table::print(
            &format!("{}: {} minutes of mixed load, {answers:?}", wiring.name(), self.minutes),
            &columns,
            &shown,
        );
        println!("\nEvery acknowledged order is in the database. Picture: {}", picture.display());
        if end < WARM + 2.0 * SPAN {
            println!("Too short to say whether anything grows.");
            return true;
        }
        let [memory, descriptors, threads, queue] = rows;
        // A connection or a thread more or less at a moment is no growth.
        let flat = memory.2 <= memory.1 * FLAT
            && [descriptors, threads].iter().all(|row| row.2 <= row.1 * FLAT + 2.0)
            && queue.3 <= WAITS;
        println!("Flat after minute 5: {}.", if flat { "yes" } else { "no" });
        flat
    }
}

/// A sample every second.
fn sample(service: &Service, length: Duration) -> Vec<Sample> {
    let started = Instant::now();
    let mut samples = Vec::new();
    while started.elapsed() < length {
        thread::sleep(Duration::from_secs(1));
        samples.push(Sample {
            at: started.elapsed().as_secs_f64(),
            memory: service.memory(),
            descriptors: service.descriptors(),
            threads: service.threads(),
            queue_age: service.metric("notary_orders_follow_up_oldest_age_seconds"),
        });
    }
    samples
}

/// Clients of every kind.
struct Load<'a> {
    address: &'a str,
    key: &'a str,
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

/// How often each kind of client got each answer.
type Answers = BTreeMap<&'static str, BTreeMap<u16, u64>>;

impl Load<'_> {
    fn while_sampling(&self, sample: impl FnOnce() -> Vec<Sample>) -> (Vec<Sample>, Answers) {
        let documents = [document(100_000), document(2_000_000)];
        let forms = [Form::new(self.key, 3, &documents[0]), Form::new(self.key, 5, &documents[1])];
        let requests = [Request::order(self.key, false), Request::order(self.key, true)];
        thread::scope(|scope| {
            let mut clients = Vec::new();
            for at in 0..ORDERS.1 {
                let mut request = requests[at % 2].clone();
                clients.push((
                    "orders",
                    scope.spawn(move || {
                        self.client(ORDERS.0, 201, |connection| send(connection, request.next()))
                    }),
                ));
            }
            for _ in 0..UPLOADS.1 {
                let mut form = forms[0].clone();
                clients.push((
                    "uploads",
                    scope.spawn(move || {
                        self.client(UPLOADS.0, 201, |connection| {
                            form.upload(connection, || ()).unwrap().status
                        })
                    }),
                ));
            }
            for _ in 0..SLOW_UPLOADS.1 {
                let mut form = forms[1].clone();
                let pause = || thread::sleep(Duration::from_millis(20));
                let upload = move |connection: &mut Connection| {
                    form.upload(connection, pause).unwrap().status
                };
                clients.push((
                    "slow uploads",
                    scope.spawn(move || self.client(SLOW_UPLOADS.0, 201, upload)),
                ));
            }
            for _ in 0..REFUSALS.1 {
                let mut request = Request::order("nok_wrong", false);
                clients.push((
                    "refusals",
                    scope.spawn(move || {
                        self.client(REFUSALS.0, 401, |connection| send(connection, request.next()))
                    }),
                ));
            }
            let departures: Vec<_> =
                (0..DEPARTURES.1).map(|_| scope.spawn(|| self.departures())).collect();
            let samples = sample();
            self.stop.store(true, Ordering::Relaxed);
            let mut answers = Answers::new();
            for (kind, client) in clients {
                for (status, count) in client.join().unwrap() {
                    *answers.entry(kind).or_default().entry(status).or_default() += count;
                }
            }
            for client in departures {
                client.join().unwrap();
            }
            (samples, answers)
        })
    }

    /// Asks with random pauses, now and then on a new connection.
    ///
    /// # Panics
    /// If an answer is neither the expected one nor 503.
    fn client(
        &self,
        pause: Duration,
        expected: u16,
        mut ask: impl FnMut(&mut Connection) -> u16,
    ) -> BTreeMap<u16, u64> {
        let (mut answers, mut random) = (BTreeMap::new(), fastrand::Rng::new());
        let mut connection = Connection::open(self.address).unwrap();
        while !self.stop.load(Ordering::Relaxed) {
            thread::sleep(pause.mul_f64(2.0 * random.f64()));
            // A refused upload may have closed it.
            if expected != 201 || random.u8(..50) == 0 {
                connection = Connection::open(self.address).unwrap();
            }
            let status = ask(&mut connection);
            // A machine that stands still for seconds is told from one that is slow by how often.
            assert!(status == expected || status == 503, "{status}");
            *answers.entry(status).or_default() += 1;
            self.acknowledged.fetch_add(u64::from(status == 201), Ordering::Relaxed);
        }
        answers
    }

    /// Connections that end in the middle of a head, or of a form.
    fn departures(&self) {
        let mut random = fastrand::Rng::new();
        while !self.stop.load(Ordering::Relaxed) {
            thread::sleep(DEPARTURES.0.mul_f64(2.0 * random.f64()));
            let head = format!(
                "POST /api/order/create-with-documents HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
                 Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n\
                 --b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"deed.pdf\"\r\n\r\n%PDF-1.7\n",
                self.key
            );
            let mut connection = Connection::open(self.address).unwrap();
            connection.send(&head.as_bytes()[..random.usize(1..head.len())]).unwrap();
        }
    }
}

fn send(connection: &mut Connection, request: &[u8]) -> u16 {
    connection.send(request).unwrap();
    connection.answer().unwrap().status
}
