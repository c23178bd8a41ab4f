//! Mails: how fast they leave, and how old they become while orders arrive.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use test_servers::postgres::Cluster;

use crate::{
    instance::{Backend, Instance, flush},
    load::{Expected, Load},
    relay::Relay,
    request::Request,
    schedule::Pace,
    service::Service,
    table::{self, Bound, TARGET_COLUMNS, short, target},
    trial::{CONNECTIONS, Plan},
    webhooks,
};

/// Time in which the orders are created whose mails are measured.
const FILL: Duration = Duration::from_secs(2);
/// Pause between two looks at the service.
const LOOK: Duration = Duration::from_millis(100);
/// Orders per second beside which mails leave. Each has [`RECIPIENTS`](Request::RECIPIENTS).
const ORDERS_PER_SECOND: f64 = 200.0;

/// What receives the mails.
#[derive(Clone, Copy)]
enum Receiver {
    /// A relay that takes this many milliseconds for a mail.
    Relay(u64),
    MailDrop,
}

impl Receiver {
    fn name(self) -> String {
        match self {
            Self::Relay(milliseconds) => format!("a relay of {milliseconds} ms"),
            Self::MailDrop => "the mail drop".to_owned(),
        }
    }
}

/// A running service with its receiver.
struct Mailing<'a> {
    // Dropped first: the service stops before its database is removed.
    service: Service,
    _instance: Instance<'a>,
    request: Request,
    relay: Option<Relay>,
}

impl<'a> Mailing<'a> {
    fn start(plan: &Plan, backend: Backend, cluster: &'a Cluster, receiver: Receiver) -> Self {
        flush(cluster);
        let instance = Instance::new(&plan.binary(), backend, cluster);
        let request = Request::order_with_recipients(&instance.installation.issue_key(&[]));
        let relay = match receiver {
            Receiver::Relay(milliseconds) => {
                Some(Relay::start(Duration::from_millis(milliseconds)))
            }
            Receiver::MailDrop => None,
        };
        let url = relay.as_ref().map(|relay| format!("--mail-url={}", relay.url()));
        let flags = ["--rate-per-second=0"].into_iter().chain(url.as_deref());
        let service = instance.installation.start_with(&flags.collect::<Vec<_>>());
        Self { _instance: instance, service, request, relay }
    }

    fn delivered(&self) -> f64 {
        match &self.relay {
            Some(relay) => relay.accepted() as f64,
            None => self.service.metric("notary_orders_mails_total{outcome=\"delivered\"}"),
        }
    }

    /// Creates orders, and returns their number.
    fn create(&self, pace: Pace, window: Duration) -> u64 {
        let load = Load {
            address: &self.service.api,
            request: self.request.clone(),
            expected: Expected::CREATED,
            connections: CONNECTIONS,
            pace,
            warmup: Duration::ZERO,
            window,
            seed: 0,
        };
        load.run(|| ()).0.expect_success().acknowledged
    }

    /// Returns the mails per second that leave while no orders arrive, and the CPU seconds of the
    /// service for 1,000 of them.
    fn rate(&self, plan: &Plan) -> (f64, f64) {
        self.create(Pace::Closed, FILL);
        thread::sleep(plan.warmup());
        let (began, cpu, before) =
            (Instant::now(), self.service.server().cpu_seconds(), self.delivered());
        while began.elapsed() < plan.window() && self.service.pending_mails() > 0.0 {
            thread::sleep(LOOK);
        }
        let mails = self.delivered() - before;
        let cpu = (self.service.server().cpu_seconds() - cpu) * 1000.0 / mails;
        (mails / began.elapsed().as_secs_f64(), cpu)
    }

    /// Returns the greatest age of a mail in seconds while orders arrive.
    fn greatest_age(&self, window: Duration) -> f64 {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let ages = scope.spawn(|| {
                let mut greatest = 0.0_f64;
                while !is_over.load(Ordering::Relaxed) {
                    let age = self.service.metric("notary_orders_follow_up_oldest_age_seconds");
                    greatest = greatest.max(age);
                    thread::sleep(LOOK);
                }
                greatest
            });
            let orders = self.create(Pace::Open(ORDERS_PER_SECOND), window);
            is_over.store(true, Ordering::Relaxed);
            self.service.wait_until_delivered();
            let mails = orders * Request::RECIPIENTS;
            assert!(self.delivered() >= mails as f64, "{orders} orders, fewer than {mails} mails");
            ages.join().unwrap()
        })
    }
}

/// Settings of the measurement.
#[derive(Debug, Args)]
pub struct Deliveries {
    /// Seconds in which orders arrive beside the mails, or beside receivers that hang
    #[arg(long, default_value_t = 60)]
    beside: u16,
    /// Measure webhooks instead of mails
    #[arg(long)]
    webhooks: bool,
}

impl Default for Deliveries {
    fn default() -> Self {
        Self { beside: 60, webhooks: false }
    }
}

impl Deliveries {
    /// Returns the measurement of webhooks.
    pub fn of_webhooks() -> Self {
        Self { webhooks: true, ..Self::default() }
    }

    /// Runs the measurement on both databases.
    pub fn run(&self, plan: &Plan, cluster: &Cluster) {
        let beside = Duration::from_secs(self.beside.into());
        if self.webhooks {
            webhooks::run(plan, cluster, beside);
        } else {
            Self::run_mails(plan, cluster, beside);
        }
    }

    fn run_mails(plan: &Plan, cluster: &Cluster, beside: Duration) {
        let (mut rows, mut targets) = (Vec::new(), Vec::new());
        for backend in Backend::ALL {
            let on = backend.name();
            for (receiver, least) in [
                (Receiver::Relay(300), 100.0),
                (Receiver::Relay(10), 1_000.0),
                (Receiver::MailDrop, 3_000.0),
            ] {
                let (rates, cpu): (Vec<f64>, Vec<f64>) = (0..plan.rounds)
                    .map(|_| {
                        let mailing = Mailing::start(plan, backend, cluster, receiver);
                        mailing.rate(plan)
                    })
                    .unzip();
                let label = format!("{on}, {}", receiver.name());
                let median = |figures: &[f64]| crate::latency::median(figures.iter().copied());
                rows.push(vec![label.clone(), short(median(&rates)), short(median(&cpu))]);
                let label = format!("mails/s, {label}");
                targets.push(target(&label, &rates, "", Bound::AtLeast(least)));
            }
            let mailing = Mailing::start(plan, backend, cluster, Receiver::Relay(10));
            let age = mailing.greatest_age(beside);
            drop(mailing);
            let label = format!(
                "{on}: oldest mail beside {ORDERS_PER_SECOND} orders/s with {} recipients",
                Request::RECIPIENTS
            );
            targets.push(target(&label, &[age], " s", Bound::AtMost(5.0)));
        }
        table::print("mails of a backlog", &["", "mails/s", "CPU s per 1,000 mails"], &rows);
        table::print("deliveries: targets", &TARGET_COLUMNS, &targets);
    }
}
