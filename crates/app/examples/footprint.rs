//! Measures the release build as a process: time until it is ready, memory when idle, and memory while 64 clients
//! slowly upload 20 documents of 10 MB each (12.8 GB through the disk; takes about a minute and needs the room).
//!
//! ```sh
//! cargo build --release && cargo run --release --example footprint
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a measurement that cannot go on has failed")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const CLIENTS: usize = 64;
const DOCUMENTS: usize = 20;
const DOCUMENT_BYTES: usize = 10_000_000;
const CHUNK: usize = 64 * 1024;
/// Pause after each chunk: about 4 MB/s for each client.
const PAUSE: Duration = Duration::from_millis(15);

struct Server {
    child: Child,
    address: String,
    key: String,
}

impl Server {
    fn start(data: &Path) -> (Self, Duration) {
        let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/notary-orders");
        let mut command = Command::new(binary);
        command.arg("--data-dir").arg(data).args(["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--rate-per-second=0", "--log-format=json"]);
        let started = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cargo build --release comes first");
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("\"listening\"") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the service did not start");
        }
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        let ops = event["ops"].as_str().unwrap();
        while !get(ops, "/readyz").starts_with("HTTP/1.1 200") {}
        let ready = started.elapsed();
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let key =
            BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).find_map(|line| line.strip_prefix("export API_KEY=").map(str::to_owned));
        (Self { child, address: event["api"].as_str().unwrap().to_owned(), key: key.unwrap() }, ready)
    }

    /// A figure of `/proc/PID/status`, in KiB.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn upload(address: &str, key: &str, client: usize) {
    let details = format!(
        r#"{{"fileNumber":"F-{client}","signingDate":"2026-12-01","signingTimeType":"anytime","timeZoneId":"America/Chicago","propertyAddress":"1 Main St","signingType":"Purchase","signerName":"Jane Doe","signerPhone":"5550100199","signerEmail":"jane@example.com","city":"Dallas","state":"TX","zipcode":"75201"}}"#
    );
    let texts = [
        ("signingContactsFormData", r#"{"orderContactEmail":"escrow@title.example.com"}"#),
        ("signingDetailsFormData", &details),
        ("signingServiceId", "42"),
        ("requestedBy", r#"{"userId":1}"#),
    ];
    let texts = texts.map(|(name, text)| format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")).concat();
    let part = |at: usize| format!("--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"{at:02}.pdf\"\r\n\r\n");
    let end = "--b--\r\n";
    let length = texts.len() + DOCUMENTS * (part(0).len() + DOCUMENT_BYTES + 2) + end.len();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /api/order/create-with-documents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + &texts).as_bytes()).unwrap();
    let mut document = vec![b'x'; DOCUMENT_BYTES];
    document[..8].copy_from_slice(b"%PDF-1.7");
    for at in 0..DOCUMENTS {
        stream.write_all(part(at).as_bytes()).unwrap();
        for chunk in document.chunks(CHUNK) {
            stream.write_all(chunk).unwrap();
            thread::sleep(PAUSE);
        }
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(end.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

fn main() {
    let mut starts: Vec<u128> = (0..7).map(|_| Server::start(tempfile::tempdir().unwrap().path()).1.as_millis()).collect();
    starts.sort_unstable();
    println!("ready after the start, 7 fresh starts: median {} ms, slowest {} ms", starts[3], starts[6]);

    let data = tempfile::tempdir().unwrap();
    let (server, _) = Server::start(data.path());
    thread::sleep(Duration::from_secs(3));
    let idle = server.status("VmRSS:");
    println!("idle: {:.1} MiB", mebibytes(idle));
    let started = Instant::now();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, move || upload(&server.address, &server.key, client)).unwrap();
        }
    });
    let peak = server.status("VmHWM:");
    println!(
        "{CLIENTS} uploads of {DOCUMENTS} x {DOCUMENT_BYTES} bytes in {:.0} s: peak {:.1} MiB, {:.1} MiB over idle",
        started.elapsed().as_secs_f64(),
        mebibytes(peak),
        mebibytes(peak - idle)
    );
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}
