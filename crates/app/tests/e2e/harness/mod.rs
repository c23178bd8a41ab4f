//! Starts a service for one test, and talks to it.

pub mod api;
pub mod documents;
pub mod markers;
pub mod page;
pub mod raw;
pub mod requests;
pub mod scripted_server;
pub mod service_process;
pub mod small_disk;
pub mod webhook_receiver;

use std::{
    fmt::Debug,
    ops::Deref,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use app::serve::{Service, Starting};
use clap::Parser;
use contract_tests::fakes::ManualClock;
use domain::{
    order::{OrderId, SigningServiceId, StoredOrder},
    ports::{Clock as _, MaybeErased},
    use_cases::keys::manage_keys::KeyTerms,
};
use operator::{
    Machine, OsEntropy,
    adapters::Storage,
    settings::{Settings, TimeLimits},
};

pub use self::{api::*, requests::*};
use crate::wiring::{Kind, Wiring};

/// Counts the mails that are not delivered yet. One statement, because a worker moves mails from one
/// table to the other.
pub const PENDING: &str =
    "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM deliveries)";
/// Opens receivers of webhooks on this machine, and encrypts the secrets of webhooks.
pub const WEBHOOKS: [&str; 2] =
    ["--webhook-allow=127.0.0.1", "--secrets-key=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="];

/// Has mails about changed fields, documents and notes leave at once: most tests do not wait for more news.
pub const AT_ONCE: &str = "--mail-settle-secs=0";
/// Bars file numbers for longer than any test takes.
pub const LONG_WINDOW: &str = "--duplicate-window-secs=86400";
/// Ends a test that would wait for ever. No machine is so slow that it needs this long.
pub const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

/// A service in the process of the test.
pub struct TestApp {
    service: Service,
    storage: Storage,
    machine: Machine,
    pub clock: Arc<ManualClock>,
    pub wiring: Wiring,
    api: Api,
}

impl Deref for TestApp {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl TestApp {
    /// Starts a service on the embedded default, with the default settings but without a rate limit.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a service on the embedded default with these flags.
    pub async fn start_with(flags: &[&str]) -> Self {
        Kind::Embedded.app_with(flags).await
    }

    /// Starts a service on existing stores. Issues an API key if none is given. Its clock is also that of the
    /// database server.
    pub async fn start_on(
        wiring: Wiring,
        clock: Arc<ManualClock>,
        flags: &[&str],
        key: Option<String>,
    ) -> Self {
        let database_time = Arc::clone(&clock);
        Self::start_beside(wiring, clock, database_time, flags, key).await
    }

    /// Starts a service whose clock is not that of the database server.
    pub async fn start_beside(
        wiring: Wiring,
        clock: Arc<ManualClock>,
        database_time: Arc<ManualClock>,
        flags: &[&str],
        key: Option<String>,
    ) -> Self {
        let unlimited = ["--rate-per-second=0", "--reads-rate-per-second=0"];
        let settings = settings(&wiring, &unlimited, flags);
        let machine = Machine {
            clock: Arc::clone(&clock) as _,
            entropy: Arc::new(OsEntropy),
            traces: None,
            // A file has no clock.
            database_time: wiring.has_server().then_some(database_time as _),
        };
        let starting = Starting::listen(&settings, &machine).await.unwrap();
        let storage = Storage::open(&settings).await.unwrap();
        let service = starting.start(&settings, &machine, storage.clone()).await.unwrap();
        let known = key.clone().unwrap_or_default();
        let api = Api::new(client(), &known, service.api_address, service.ops_address);
        let mut app = Self { service, storage, machine, clock, wiring, api };
        if key.is_none() {
            app.api.key = app.issue_key(None).await;
        }
        app
    }

    /// Stops the service gracefully and starts it again on the same stores.
    pub async fn restart(self, flags: &[&str]) -> Self {
        let (clock, key) = (Arc::clone(&self.clock), self.key.clone());
        Self::start_on(self.stop().await, clock, flags, Some(key)).await
    }

    pub async fn stop(self) -> Wiring {
        let Self { service, wiring, api, .. } = self;
        drop(api);
        service.stop().await;
        wiring
    }

    /// Stores something now. A start long after the newest stored instant erases nothing for an hour.
    pub async fn store_a_use(&self) {
        self.issue_key(None).await;
    }

    pub async fn issue_key(&self, signing_service: Option<i64>) -> String {
        let signing_service = signing_service.map(SigningServiceId);
        self.issue_key_on(KeyTerms { signing_service, ..KeyTerms::default() }).await
    }

    pub async fn issue_key_on(&self, terms: KeyTerms) -> String {
        let terms = KeyTerms { name: "test".to_owned(), ..terms };
        let issued = self.storage.manage_keys(&self.machine).issue(terms, "tests").await;
        issued.unwrap().1.expose().to_owned()
    }

    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Lists the spool files of unfinished uploads.
    pub fn spooled(&self) -> Vec<PathBuf> {
        spooled(self.wiring.data())
    }

    /// Returns the content of every stored object.
    pub fn documents(&self) -> Vec<Vec<u8>> {
        self.wiring.objects().into_values().collect()
    }

    /// Returns an order that exists and is not erased.
    pub async fn stored_order(&self, id: OrderId) -> Option<StoredOrder> {
        self.storage().admin.order(id).await.unwrap().and_then(MaybeErased::whole)
    }

    pub fn rows(&self, table: &str) -> usize {
        self.wiring.rows(table)
    }

    pub fn pending_mails(&self) -> usize {
        self.wiring.pending_mails()
    }

    /// Asserts that there is no row, no object and no spool file.
    pub fn assert_untouched(&self) {
        for table in ["orders", "documents", "uploads", "events", "deliveries", "idempotency_keys"]
        {
            assert_eq!(self.rows(table), 0, "{table}");
        }
        assert_eq!(self.wiring.objects().len(), 0);
        self.assert_spool_empty();
    }

    pub fn assert_spool_empty(&self) {
        assert_eq!(self.spooled(), Vec::<PathBuf>::new());
    }

    /// Waits until exactly `count` mails are delivered, and returns them.
    pub async fn mails(&self, count: usize) -> Vec<String> {
        self.eventually_mailed(|| self.wiring.mails().len() >= count).await;
        let mails = self.wiring.mails();
        assert_eq!(mails.len(), count);
        mails
    }

    /// Waits until no mail waits.
    pub async fn mails_leave(&self) {
        self.eventually_mailed(|| self.pending_mails() == 0).await;
    }

    /// Waits until a condition about mails holds. After some seconds the clock goes on: a mail that meets a lock of its
    /// order is due again five seconds later.
    pub async fn eventually_mailed(&self, mut condition: impl FnMut() -> bool) {
        const STEP: Duration = Duration::from_secs(5);
        let mut next = Instant::now() + STEP;
        let mails = || {
            if Instant::now() > next {
                self.clock.advance(STEP.try_into().unwrap());
                next += STEP;
            }
            condition()
        };
        eventually(mails).await;
    }
}

/// Returns the settings of a wiring: flags of the caller replace these defaults.
pub fn settings(wiring: &Wiring, defaults: &[&str], flags: &[&str]) -> Settings {
    let data = format!("--data-dir={}", wiring.data().display());
    let overridden: Vec<&str> = flags.iter().filter_map(|flag| flag.split('=').next()).collect();
    let own = ["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", AT_ONCE, &data];
    let own = own.iter().chain(defaults).map(|&flag| flag.to_owned()).chain(wiring.flags());
    let own = own.filter(|flag| !overridden.contains(&flag.split('=').next().unwrap()));
    let all = ["notary-orders".to_owned()].into_iter().chain(own);
    let settings = Flags::parse_from(all.chain(flags.iter().map(|&flag| flag.to_owned()))).settings;
    Settings { environment: wiring.environment(), time_limits: of_a_slow_machine(), ..settings }
}

/// Returns five times the time limits of the service: what a test proves holds on a slow machine, too. The
/// tests of the limits themselves run the program.
fn of_a_slow_machine() -> TimeLimits {
    let TimeLimits { postgres, sqlite, mut documents, scanner, http } = TimeLimits::default();
    documents.request *= 5;
    documents.abort *= 5;
    documents.check *= 5;
    TimeLimits {
        postgres: adapter_postgres::TimeLimits {
            connect: 5 * postgres.connect,
            session_check: 5 * postgres.session_check,
            acquire: 5 * postgres.acquire,
            statement: 5 * postgres.statement,
            call: 5 * postgres.call,
            idle_transaction: 5 * postgres.idle_transaction,
            lock: 5 * postgres.lock,
            batch: 5 * postgres.batch,
            fast_rejection: 5 * postgres.fast_rejection,
        },
        sqlite: adapter_sqlite::TimeLimits {
            lock: 5 * sqlite.lock,
            call: 5 * sqlite.call,
            log: 5 * sqlite.log,
        },
        documents,
        // The contract of the port limits a scan.
        scanner: adapter_clamd::TimeLimits { check: 5 * scanner.check, ..scanner },
        http: adapter_http::TimeLimits { check: 5 * http.check },
    }
}

/// Returns a clock that stands still, so long behind that of the system, which commands and programs have.
pub fn clock_behind_system(by: time::Duration) -> Arc<ManualClock> {
    let clock = ManualClock::default();
    clock.set(operator::SystemClock.now() - clock.now() - by);
    Arc::new(clock)
}

/// Lists the spool files of unfinished uploads in a data directory.
pub fn spooled(data: &Path) -> Vec<PathBuf> {
    files_below(&data.join("spool")).into_iter().filter(|path| !path.ends_with("lock")).collect()
}

/// Lists all files below a folder, sorted.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Waits up to a minute until a condition holds.
pub async fn eventually(mut condition: impl FnMut() -> bool) {
    eventually_async(async || condition()).await;
}

/// Waits up to a minute until an asynchronous condition holds.
pub async fn eventually_async(mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(Instant::now() < deadline, "the condition did not hold within a minute");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the output of a future, which must not take for ever.
pub async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// Reads a number from an environment variable.
pub fn setting<T: FromStr<Err: Debug>>(name: &str, default: T) -> T {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
