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
    time::{Duration, Instant},
};

use reqwest::{Certificate, Client};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tempfile::TempDir;
use test_servers::certificates::Certificates;
use tokio::task::block_in_place;

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, client_builder, created, eventually_async, file, form,
        form_with_deed, order,
    },
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

const NAMES: &[&str] = &["127.0.0.1", "localhost"];
/// Time within which the service must notice changed files, or close a slow handshake. The rest
/// allows for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A service with TLS. Its files are in a folder behind a symbolic link, as Kubernetes has them.
struct Service {
    process: ServiceProcess,
    folder: TempDir,
    key: String,
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
        let wiring = Wiring::new();
        let files = tls_flags(folder.path());
        let flags = [&[files[0].as_str(), files[1].as_str()], flags].concat();
        let process = ServiceProcess::start(&wiring, &flags);
        let key = issue_key(&wiring);
        Self { process, folder, key, root: certificates.root, wiring }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.process.address)
    }

    /// Returns a client that trusts these roots.
    fn client(roots: &[&str], is_pooled: bool) -> Client {
        let mut builder = client_builder();
        for root in roots {
            builder = builder.add_root_certificate(Certificate::from_pem(root.as_bytes()).unwrap());
        }
        builder.pool_max_idle_per_host(if is_pooled { usize::MAX } else { 0 }).build().unwrap()
    }

    async fn create(&self, client: &Client, file_number: &str) {
        let request = client.post(self.url(CREATE)).bearer_auth(&self.key);
        created(request.json(&order(file_number)).send().await.unwrap()).await;
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
        let tcp = TcpStream::connect(&self.process.address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp
    }

    /// Returns the value of a metric.
    async fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = self.process.ops("/metrics").await;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }

    /// Runs `openssl s_client`. Returns whether the handshake succeeded, and the output.
    fn openssl(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &self.process.address])
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
    let client = Service::client(&[&service.root], true);
    service.create(&client, "F-1").await;
    let upload = client.post(service.url(CREATE_WITH_DOCUMENTS)).bearer_auth(&service.key);
    let response = upload.multipart(form_with_deed("F-2")).send().await.unwrap();
    // A browser would extend it to every port of the name, and the operators' port has no TLS.
    assert!(!response.headers().contains_key("strict-transport-security"));
    created(response).await;
    let page = client.get(service.url("/docs")).send().await.unwrap();
    assert!(page.status().is_success() && page.url().scheme() == "https");
    let expiry = "notary_orders_tls_certificate_expiry_timestamp_seconds";
    assert!(service.metric(expiry).await > 4_000_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_documents_are_whole_over_tls() {
    let service = Service::start();
    let client = Service::client(&[&service.root], true);
    let mut sent = Vec::new();
    for (number, length) in [3_000_000, 1_500_001].into_iter().enumerate() {
        let mut content: Vec<u8> = (0..=250).cycle().take(length).collect();
        content[..9].copy_from_slice(b"%PDF-1.7\n");
        let upload = client.post(service.url(CREATE_WITH_DOCUMENTS)).bearer_auth(&service.key);
        let form = form(&order(&format!("F-{number}")));
        let form = form.part("documents", file("deed.pdf", content.clone()));
        created(upload.multipart(form).send().await.unwrap()).await;
        sent.push(content);
    }
    let mut stored: Vec<_> = service.wiring.objects().into_values().collect();
    stored.sort();
    sent.sort();
    assert!(stored == sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_start_prints_line_that_verifies_the_certificate() {
    for names in [NAMES, &["*.example.com"]] {
        let certificates = Certificates::issue("Root", names);
        let folder = tempfile::Builder::new().prefix("it's ").tempdir().unwrap();
        swap(folder.path(), "0", &certificates);
        let flags = tls_flags(folder.path());
        let wiring = Wiring::new();
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
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"])
        .arg("-out")
        .arg(&cert)
        .arg("-keyout")
        .arg(&key)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    drop(service);
    let wiring = Wiring::new();
    let flags = [format!("--tls-cert={}", cert.display()), format!("--tls-key={}", key.display())];
    let process = ServiceProcess::start(&wiring, &[&flags[0], &flags[1]]);
    let service = Service { process, folder, key: String::new(), root: String::new(), wiring };
    block_in_place(|| assert_eq!(service.accepted_suites(), suites("RSA")));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_tls_gets_no_answer() {
    let service = Service::start();
    let url = service.process.url(CREATE);
    let response = client_builder().build().unwrap().post(url).json(&order("F-1")).send();
    assert!(response.await.is_err());
    assert_eq!(service.wiring.rows("orders"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_closed_and_hinders_no_order() {
    let service = Service::start();
    let client = Service::client(&[&service.root], true);
    let mut hello = Vec::new();
    service.session().write_tls(&mut hello).unwrap();
    let mut changed = hello.clone();
    changed[9] ^= 0xff;
    let garbage: &[&[u8]] = &[
        &[22; 4_000],
        &[22, 3, 1, 255, 255, 1, 0, 0],
        &[22, 3, 1, 0, 0, 22, 3, 1, 0, 0],
        &[23, 3, 3, 0, 5, 1, 2, 3, 4, 5],
        &[128, 46, 1, 0, 2, 0, 21, 0, 0],
        &[0; 100],
        &changed,
        &[&hello[..], b"GET / HTTP/1.1\r\n\r\n"].concat(),
        &[&hello[..], &hello[..]].concat(),
    ];
    for (at, bytes) in garbage.iter().enumerate() {
        let mut connection = service.tcp();
        connection.write_all(bytes).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        // The service may reset it.
        let _ = connection.read_to_end(&mut Vec::new());
        service.create(&client, &format!("F-{at}")).await;
    }
    // Three of them begin with a whole greeting.
    let [begun, completed] =
        ["begun", "completed"].map(|it| format!("notary_orders_tls_handshakes_{it}_total"));
    let failed =
        async || service.metric(&begun).await.saturating_sub(service.metric(&completed).await);
    eventually_async(async || (1..=3).contains(&failed().await)).await;
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
    let client = Service::client(&[&service.root], false);
    for at in 0..20 {
        let sent = Instant::now();
        service.create(&client, &format!("F-{at}")).await;
        assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
    }
    block_in_place(|| {
        for connection in &mut unfinished {
            // Fails after the time limit of the connection.
            connection.read_to_end(&mut Vec::new()).unwrap();
        }
    });
    eventually_async(async || service.metric("notary_orders_open_connections").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_under_load_fails_no_request() {
    let service = Arc::new(Service::start_with(&["--rate-per-second=0"]));
    let next = Certificates::issue("Next", NAMES);
    let (mut kept, mut unused) = (service.connect(), service.connect());
    assert_eq!(get(&mut kept), "HTTP/1.1 404 Not Found");
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = [("K", true), ("N", false), ("O", false)]
        .into_iter()
        .map(|(name, is_pooled)| {
            let client = Service::client(&[&service.root, &next.root], is_pooled);
            let (service, stop) = (Arc::clone(&service), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    service.create(&client, &format!("F-{name}-{count}")).await;
                    count += 1;
                }
                count
            })
        })
        .collect();
    swap(service.folder.path(), "1", &next);
    // A connection stays open for ten seconds without a request.
    assert_eq!(get(&mut unused), "HTTP/1.1 404 Not Found");
    let renewed = Service::client(&[&next.root], false);
    let began = Instant::now();
    while let Err(error) = renewed.get(service.url("/nowhere")).send().await {
        assert!(began.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(get(&mut kept), "HTTP/1.1 404 Not Found");
    let before = Service::client(&[&service.root], false);
    assert!(before.get(service.url("/nowhere")).send().await.is_err());
    stop.store(true, Ordering::Relaxed);
    for load in load {
        assert!(load.await.unwrap() > 0);
    }
    let failures = "notary_orders_tls_reload_failures_total";
    assert_eq!(service.metric(failures).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_renewal_keeps_the_certificate_in_use() {
    let service = Service::start();
    let client = Service::client(&[&service.root], false);
    let other = Certificates::issue("Other", NAMES);
    fs::write(service.folder.path().join("0/tls.crt"), other.cert_pem()).unwrap();
    let (failures, began) = ("notary_orders_tls_reload_failures_total", Instant::now());
    while service.metric(failures).await == 0 {
        assert!(began.elapsed() < PATIENCE);
        service.create(&client, &format!("F-{:?}", began.elapsed())).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    service.create(&client, "F-last").await;
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
    let body = order("F-1").to_string();
    let head = format!(
        "POST {CREATE} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        service.key,
        body.len()
    );
    busy.write_all(&[head.as_bytes(), &body.as_bytes()[..100]].concat()).unwrap();
    let ready = "notary_orders_open_connections";
    eventually_async(async || service.metric(ready).await == 3).await;
    service.process.signal("-TERM");
    block_in_place(|| {
        // An end that is not announced is an error.
        assert_eq!(kept.read(&mut [0]).unwrap(), 0);
        assert_eq!(unused.read(&mut [0]).unwrap(), 0);
        busy.write_all(&body.as_bytes()[100..]).unwrap();
        let mut answer = String::new();
        busy.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn early_rejection_is_readable() {
    let service = Service::start();
    let mut connection = service.connect();
    let head = format!(
        "POST {CREATE} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n",
        service.key
    );
    block_in_place(|| {
        connection.write_all(head.as_bytes()).unwrap();
        connection.write_all(&vec![b' '; 3_000_000]).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        assert!(answer.ends_with('}'), "{answer}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_head_over_tls_gets_408() {
    let service = Service::start();
    let mut connection = service.connect();
    connection.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut answer = String::new();
    block_in_place(|| connection.read_to_string(&mut answer)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn address_of_a_client_is_limited_over_tls() {
    let service = Service::start_with(&["--rate-per-second=1", "--rate-burst=2"]);
    let client = Service::client(&[&service.root], true);
    let mut statuses = Vec::new();
    for forged in 0..5 {
        let request = client.post(service.url(CREATE)).bearer_auth("wrong");
        // No proxy is trusted, so the header counts for nothing.
        let request = request.header("X-Forwarded-For", format!("192.0.2.{forged}"));
        statuses.push(request.json(&order("F-1")).send().await.unwrap().status().as_u16());
    }
    assert!(statuses.starts_with(&[401, 401]) && statuses.contains(&429), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificate_is_a_warning_at_the_start() {
    let certificates = Certificates::issue_until("Root", NAMES, 2020);
    let folder = tempfile::tempdir().unwrap();
    swap(folder.path(), "0", &certificates);
    let flags = tls_flags(folder.path());
    let wiring = Wiring::new();
    let process = ServiceProcess::start(&wiring, &[&flags[0], &flags[1]]);
    let log = thread::spawn(move || process.stop_and_read_log()).join().unwrap();
    let warned = |line: &str| line.contains("has expired") && line.contains("--tls-cert");
    assert!(log.lines().any(warned), "{log}");
}
