//! Killed at random moments under load, over and over: what was acknowledged is there, once and
//! whole, and nothing else is left.
//!
//! `CRASH_ROUNDS` says how often the service is killed, `CRASH_SEED` repeats the moments of a run;
//! `just crash` runs hundreds.

mod audit;
mod clients;

use std::{
    process::Stdio,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use contract_tests::fakes::ManualClock;
use domain::ports::Clock as _;
use fastrand::Rng;
use test_servers::postgres::Stop;
use tokio::task::block_in_place;

use crate::{
    crash::{
        audit::Audit,
        clients::{Answers, order_on_and_on},
    },
    harness::{TestApp, setting},
    service_process::{ServiceProcess, issue_key, notary_orders},
    wiring::Wiring,
};

/// Kills of the service in the short form.
const ROUNDS: u32 = 5;
const CLIENTS: usize = 8;
/// A repeat after a kill is told of its order, however long the machine took to start the service
/// again.
const FLAGS: &[&str] = &["--rate-per-second=0", "--duplicate-window-secs=86400"];
/// For the load to begin again.
const STARTED: Duration = Duration::from_secs(60);
/// For all mails that the kills left behind.
const DELIVERED: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
struct Kills {
    service: u32,
    while_starting: u32,
    database: u32,
    both: u32,
}

/// The service, which is killed and started again, and the database server, where it is a process
/// of its own.
struct Victims<'a> {
    wiring: &'a Wiring,
    answers: Arc<Answers>,
    moments: Rng,
    kills: Kills,
}

impl Victims<'_> {
    /// What happens until now happens under load.
    fn pause(&mut self, milliseconds: std::ops::Range<u64>) {
        thread::sleep(Duration::from_millis(self.moments.u64(milliseconds)));
    }

    fn start(&mut self) -> ServiceProcess {
        let service = ServiceProcess::start(self.wiring, FLAGS);
        self.answers.serve_at(&service.address);
        service
    }

    /// One kill of the service; in two of five rounds also one of the database server, at the same
    /// time or after.
    fn round(&mut self, at: u32, service: ServiceProcess) -> ServiceProcess {
        let (begun, patience) = (self.answers.acknowledged().len(), Instant::now() + STARTED);
        while self.answers.acknowledged().len() < begun + CLIENTS {
            assert!(Instant::now() < patience, "no orders are acknowledged: {}", self.answers);
            thread::sleep(Duration::from_millis(1));
        }
        self.pause(0..300);
        let server = self.wiring.own_database_server();
        let (at_once, afterwards) =
            (server.filter(|_| at % 5 == 3), server.filter(|_| at % 5 == 4));
        if let Some(database) = at_once {
            database.stop(Stop::Kill);
            self.kills.both += 1;
        }
        service.kill();
        self.kills.service += 1;
        if let Some(database) = at_once {
            database.resume_after_stop();
        }
        if self.moments.u8(..6) == 0 {
            let mut starting = notary_orders(self.wiring, FLAGS)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            self.pause(0..150);
            starting.kill().unwrap();
            starting.wait().unwrap();
            self.kills.while_starting += 1;
        }
        let service = self.start();
        if let Some(database) = afterwards {
            self.pause(20..200);
            database.stop(Stop::Kill);
            self.pause(0..500);
            database.resume_after_stop();
            self.kills.database += 1;
        }
        service
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_every_kill_once_and_whole() {
    let (rounds, seed) =
        (setting("CRASH_ROUNDS", ROUNDS), setting("CRASH_SEED", fastrand::u64(..)));
    println!("CRASH_ROUNDS={rounds} CRASH_SEED={seed}");
    let wiring = Wiring::with_a_database_server();
    let answers = Arc::new(Answers::default());
    let mut victims = Victims {
        wiring: &wiring,
        answers: Arc::clone(&answers),
        moments: Rng::with_seed(seed),
        kills: Kills::default(),
    };
    let mut service = block_in_place(|| victims.start());
    answers.know_key(issue_key(&wiring));
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| tokio::spawn(order_on_and_on(Arc::clone(&answers)))).collect();
    for at in 0..rounds {
        service = block_in_place(|| victims.round(at, service));
    }
    answers.stop();
    for client in clients {
        client.await.unwrap();
    }
    service.kill();
    let kills = victims.kills;

    // Nothing is let go of before its time, and all is then.
    let orphans = Audit::of(&wiring, &answers).orphans();
    let clock = Arc::new(ManualClock::default());
    clock.advance(app::SystemClock.now() + time::Duration::hours(2) - clock.now());
    let app = TestApp::start_on(wiring, clock, FLAGS, Some(answers.key())).await;
    answers.serve_at(&app.address().to_string());
    answers.settle().await;
    // What a busy machine refused of these is let go of in its turn, too.
    app.clock.advance(time::Duration::hours(2));
    let app = app.restart(FLAGS).await;
    let patience = Instant::now() + DELIVERED;
    while app.rows("deliveries") + app.rows("uploads") > 0 {
        assert!(
            Instant::now() < patience,
            "{} mails and {} uploads are left",
            app.rows("deliveries"),
            app.rows("uploads")
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    app.assert_spool_empty();

    let audit = Audit::of(&app.wiring, &answers);
    println!(
        "{kills:?}\n{answers}\n{audit}{orphans} objects without an order before the sweeper's age had passed"
    );
    audit.assert_all_kept();
}
