//! The API with a certificate of its own, as OpenSSL and other clients see it.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use reqwest::{Certificate, Method};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tempfile::TempDir;
use test_servers::certificates::Certificates;
use tokio::task::block_in_place;

use crate::{
    harness::service_process::ServiceProcess,
    harness::{
        Api, CREATE, PATIENCE, client_builder, created, eventually, eventually_async, patiently,
    },
    wiring::Wiring,
};

const NAMES: &[&str] = &["127.0.0.1", "localhost"];
const OPEN: &str = "notary_orders_open_connections";
const FAILURES: &str = "notary_orders_tls_reload_failures_total";

/// A service with TLS. Its files are in a folder behind a symbolic link, as Kubernetes has them.
struct Service {
    process: ServiceProcess,
    folder: TempDir,
    root: String,
    wiring: Wiring,
}

type TlsConnection = StreamOwned<ClientConnection, TcpStream>;

impl Service {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(flags: &[&str]) -> Self {
        let certificates = Certificates::issue("Root", NAMES);
        let folder = tempfile::tempdir().unwrap();
        swap(folder.path(), "0", &certificates);
        let wiring = Wiring::embedded();
        let files = tls_flags(folder.path());
        let flags = [&[files[0].as_str(), files[1].as_str()], flags].concat();
        let process = ServiceProcess::keyed(&wiring, &flags);
        Self { process, folder, root: certificates.root, wiring }
    }

    /// Returns a client that trusts these roots.
    fn client(&self, roots: &[&str], is_pooled: bool) -> Api {
        let mut builder = client_builder();
        for root in roots {
            builder = builder.add_root_certificate(Certificate::from_pem(root.as_bytes()).unwrap());
        }
        let idle = if is_pooled { usize::MAX } else { 0 };
        let client = builder.pool_max_idle_per_host(idle).build().unwrap();
        let base_url = format!("https://{}", self.process.address);
        Api { client, base_url, ..(*self.process).clone() }
    }

    /// Returns a client of this service that keeps its connection.
    fn pooled(&self) -> Api {
        self.client(&[&self.root], true)
    }

    /// Returns a connection that has not begun its handshake.
    fn session(&self) -> ClientConnection {
        // Installs the provider of TLS.
        let _ = client_builder();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.root.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
    }

    fn connect(&self) -> TlsConnection {
        let mut connection = StreamOwned::new(self.session(), self.tcp());
        connection.flush().unwrap();
        connection
    }

    fn tcp(&self) -> TcpStream {
        let tcp = TcpStream::connect(self.process.address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp
    }

    /// Runs `openssl s_client`. Returns whether the handshake succeeded, and the output.
    fn openssl(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &self.process.address.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the suites of TLS 1.2 and before that the service accepts, of all that OpenSSL has.
    fn accepted_suites(&self) -> BTreeSet<String> {
        let all = Command::new("openssl")
            .args(["ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"])
            .output()
            .unwrap();
        let all = String::from_utf8(all.stdout).unwrap();
        assert!(all.contains("AES128-SHA:") && all.contains("ADH-AES128-SHA"), "{all}");
        let mut offered: BTreeSet<_> = all.trim().split(':').collect();
        let mut accepted = BTreeSet::new();
        // The service chooses one of all that are left, until it accepts none.
        loop {
            let cipher = offered
                .iter()
                .fold("@SECLEVEL=0".to_owned(), |list, suite| format!("{list}:{suite}"));
            let (succeeded, output) = self.openssl(&["-tls1_2", "-cipher", &cipher]);
            if !succeeded {
                assert!(output.contains("alert handshake failure"), "{output}");
                return accepted;
            }
            let chosen = output.split("Cipher is ").nth(1).unwrap().lines().next().unwrap();
            assert!(offered.remove(chosen), "{chosen}");
            accepted.insert(chosen.to_owned());
        }
    }
}

fn tls_flags(folder: &Path) -> [String; 2] {
    let file = |name| folder.join("..data").join(name).display().to_string();
    [format!("--tls-cert={}", file("tls.crt")), format!("--tls-key={}", file("tls.key"))]
}

/// Returns the metrics of a service with TLS.
pub async fn metrics() -> String {
    Service::start().process.ops("/metrics").await.1
}

/// Replaces the files by one atomic rename of a symbolic link.
fn swap(folder: &Path, version: &str, certificates: &Certificates) {
    let files = folder.join(version);
    fs::create_dir(&files).unwrap();
    fs::write(files.join("tls.crt"), certificates.cert_pem()).unwrap();
    fs::write(files.join("tls.key"), certificates.key_pem()).unwrap();
    symlink(&files, folder.join("..next")).unwrap();
    fs::rename(folder.join("..next"), folder.join("..data")).unwrap();
}

/// Sends a request on an open connection, and returns the status line.
fn get(connection: &mut TlsConnection) -> String {
    connection.write_all(b"GET /nowhere HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let mut bytes = [0; 4096];
        let read = connection.read(&mut bytes).unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..read]);
    }
    String::from_utf8(answer).unwrap().lines().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_created_over_tls() {
    let service = Service::start();
    let client = service.pooled();
    let response = client.order("F-1").await;
    // A browser would extend it to every port of the name, and the operators' port has no TLS.
    assert!(!response.headers().contains_key("strict-transport-security"));
    created(response).await;
    let page = client.get("/docs").await;
    assert!(page.status().is_success() && page.url().scheme() == "https");
    let expiry = "notary_orders_tls_certificate_expiry_timestamp_seconds";
    assert!(service.process.metric(expiry).await > 4_000_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_start_prints_line_that_verifies_the_certificate() {
    for names in [NAMES, &["*.example.com"]] {
        let certificates = Certificates::issue("Root", names);
        let folder = tempfile::Builder::new().prefix("it's ").tempdir().unwrap();
        swap(folder.path(), "0", &certificates);
        let flags = tls_flags(folder.path());
        let wiring = Wiring::embedded();
        let mut server = ServiceProcess::start(&wiring, &[&flags[0], &flags[1]]);
        let mut line = String::new();
        while !line.starts_with("curl ") {
            line.clear();
            assert_ne!(server.stdout.read_line(&mut line).unwrap(), 0);
        }
        assert!(line.contains(" https://") && !line.contains("--insecure"), "{line}");
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{line} {answer}");
        // Another certificate in this file is not trusted.
        let cert = folder.path().join("..data/tls.crt");
        fs::write(cert, Certificates::issue("Root", names).cert_pem()).unwrap();
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(60), "{line} {output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_current_protocols_are_spoken() {
    let service = Service::start();
    block_in_place(|| {
        for old in ["-tls1", "-tls1_1"] {
            let (succeeded, output) = service.openssl(&[old, "-cipher", "ALL:@SECLEVEL=0"]);
            assert!(!succeeded && output.contains(" alert "), "{output}");
        }
        for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
            let (succeeded, output) = service.openssl(&[version]);
            assert!(succeeded && output.contains(&format!("New, {name}")), "{output}");
            assert!(output.contains("Compression: NONE"), "{output}");
        }
        for suite in
            ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
        {
            let (succeeded, output) = service.openssl(&["-tls1_3", "-ciphersuites", suite]);
            assert!(succeeded && output.contains(suite), "{output}");
        }
        let (succeeded, output) = service.openssl(&["-tls1_3", "-groups", "ffdhe2048"]);
        assert!(!succeeded && output.contains("alert handshake failure"), "{output}");
        let (succeeded, output) = service.openssl(&["-alpn", "h2,http/1.1"]);
        assert!(succeeded && output.contains("ALPN protocol: http/1.1"), "{output}");
        let (succeeded, output) = service.openssl(&["-alpn", "h2"]);
        assert!(!succeeded && output.contains("no application protocol"), "{output}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn only_authenticated_encryption_is_spoken() {
    let service = Service::start();
    let suites = |key: &str| {
        ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"]
            .map(|cipher| format!("ECDHE-{key}-{cipher}"))
            .into()
    };
    block_in_place(|| {
        assert_eq!(service.accepted_suites(), suites("ECDSA"));
    });
    // The service notices the new files.
    let file = |name| service.folder.path().join("0").join(name).display().to_string();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"])
        .args(["-out", &file("tls.crt"), "-keyout", &file("tls.key")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    eventually(|| service.openssl(&["-tls1_2", "-cipher", "aRSA"]).0).await;
    block_in_place(|| assert_eq!(service.accepted_suites(), suites("RSA")));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_tls_gets_no_answer() {
    let service = Service::start();
    let request = service.process.order_on(CREATE, "F-1");
    assert!(request.send().await.is_err());
    assert_eq!(service.wiring.rows("orders"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_handshakes_end_and_hinder_no_order() {
    let service = Service::start_with(&["--rate-per-second=0"]);
    let mut hello = Vec::new();
    service.session().write_tls(&mut hello).unwrap();
    let starts: [&[u8]; 4] = [&[], &hello[..1], &hello[..100], &hello];
    let mut unfinished: Vec<TcpStream> = (0..200)
        .map(|at| {
            let mut connection = service.tcp();
            connection.write_all(starts[at % starts.len()]).unwrap();
            connection
        })
        .collect();
    let client = service.client(&[&service.root], false);
    for at in 0..20 {
        created(patiently(client.order(&format!("F-{at}"))).await).await;
    }
    block_in_place(|| {
        for connection in &mut unfinished {
            // Fails after the time limit of the connection.
            connection.read_to_end(&mut Vec::new()).unwrap();
        }
    });
    eventually_async(async || service.process.metric(OPEN).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_under_load_fails_no_request() {
    let service = Service::start_with(&["--rate-per-second=0"]);
    let next = Certificates::issue("Next", NAMES);
    let mut kept = service.connect();
    assert_eq!(get(&mut kept), "HTTP/1.1 404 Not Found");
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = [("K", true), ("N", false), ("O", false)]
        .into_iter()
        .map(|(name, is_pooled)| {
            let client = service.client(&[&service.root, &next.root], is_pooled);
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    created(client.order(&format!("F-{name}-{count}")).await).await;
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut unused = service.connect();
    swap(service.folder.path(), "1", &next);
    // A connection stays open for ten seconds without a request.
    assert_eq!(get(&mut unused), "HTTP/1.1 404 Not Found");
    let renewed = service.client(&[&next.root], false);
    eventually_async(async || renewed.request(Method::GET, "/").send().await.is_ok()).await;
    assert_eq!(get(&mut kept), "HTTP/1.1 404 Not Found");
    let before = service.client(&[&service.root], false);
    assert!(before.request(Method::GET, "/").send().await.is_err());
    stop.store(true, Ordering::Relaxed);
    for load in load {
        assert!(load.await.unwrap() > 0);
    }
    assert_eq!(service.process.metric(FAILURES).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_renewal_keeps_the_certificate_in_use() {
    let service = Service::start_with(&["--rate-per-second=0"]);
    let client = service.client(&[&service.root], false);
    let other = Certificates::issue("Other", NAMES);
    fs::write(service.folder.path().join("0/tls.crt"), other.cert_pem()).unwrap();
    let mut at = 0;
    eventually_async(async || {
        at += 1;
        created(client.order(&format!("F-{at}")).await).await;
        service.process.metric(FAILURES).await > 0
    })
    .await;
    created(client.order("F-last").await).await;
    let log = service.process.stop_and_read_log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("the one before stays")).collect();
    assert!(matches!(lines[..], [line] if line.contains("--tls-key")), "{log}");
    assert!(!log.contains("PRIVATE KEY"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_finishes_requests_and_announces_the_end() {
    let service = Service::start();
    let (mut kept, mut unused, mut busy) =
        (service.connect(), service.connect(), service.connect());
    assert_eq!(get(&mut kept), "HTTP/1.1 404 Not Found");
    let request = service.process.raw_order("F-1", "").into_bytes();
    let (first, rest) = request.split_at(request.len() - 100);
    busy.write_all(first).unwrap();
    eventually_async(async || service.process.metric(OPEN).await == 3).await;
    service.process.signal("-TERM");
    block_in_place(|| {
        // An end that is not announced is an error.
        assert_eq!(kept.read(&mut [0]).unwrap(), 0);
        assert_eq!(unused.read(&mut [0]).unwrap(), 0);
        busy.write_all(rest).unwrap();
        let mut answer = String::new();
        busy.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificate_is_a_warning_at_the_start() {
    let certificates = Certificates::issue_until("Root", NAMES, 2020);
    let folder = tempfile::tempdir().unwrap();
    swap(folder.path(), "0", &certificates);
    let flags = tls_flags(folder.path());
    let wiring = Wiring::embedded();
    let process = ServiceProcess::start(&wiring, &[&flags[0], &flags[1]]);
    let log = thread::spawn(move || process.stop_and_read_log()).join().unwrap();
    let warned = |line: &str| line.contains("has expired") && line.contains("--tls-cert");
    assert!(log.lines().any(warned), "{log}");
}
