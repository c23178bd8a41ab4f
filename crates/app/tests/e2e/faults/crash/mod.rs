//! Kills the service at random moments under load. Each acknowledged order must then exist once and
//! complete, with each acknowledged step of both sides once, and nothing else may be left. The receiver must have
//! got each webhook. Each news of an order was told to each of its addresses, by one mail that was composed once.
//!
//! `CRASH_ROUNDS` is the number of kills, `CRASH_SEED` repeats the moments of an earlier run.
//! `just crash` runs hundreds of rounds.

mod audit;
pub mod clients;
mod steps;

use std::{
    collections::BTreeSet,
    process::Stdio,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use test_servers::{postgres::Stop, tools::is_nightly};
use tokio::task::block_in_place;

use crate::{
    faults::crash::{
        audit::Audit,
        clients::{Responses, start_clients, stop_clients},
        steps::{DISPATCHER, Step},
    },
    harness::service_process::{ServiceProcess, issue_key, notary_orders, run},
    harness::webhook_receiver::Receiver,
    harness::{TestApp, WEBHOOKS, clock_behind_system, setting},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    acknowledged_orders_survive_every_kill,
}

/// Default number of rounds, by day and at night.
const ROUNDS: [u32; 2] = [20, 50];
const CLIENTS: usize = 8;
/// The long duplicate window makes a repeat find its order even after a slow restart.
pub const FLAGS: &[&str] =
    &["--rate-per-second=0", "--duplicate-window-secs=86400", WEBHOOKS[0], WEBHOOKS[1]];
/// Time limit for the load to start again.
const START_TIMEOUT: Duration = Duration::from_secs(300);
/// Time limit for the delivery of all remaining mails.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(600);

/// Kills and restarts the service, and the database server if it is a separate process.
struct Killer<'a> {
    wiring: &'a Wiring,
    key: String,
    responses: Arc<Responses>,
    random: Rng,
}

impl Killer<'_> {
    /// Lets the load run for a random time.
    fn pause(&mut self, milliseconds: std::ops::Range<u64>) {
        thread::sleep(Duration::from_millis(self.random.u64(milliseconds)));
    }

    fn start(&mut self) -> ServiceProcess {
        let service = ServiceProcess::start(self.wiring, FLAGS).with_key(self.key.clone());
        self.responses.set_service(&service);
        service
    }

    /// Kills the service once. In two of five rounds also kills the database server, at the same
    /// time or after the restart.
    fn round(&mut self, at: u32, mut service: ServiceProcess) -> ServiceProcess {
        let (before, deadline) =
            (self.responses.acknowledged().len(), Instant::now() + START_TIMEOUT);
        while self.responses.acknowledged().len() < before + CLIENTS {
            service.assert_running();
            assert!(Instant::now() < deadline, "no orders are acknowledged: {}", self.responses);
            thread::sleep(Duration::from_millis(1));
        }
        self.pause(0..300);
        let server = self.wiring.own_database_server();
        let (together, afterwards) =
            (server.filter(|_| at % 5 == 3), server.filter(|_| at % 5 == 4));
        if let Some(database) = together {
            database.stop(Stop::Kill);
        }
        service.kill();
        if let Some(database) = together {
            database.resume_after_stop();
        }
        if self.random.u8(..6) == 0 {
            let mut starting = notary_orders(self.wiring, FLAGS)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            self.pause(0..150);
            starting.kill().unwrap();
            starting.wait().unwrap();
        }
        let service = self.start();
        if let Some(database) = afterwards {
            self.pause(20..200);
            database.stop(Stop::Kill);
            self.pause(0..500);
            database.resume_after_stop();
        }
        service
    }
}

async fn acknowledged_orders_survive_every_kill(kind: Kind) {
    let (rounds, seed) = (
        setting("CRASH_ROUNDS", ROUNDS[usize::from(is_nightly())]),
        setting("CRASH_SEED", fastrand::u64(..)),
    );
    println!("CRASH_ROUNDS={rounds} CRASH_SEED={seed}");
    let wiring = kind.wiring_with_a_database_server();
    let responses = Arc::new(Responses::default());
    let receiver = Receiver::start();
    let events = Step::EVENTS.map(|event| format!("--event={event}"));
    let events = events.each_ref().map(String::as_str);
    let url = format!("--url={}", receiver.url());
    let endpoint = ["webhooks", "create", "--service=42", &url];
    run(&wiring, &[&endpoint[..], &events, &WEBHOOKS].concat());
    let email = format!("--email={DISPATCHER}");
    run(&wiring, &["services", "add", "42", "--name=Signings", &email]);
    let mut killer = Killer {
        wiring: &wiring,
        key: issue_key(&wiring),
        responses: Arc::clone(&responses),
        random: Rng::with_seed(seed),
    };
    let key = run(&wiring, &["keys", "issue", "--name=service", "--for-service=42"]);
    responses.service_key.set(key.trim().to_owned()).unwrap();
    let mut service = block_in_place(|| killer.start());
    let clients = start_clients(&responses, CLIENTS);
    for at in 0..rounds {
        service = block_in_place(|| killer.round(at, service));
    }
    stop_clients(&responses, clients).await;
    service.kill();
    let app = assert_consistent(wiring, &responses).await;
    assert_each_webhook_arrived(&app, &receiver).await;
}

/// Waits until no webhook is pending. Each was received at least once. A kill repeats those in progress.
async fn assert_each_webhook_arrived(app: &TestApp, receiver: &Receiver) {
    let pending = "SELECT count(*) FROM webhook_deliveries WHERE delivered_at IS NULL";
    let deadline = Instant::now() + DELIVERY_TIMEOUT;
    while app.wiring.lines(pending) != ["0"] {
        assert!(Instant::now() < deadline, "{:?} webhooks are pending", app.wiring.lines(pending));
        app.clock.advance(time::Duration::milliseconds(100));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let arrived = receiver.received();
    let composed = app.wiring.lines("SELECT 'msg_' || message_key FROM webhook_deliveries");
    let repeated = arrived.values().sum::<usize>() - arrived.len();
    println!("{} webhooks were received, {repeated} requests were repeats", arrived.len());
    let composed: BTreeSet<_> = composed.into_iter().collect();
    assert_eq!(arrived.into_keys().collect::<BTreeSet<_>>(), composed);
}

/// Settles every request, and compares the stores with the responses.
pub async fn assert_consistent(wiring: Wiring, responses: &Responses) -> TestApp {
    // Restarts with a clock past the age at which the sweeper removes objects without an order.
    let before = Audit::of(&wiring, responses);
    before.assert_withdrawn();
    let orphans = before.orphans();
    let clock = clock_behind_system(-time::Duration::hours(2));
    let app = TestApp::start_on(wiring, clock, FLAGS, Some(responses.service().key)).await;
    responses.set_service(&app);
    responses.settle().await;
    // Requests that failed while they settled may have left objects; these are swept as well.
    app.clock.advance(time::Duration::hours(2));
    app.store_a_use().await;
    let app = app.restart(FLAGS).await;
    let deadline = Instant::now() + DELIVERY_TIMEOUT;
    while app.pending_mails() + app.rows("uploads") > 0 {
        let left = (app.pending_mails(), app.rows("uploads"));
        assert!(Instant::now() < deadline, "{left:?} mails and uploads are left");
        // A mail that failed for now, such as of an order that was being changed, is due some seconds later. The
        // clock of the test would never reach that instant.
        app.clock.advance(time::Duration::milliseconds(100));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    app.assert_spool_empty();

    let mut audit = Audit::of(&app.wiring, responses);
    audit.read(&app, responses).await;
    println!("{responses}\n{audit}{orphans} objects without an order before they were swept");
    audit.assert_consistent();
    app
}
