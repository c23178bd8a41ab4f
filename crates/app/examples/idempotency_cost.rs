//! Measures what an `Idempotency-Key` costs: orders per second of the release build with a key on every order and without, on SQLite and on
//! PostgreSQL, in alternating rounds of one run. With `BASELINE=PATH` of another build, also that one without keys, for what
//! the possibility costs who does not use it.
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

use test_servers::postgres::Cluster;

const CONNECTIONS: usize = 32;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(4);

/// Numbers that make file numbers and keys different.
static LAST: AtomicU64 = AtomicU64::new(0);

struct Service {
    child: Child,
    address: String,
    key: String,
    _data: tempfile::TempDir,
}

impl Service {
    fn start(binary: &Path, database: Option<&str>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let command = || {
            let mut command = Command::new(binary);
            command.arg("--data-dir").arg(data.path()).args(["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--rate-per-second=0", "--log-format=json"]);
            command.args(database.map(|url| format!("--database-url={url}"))).args(["--log-level=info"]);
            command
        };
        let issued = command().args(["keys", "issue", "--name", "measurement"]).output().expect("cargo build --release comes first");
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
        Self { child, address: event["api"].as_str().unwrap().to_owned(), key, _data: data }
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

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() {
    let release = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/notary-orders");
    let baseline = std::env::var_os("BASELINE").map(PathBuf::from);
    let cluster = Cluster::start(&["fsync=on", "synchronous_commit=on"]);
    for wiring in ["SQLite", "PostgreSQL"] {
        let (one, other) = (cluster.database(), cluster.database());
        let url = |url: String| (wiring == "PostgreSQL").then_some(url);
        let service = Service::start(&release, url(one.url()).as_deref());
        let before = baseline.as_ref().map(|binary| Service::start(binary, url(other.url()).as_deref()));
        let (mut without, mut with, mut baseline) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms up.
        for round in 0..=ROUNDS {
            let rates = (before.as_ref().map(|before| before.round(false)), service.round(false), service.round(true));
            if round > 0 {
                baseline.extend(rates.0);
                without.push(rates.1);
                with.push(rates.2);
            }
        }
        let (without, with) = (median(without), median(with));
        println!("{wiring}: {without:.0} orders/s without a key, {with:.0} with one; ratio {:.3}", with / without);
        if !baseline.is_empty() {
            let baseline = median(baseline);
            println!("{wiring}: {baseline:.0} orders/s of the other build; ratio {:.3}", without / baseline);
        }
    }
}
