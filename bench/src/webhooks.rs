//! Webhooks: how fast they leave, how late they are beside receivers that hang, and what they cost
//! the orders.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use test_servers::postgres::Cluster;

use crate::{
    http::Connection,
    instance::{Backend, Instance, flush},
    latency::median,
    load::{Expected, Load},
    receiver::Receiver,
    request::Request,
    schedule::Pace,
    service::Service,
    table::{self, Bound, TARGET_COLUMNS, short, target},
    trial::{CONNECTIONS, Plan, alternate, ratios},
};

/// With PostgreSQL, the service makes no key itself.
const SECRETS_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// Most endpoints of a client.
const ENDPOINTS_OF_A_CLIENT: usize = 10;
/// Time in which the orders are created whose webhooks are measured.
const FILL: Duration = Duration::from_secs(2);
/// Orders per second of each client beside receivers that hang.
const ORDERS_PER_SECOND: f64 = 2.0;
/// Time after the last order in which all webhooks must arrive.
const LONGEST_DELAY: Duration = Duration::from_mins(1);
/// Pause between two looks at the receiver.
const LOOK: Duration = Duration::from_millis(20);
/// Scopes of a client that creates orders and endpoints.
const SCOPES: [&str; 2] = ["--scope=orders:create", "--scope=webhooks:manage"];

/// A running service with its receiver and clients.
struct Hooking<'a> {
    // Dropped first: the service stops before its database is removed.
    service: Service,
    _instance: Instance<'a>,
    receiver: Receiver,
    clients: Vec<Request>,
    /// Endpoints of each client that answer.
    answering: u64,
}

impl<'a> Hooking<'a> {
    /// Starts a service with endpoints, of which some hang. The keys are for tests, so that their
    /// orders cause no mails, or real ones.
    fn start(
        plan: &Plan,
        backend: Backend,
        cluster: &'a Cluster,
        [endpoints, hanging]: [usize; 2],
        is_test: bool,
    ) -> Self {
        flush(cluster);
        let instance = Instance::new(&plan.binary(), backend, cluster);
        let clients = endpoints.div_ceil(ENDPOINTS_OF_A_CLIENT).max(1);
        let kind: Vec<_> = SCOPES.into_iter().chain(is_test.then_some("--test")).collect();
        let keys: Vec<_> = (0..clients).map(|_| instance.installation.issue_key(&kind)).collect();
        let secrets_key = format!("--secrets-key={SECRETS_KEY}");
        let flags = ["--rate-per-second=0", "--webhook-allow=127.0.0.1", &secrets_key];
        let service = instance.installation.start_with(&flags);
        let receiver = Receiver::start();
        for number in 0..endpoints {
            // Every client has as many endpoints that hang.
            let (key, round) = (&keys[number % clients], number / clients);
            let hangs = round < hanging / clients;
            let url = if hangs { receiver.hanging_url(number) } else { receiver.url(number) };
            create_endpoint(&service, key, &url);
        }
        let clients: Vec<_> = keys.iter().map(|key| Request::order(key, false)).collect();
        let answering = ((endpoints - hanging) / clients.len()) as u64;
        Self { _instance: instance, service, receiver, clients, answering }
    }

    fn load(&self, client: usize, connections: usize, pace: Pace, window: Duration) -> Load<'_> {
        Load {
            address: &self.service.api,
            request: self.clients[client].clone(),
            expected: Expected::CREATED,
            connections,
            pace,
            warmup: Duration::ZERO,
            window,
            seed: client as u64,
        }
    }

    /// Returns the webhooks per second that leave while no orders arrive, and the CPU seconds of
    /// the service for 1,000 of them.
    fn rate(&self, plan: &Plan) -> (f64, f64) {
        let window = FILL / self.clients.len() as u32;
        let orders: u64 = (0..self.clients.len())
            .map(|client| self.load(client, CONNECTIONS, Pace::Closed, window))
            .map(|load| load.run(|| ()).0.expect_success().acknowledged)
            .sum();
        let all = orders * self.answering;
        let (began, cpu, before) =
            (Instant::now(), self.service.server().cpu_seconds(), self.receiver.answered());
        while began.elapsed() < plan.window() && self.receiver.answered() < all {
            thread::sleep(LOOK);
        }
        let webhooks = (self.receiver.answered() - before) as f64;
        let cpu = (self.service.server().cpu_seconds() - cpu) * 1000.0 / webhooks;
        (webhooks / began.elapsed().as_secs_f64(), cpu)
    }

    /// Returns the median and the greatest delay in milliseconds of the webhooks of all orders,
    /// which arrive meanwhile.
    fn delays(&self, window: Duration) -> (f64, f64) {
        let orders: u64 = thread::scope(|scope| {
            let create = |client| {
                let load = self.load(client, 1, Pace::Open(ORDERS_PER_SECOND), window);
                scope.spawn(move || load.run(|| ()).0.expect_success().acknowledged)
            };
            let threads: Vec<_> = (0..self.clients.len()).map(create).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let (all, ended) = (orders * self.answering, Instant::now());
        while self.receiver.answered() < all {
            assert!(ended.elapsed() < LONGEST_DELAY, "not all {all} webhooks arrived");
            thread::sleep(LOOK);
        }
        let delays = self.receiver.delays();
        (delays.percentile(0.5), delays.percentile(1.0))
    }

    /// Returns the orders per second at full rate.
    fn orders(&self, plan: &Plan, seed: u64) -> f64 {
        let request = self.clients[0].clone();
        let load = plan.load(&self.service, request, CONNECTIONS, Pace::Closed, seed);
        load.run(|| ()).0.expect_success().rate()
    }
}

fn create_endpoint(service: &Service, key: &str, url: &str) {
    let body = json!({ "url": url }).to_string();
    let request = format!(
        "POST /api/webhooks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = Connection::open(&service.api).unwrap();
    connection.send(request.as_bytes()).unwrap();
    assert_eq!(connection.answer().unwrap().status, 201, "an endpoint was not created");
}

/// Runs the measurement on both databases. Orders arrive for the time `beside` next to receivers
/// that hang.
pub fn run(plan: &Plan, cluster: &Cluster, beside: Duration) {
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for backend in Backend::ALL {
        let on = backend.name();
        for (endpoints, name, least) in
            [(1, "1 endpoint", 1_000.0), (100, "100 endpoints", 3_000.0)]
        {
            let (rates, cpu): (Vec<f64>, Vec<f64>) = (0..plan.rounds)
                .map(|_| {
                    let hooking = Hooking::start(plan, backend, cluster, [endpoints, 0], true);
                    hooking.rate(plan)
                })
                .unzip();
            rows.push(vec![
                format!("{on}, {name}"),
                short(median(rates.clone())),
                short(median(cpu)),
            ]);
            let label = format!("webhooks/s, {on}, {name}");
            targets.push(target(&label, &rates, "", Bound::AtLeast(least)));
        }
        let hooking = Hooking::start(plan, backend, cluster, [100, 50], true);
        let (middle, greatest) = hooking.delays(beside);
        drop(hooking);
        let label = format!(
            "{on}: median delay of 50 endpoints beside 50 that hang (the greatest: {} ms)",
            short(greatest)
        );
        targets.push(target(&label, &[middle], " ms", Bound::AtMost(1_000.0)));
        targets.push(cost(plan, backend, cluster));
    }
    table::print("webhooks of a backlog", &["", "webhooks/s", "CPU s per 1,000 webhooks"], &rows);
    table::print("webhooks: targets", &TARGET_COLUMNS, &targets);
}

/// Compares orders that cause webhooks and mails with orders that cause neither.
fn cost(plan: &Plan, backend: Backend, cluster: &Cluster) -> Vec<String> {
    let orders = |endpoints, is_test, seed| {
        let hooking = Hooking::start(plan, backend, cluster, [endpoints, 0], is_test);
        hooking.orders(plan, seed)
    };
    let rounds =
        alternate(plan.rounds, &[&|seed| orders(1, false, seed), &|seed| orders(0, true, seed)]);
    let ratios = ratios(&rounds[0], &rounds[1], |rate| *rate, |rate| *rate);
    let label = format!("{}: orders/s with webhooks and mails ÷ without both", backend.name());
    target(&label, &ratios, "", Bound::AtLeast(0.7))
}
