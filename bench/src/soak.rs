//! Mixed load for a long time, to detect growth of memory, descriptors, threads or the queue.

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
    chart::{self, Panel},
    http::Connection,
    instance::{Backend, Instance},
    latency::median,
    request::Request,
    service::Service,
    table::{self, short},
    trial::Plan,
    upload::{Form, document},
};

/// Seconds until the service is warm.
const WARM_AFTER: f64 = 300.0;
/// Seconds of samples that a median is taken over.
const SPAN: f64 = 60.0;
/// Largest ratio of the last value to the warm value of a figure.
const MAX_GROWTH: f64 = 1.05;
/// Most seconds that a mail may wait.
const MAX_QUEUE_AGE: f64 = 60.0;
/// Average pause between the requests of one client, and the number of clients.
const ORDERS: (Duration, usize) = (Duration::from_millis(100), 6);
const UPLOADS: (Duration, usize) = (Duration::from_millis(500), 2);
const SLOW_UPLOADS: (Duration, usize) = (Duration::from_secs(1), 2);
const REJECTIONS: (Duration, usize) = (Duration::from_millis(200), 1);
const DISCONNECTS: (Duration, usize) = (Duration::from_millis(200), 1);

/// Options of the measurement.
#[derive(Debug, Clone, Args)]
pub struct Soak {
    /// Minutes for each database
    #[arg(default_value_t = 30.0)]
    minutes: f64,
    /// Only this database
    #[arg(long, value_parser = ["postgres", "sqlite"])]
    on: Option<String>,
    /// Folder for the charts
    #[arg(long, default_value = "target")]
    pictures: PathBuf,
}

/// Resources of the service at one moment.
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

/// The title of a figure, and how to get it from a sample.
type Figure = (&'static str, fn(&Sample) -> f64);
const FIGURES: [Figure; 4] = [
    ("resident memory, MiB", |sample| sample.memory),
    ("file descriptors", |sample| sample.descriptors),
    ("threads", |sample| sample.threads),
    ("age of the oldest mail that waits, s", |sample| sample.queue_age),
];

impl Soak {
    /// Runs the measurement. Returns whether nothing grew.
    ///
    /// # Panics
    /// If an answer was unexpected, or an acknowledged order is missing.
    pub fn run(&self, plan: &Plan, cluster: &Cluster) -> bool {
        let backends = Backend::ALL.into_iter().filter(|backend| {
            self.on.as_ref().is_none_or(|on| backend.name().to_lowercase().starts_with(on))
        });
        // Collects first, so that all databases are measured even if the first one fails.
        let flat: Vec<bool> =
            backends.map(|backend| self.on_backend(plan, backend, cluster)).collect();
        flat.iter().all(|flat| *flat)
    }

    fn on_backend(&self, plan: &Plan, backend: Backend, cluster: &Cluster) -> bool {
        let instance = Instance::new(&plan.binary(), backend, cluster);
        let key = instance.installation.issue_key(&[]);
        let service = instance.installation.start();
        let load = Load {
            address: &service.api,
            key: &key,
            stop: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
        };
        let (samples, answers) =
            load.while_sampling(|| sample(&service, Duration::from_secs_f64(self.minutes * 60.0)));
        service.wait_until_delivered();
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
        let chart = self.pictures.join(format!("soak-{}.svg", backend.name().to_lowercase()));
        chart::draw(&chart, "minutes", &panels);
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
                median(over(WARM_AFTER.min(end), (WARM_AFTER + SPAN).min(end))),
                median(over(end - SPAN, end)),
            );
            (title, warm, last, samples.iter().map(figure).fold(0.0, f64::max))
        });
        let columns = ["", "in minute 5", "in the last minute", "ratio", "most"];
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
            &format!("{}: {} minutes of mixed load, {answers:?}", backend.name(), self.minutes),
            &columns,
            &shown,
        );
        println!("\nEvery acknowledged order is in the database. Chart: {}", chart.display());
        if end < WARM_AFTER + 2.0 * SPAN {
            println!("Too short to detect growth.");
            return true;
        }
        let [memory, descriptors, threads, queue] = rows;
        // Allows for one or two connections or threads.
        let flat = memory.2 <= memory.1 * MAX_GROWTH
            && [descriptors, threads].iter().all(|row| row.2 <= row.1 * MAX_GROWTH + 2.0)
            && queue.3 <= MAX_QUEUE_AGE;
        println!("Flat after minute 5: {}.", if flat { "yes" } else { "no" });
        flat
    }
}

/// Takes a sample every second.
fn sample(service: &Service, length: Duration) -> Vec<Sample> {
    let started = Instant::now();
    let mut samples = Vec::new();
    while started.elapsed() < length {
        thread::sleep(Duration::from_secs(1));
        samples.push(Sample {
            at: started.elapsed().as_secs_f64(),
            memory: service.server().memory(),
            descriptors: service.server().descriptors(),
            threads: service.server().threads(),
            queue_age: service.metric("notary_orders_follow_up_oldest_age_seconds"),
        });
    }
    samples
}

/// Clients of all kinds.
struct Load<'a> {
    address: &'a str,
    key: &'a str,
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

/// Number of answers by kind of client and status.
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
            for _ in 0..REJECTIONS.1 {
                let mut request = Request::order("nok_wrong", false);
                clients.push((
                    "rejections",
                    scope.spawn(move || {
                        self.client(REJECTIONS.0, 401, |connection| {
                            send(connection, request.next())
                        })
                    }),
                ));
            }
            let disconnects: Vec<_> =
                (0..DISCONNECTS.1).map(|_| scope.spawn(|| self.disconnects())).collect();
            let samples = sample();
            self.stop.store(true, Ordering::Relaxed);
            let mut answers = Answers::new();
            for (kind, client) in clients {
                for (status, count) in client.join().unwrap() {
                    *answers.entry(kind).or_default().entry(status).or_default() += count;
                }
            }
            for client in disconnects {
                client.join().unwrap();
            }
            (samples, answers)
        })
    }

    /// Sends requests with random pauses, sometimes on a new connection. Returns the number of
    /// answers by status.
    ///
    /// # Panics
    /// If an answer is neither the expected one nor 503.
    fn client(
        &self,
        pause: Duration,
        expected: u16,
        mut send: impl FnMut(&mut Connection) -> u16,
    ) -> BTreeMap<u16, u64> {
        let (mut answers, mut random) = (BTreeMap::new(), fastrand::Rng::new());
        let mut connection = Connection::open(self.address).unwrap();
        while !self.stop.load(Ordering::Relaxed) {
            thread::sleep(pause.mul_f64(2.0 * random.f64()));
            // A rejected upload may have closed it.
            if expected != 201 || random.u8(..50) == 0 {
                connection = Connection::open(self.address).unwrap();
            }
            let status = send(&mut connection);
            // A pause of the machine causes a few 503; the table shows how many.
            assert!(status == expected || status == 503, "{status}");
            *answers.entry(status).or_default() += 1;
            self.acknowledged.fetch_add(u64::from(status == 201), Ordering::Relaxed);
        }
        answers
    }

    /// Opens connections and closes them in the middle of a head or a form.
    fn disconnects(&self) {
        let mut random = fastrand::Rng::new();
        while !self.stop.load(Ordering::Relaxed) {
            thread::sleep(DISCONNECTS.0.mul_f64(2.0 * random.f64()));
            let head = format!(
                "POST /api/order/create-with-documents HTTP/1.1\r\nHost: localhost\r\n\
                 Authorization: Bearer {}\r\n\
                 Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n\
                 --b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"deed.pdf\"\
                 \r\n\r\n%PDF-1.7\n",
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
