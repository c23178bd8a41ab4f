//! Measures what an `Idempotency-Key` costs: orders per second of the release build with a key on every order and without, on
//! SQLite and on PostgreSQL, in alternating rounds of one run. They are test orders, so that no mails are delivered meanwhile.
//! With `BASELINE=PATH` of another build, also both builds without keys, for what the possibility costs who does not use it;
//! these are real orders, and each round waits until the mails of the one before are delivered.
//!
//! ```sh
//! cargo build --release && cargo run --release --example idempotency_cost
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a measurement that cannot go on has failed")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use test_servers::postgres::{Cluster, Database};

const CONNECTIONS: usize = 32;
const ROUNDS: usize = 8;
const ROUND: Duration = Duration::from_secs(3);

/// Numbers that make file numbers and keys different.
static LAST: AtomicU64 = AtomicU64::new(0);

struct Service {
    child: Child,
    address: String,
    ops_address: String,
    key: String,
    _data: tempfile::TempDir,
}

impl Service {
    fn start(binary: &Path, database: Option<&str>, kind: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let command = || {
            let mut command = Command::new(binary);
            command.arg("--data-dir").arg(data.path()).args(["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--rate-per-second=0", "--log-format=json"]);
            command.args(database.map(|url| format!("--database-url={url}"))).args(["--log-level=info"]);
            command
        };
        let issued = command().args(["keys", "issue", "--name", "measurement"]).args(kind).output().expect("cargo build --release comes first");
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("\"listening\"") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the service did not start");
        }
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let key = String::from_utf8(issued.stdout).unwrap().trim().to_owned();
        let address = |name: &str| event[name].as_str().unwrap().to_owned();
        Self { child, address: address("api"), ops_address: address("ops"), key, _data: data }
    }

    /// Orders per second of one round.
    fn round(&self, with_key: bool) -> f64 {
        let started = Instant::now();
        let created: u64 = thread::scope(|scope| {
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(|| self.create_until(started + ROUND, with_key))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let created = created as f64;
        created / started.elapsed().as_secs_f64()
    }

    /// Waits until no mail is left to deliver.
    fn settle(&self) {
        let pending = || {
            let mut stream = TcpStream::connect(&self.ops_address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            !answer.contains("\nnotary_orders_follow_ups_pending 0\n")
        };
        while pending() {
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn create_until(&self, end: Instant, with_key: bool) -> u64 {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut answer = vec![0; 4096];
        let mut created = 0;
        while Instant::now() < end {
            let number = LAST.fetch_add(1, Ordering::Relaxed);
            let idempotency_key = if with_key { format!("Idempotency-Key: \"8e03978e-40d5-43dd-bc93-{number:012x}\"\r\n") } else { String::new() };
            let body = order(number);
            let request = format!(
                "POST /api/order/create HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{idempotency_key}Content-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                self.key,
                body.len()
            );
            stream.write_all(request.as_bytes()).unwrap();
            // An answer is small and comes in one piece.
            let length = stream.read(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 201 ") && answer[..length].ends_with(b"}"), "{}", String::from_utf8_lossy(&answer[..length]));
            created += 1;
        }
        created
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn order(number: u64) -> String {
    format!(
        r#"{{"signingContactsFormData":{{"orderContactEmail":"escrow@title.example.com"}},"signingDetailsFormData":{{"fileNumber":"F-{number}","signingDate":"2026-12-01","signingTimeType":"at","specificTime":"14:30","timeZoneId":"America/Chicago","propertyAddress":"123 Main St, Dallas, TX 75201","signingType":"Refinance","signerName":"Jane Doe","signerPhone":"+1 555 010 0199","signerEmail":"jane.doe@example.com","city":"Dallas","state":"TX","zipcode":"75201"}},"signingServiceId":42,"requestedBy":{{"userId":1001}}}}"#
    )
}

/// Medians of two ways to create orders, which take turns in going first.
fn compare(one: impl Fn() -> f64, other: impl Fn() -> f64) -> (f64, f64) {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=ROUNDS {
        let (a, b) = if round % 2 == 0 {
            (one(), other())
        } else {
            let b = other();
            (one(), b)
        };
        if round > 0 {
            ones.push(a);
            others.push(b);
        }
    }
    (median(ones), median(others))
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() {
    let release = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/notary-orders");
    let cluster = Cluster::start(&["fsync=on", "synchronous_commit=on"]);
    for wiring in ["SQLite", "PostgreSQL"] {
        let database = || cluster.database();
        let start = |binary: &Path, database: &Database<'_>, kind: &[&str]| {
            let url = (wiring == "PostgreSQL").then(|| database.url());
            Service::start(binary, url.as_deref(), kind)
        };
        let own = database();
        let service = start(&release, &own, &["--test"]);
        let (without, with) = compare(|| service.round(false), || service.round(true));
        println!("{wiring}: {without:.0} orders/s without a key, {with:.0} with one; ratio {:.3}", with / without);
        drop(service);
        if let Some(baseline) = std::env::var_os("BASELINE").map(PathBuf::from) {
            let (own, other) = (database(), database());
            let (service, before) = (start(&release, &own, &[]), start(&baseline, &other, &[]));
            let settled = |service: &Service| {
                let rate = service.round(false);
                service.settle();
                rate
            };
            let (now, before) = compare(|| settled(&service), || settled(&before));
            println!("{wiring}: without keys {now:.0} orders/s, and {before:.0} of the other build; ratio {:.3}", now / before);
        }
    }
}
