//! Starts a service for one test and talks to it.

use std::{
    fmt::{Debug, Write as _},
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use app::serve::{Service, Starting};
use clap::Parser;
use contract_tests::fakes::ManualClock;
use domain::{
    api_key::manage_keys::KeyTerms,
    order::{OrderId, SigningServiceId, StoredOrder},
    ports::Kept,
};
use operator::{Machine, OsEntropy, adapters::Storage, settings::Settings};
use reqwest::{
    Client, ClientBuilder, RequestBuilder, Response, StatusCode,
    multipart::{Form, Part},
};
use serde_json::{Value, json};

use crate::wiring::Wiring;

pub const CREATE: &str = "/api/order/create";
pub const CREATE_WITH_DOCUMENTS: &str = "/api/order/create-with-documents";

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

pub struct TestApp {
    service: Service,
    storage: Storage,
    machine: Machine,
    pub clock: Arc<ManualClock>,
    pub client: Client,
    pub key: String,
    pub wiring: Wiring,
}

impl TestApp {
    /// Starts a service with the default settings, but without a rate limit.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a service with these flags.
    pub async fn start_with(flags: &[&str]) -> Self {
        Self::start_on(Wiring::new(), Arc::default(), flags, None).await
    }

    /// Starts a service on existing stores. Issues an API key if none is given.
    pub async fn start_on(
        wiring: Wiring,
        clock: Arc<ManualClock>,
        flags: &[&str],
        key: Option<String>,
    ) -> Self {
        let data = wiring.data().to_str().unwrap();
        let defaults = [
            "notary-orders",
            "--listen=127.0.0.1:0",
            "--ops-listen=127.0.0.1:0",
            "--rate-per-second=0",
            "--reads-rate-per-second=0",
            "--mails-per-recipient-hour=0",
            "--data-dir",
            data,
        ]
        .map(str::to_owned);
        let overridden: Vec<&str> =
            flags.iter().filter_map(|flag| flag.split('=').next()).collect();
        let defaults = defaults
            .into_iter()
            .chain(wiring.flags())
            .filter(|flag| !overridden.contains(&flag.split('=').next().unwrap()));
        let settings =
            Flags::parse_from(defaults.chain(flags.iter().map(|&flag| flag.to_owned()))).settings;
        let settings = Settings { environment: wiring.environment(), ..settings };
        let machine =
            Machine { clock: Arc::clone(&clock) as _, entropy: Arc::new(OsEntropy), traces: None };
        let starting = Starting::listen(&settings, &machine).unwrap();
        let storage = Storage::open(&settings).await.unwrap();
        let service = starting.start(&settings, &machine, storage.clone()).await.unwrap();
        let mut app =
            Self { service, storage, machine, clock, client: client(), key: String::new(), wiring };
        app.key = match key {
            Some(key) => key,
            None => app.issue_key(None).await,
        };
        app
    }

    /// Stops the service gracefully and starts it again on the same stores.
    pub async fn restart(self, flags: &[&str]) -> Self {
        let (clock, key) = (Arc::clone(&self.clock), self.key.clone());
        Self::start_on(self.stop().await, clock, flags, Some(key)).await
    }

    pub async fn stop(self) -> Wiring {
        let Self { service, wiring, client, .. } = self;
        drop(client);
        service.stop().await;
        wiring
    }

    pub async fn issue_key(&self, signing_service: Option<i64>) -> String {
        self.issue_key_on(KeyTerms {
            signing_service: signing_service.map(SigningServiceId),
            ..KeyTerms::default()
        })
        .await
    }

    pub async fn issue_key_on(&self, terms: KeyTerms) -> String {
        let terms = KeyTerms { name: "test".to_owned(), ..terms };
        self.storage
            .manage_keys(&self.machine)
            .issue(terms, "tests")
            .await
            .unwrap()
            .1
            .expose()
            .to_owned()
    }

    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn address(&self) -> SocketAddr {
        self.service.api_address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.service.api_address)
    }

    pub fn ops_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.service.ops_address)
    }

    pub async fn ops(&self, path: &str) -> (StatusCode, String) {
        let response = self.client.get(self.ops_url(path)).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    pub fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(self.url(path)).bearer_auth(&self.key)
    }

    pub async fn create(&self, order: &Value) -> Response {
        self.post(CREATE).json(order).send().await.unwrap()
    }

    pub async fn create_with(&self, form: Form) -> Response {
        self.post(CREATE_WITH_DOCUMENTS).multipart(form).send().await.unwrap()
    }

    /// Sends an order to a path, with an idempotency key made from both arguments. The order has a
    /// document if the path takes one.
    pub async fn send_with_key(&self, path: &str, file_number: &str) -> Response {
        let key = format!("\"{path} {file_number}\"");
        let request = self.post(path).header("Idempotency-Key", key);
        let request = if path == CREATE {
            request.json(&order(file_number))
        } else {
            request.multipart(form_with_deed(file_number))
        };
        request.send().await.unwrap()
    }

    /// Returns the head of an authorized `POST` with these further header lines, each ending in
    /// `\r\n`.
    pub fn head(&self, path: &str, headers: &str) -> String {
        format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n{headers}\r\n",
            self.key
        )
    }

    /// Sends bytes in one write and reads until the service closes the connection.
    pub async fn raw(&self, request: Vec<u8>) -> RawAnswer {
        let address = self.address();
        tokio::task::spawn_blocking(move || RawAnswer::to(address, &request)).await.unwrap()
    }

    /// Sends a raw multipart request with this body.
    pub async fn raw_form(&self, content_type: &str, body: &[u8]) -> RawAnswer {
        let headers = format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
        let head = self.head(CREATE_WITH_DOCUMENTS, &headers);
        self.raw([head.as_bytes(), body].concat()).await
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
        self.storage().admin.order(id).await.unwrap().and_then(Kept::whole)
    }

    pub fn rows(&self, table: &str) -> i64 {
        self.wiring.rows(table)
    }

    pub fn pending_mails(&self) -> i64 {
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
        eventually(|| self.wiring.mails().len() >= count).await;
        let mails = self.wiring.mails();
        assert_eq!(mails.len(), count);
        mails
    }
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

/// Waits up to 30 seconds until a condition holds.
pub async fn eventually(mut condition: impl FnMut() -> bool) {
    eventually_async(async || condition()).await;
}

/// Waits up to 30 seconds until an asynchronous condition holds.
pub async fn eventually_async(mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition().await {
        assert!(Instant::now() < deadline, "the condition did not hold within 30 seconds");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A response on a raw connection.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub head: String,
    pub body: Value,
}

impl RawAnswer {
    pub fn to(address: SocketAddr, request: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let request = request.to_vec();
        // The service may respond and stop reading before it has the whole request.
        let writing = std::thread::spawn(move || {
            let _ = writer.write_all(&request);
            let _ = writer.shutdown(Shutdown::Write);
        });
        let mut answer = Vec::new();
        stream
            .read_to_end(&mut answer)
            .expect("the service responds and closes within ten seconds");
        writing.join().unwrap();
        let text = String::from_utf8(answer).unwrap();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not a response: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_owned(),
            body: serde_json::from_str(body).unwrap_or(Value::Null),
        }
    }

    pub fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{self:?}");
        assert!(
            self.head.to_ascii_lowercase().contains("content-type: application/problem+json"),
            "{}",
            self.head
        );
    }
}

/// Sends bytes in one write, ends that side of the connection, and waits until the service closes
/// the other. Returns the statuses of all responses.
pub async fn answers(address: SocketAddr, bytes: Vec<u8>) -> Vec<u16> {
    exchange(address, bytes, true).await
}

/// As [`answers`], but waits with an open connection: actix does not read the rest of a large body
/// whose client has ended its side.
pub async fn answers_to_large(address: SocketAddr, bytes: Vec<u8>) -> Vec<u16> {
    exchange(address, bytes, false).await
}

async fn exchange(address: SocketAddr, bytes: Vec<u8>, ends: bool) -> Vec<u16> {
    let exchanged = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&bytes).unwrap();
        if ends {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).expect("the service closes the connection");
        String::from_utf8(answers).unwrap()
    });
    let (text, mut statuses) = (exchanged.await.unwrap(), Vec::new());
    let mut rest = text.as_str();
    while let Some((head, body)) = rest.split_once("\r\n\r\n") {
        statuses.push(head.split(' ').nth(1).unwrap().parse().unwrap());
        let length = head
            .to_ascii_lowercase()
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        // A response to HEAD has a length but no body.
        rest = body.get(length.unwrap()..).unwrap_or_default();
    }
    assert_eq!(rest, "", "bytes that are not a response");
    statuses
}

/// Reads a number from an environment variable.
pub fn setting<T: FromStr<Err: Debug>>(name: &str, default: T) -> T {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Builds a client with default settings.
pub fn client() -> Client {
    client_builder().build().unwrap()
}

/// Starts a client with the TLS provider of the service.
pub fn client_builder() -> ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
}

/// Returns the problem of a response after checking everything that RFC 9457 and the API promise.
pub async fn problem(response: Response, status: u16, code: &str) -> Value {
    let headers = response.headers().clone();
    let actual = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert_eq!(actual, status, "{text}");
    assert_eq!(headers["content-type"], "application/problem+json");
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(body["code"], code, "{text}");
    assert_eq!(body["status"], status);
    let kind = match code {
        "rate_limited" => {
            "https://iana.org/assignments/http-problem-types#quota-exceeded".to_owned()
        }
        _ => format!("urn:problem-type:notary-orders:{code}"),
    };
    assert_eq!(body["type"], kind);
    assert!(body["title"].is_string() && body["detail"].is_string());
    assert_eq!(body["request_id"].as_str().unwrap(), headers["x-request-id"].to_str().unwrap());
    body
}

/// Returns pointer and code of each error of a problem.
pub fn errors(problem: &Value) -> Vec<(&str, &str)> {
    problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["pointer"].as_str().unwrap(), error["code"].as_str().unwrap()))
        .collect()
}

/// Asserts that a request got 503 with `Retry-After` within three seconds.
pub async fn assert_unavailable(sent: Instant, response: Response) {
    assert!(sent.elapsed() < Duration::from_secs(3), "{:?}", sent.elapsed());
    let retry_after = response.headers().contains_key("retry-after");
    problem(response, 503, "unavailable").await;
    assert!(retry_after);
}

/// Returns the order record of a 201 response.
pub async fn created(response: Response) -> Value {
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Returns a request with every required field.
pub fn order(file_number: &str) -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": {
            "fileNumber": file_number, "signingType": "Refinance", "signingDate": "2026-12-01",
            "signingTimeType": "at", "specificTime": "14:30", "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St, Dallas, TX 75201",
            "city": "Dallas", "state": "TX", "zipcode": "75201",
            "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com"
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001, "userRole": "escrow_officer", "signingServiceId": 42 }
    })
}

/// Returns a form with the text parts of an order and no documents.
pub fn form(order: &Value) -> Form {
    let mut form = Form::new();
    for (name, value) in order.as_object().unwrap() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        form = form.text(name.clone(), text);
    }
    form
}

/// Returns a file part.
pub fn file(name: &str, content: impl Into<Vec<u8>>) -> Part {
    Part::bytes(content.into()).file_name(name.to_owned())
}

/// Returns a form with one valid document.
pub fn form_with_deed(file_number: &str) -> Form {
    form(&order(file_number)).part("documents", file("deed.pdf", deed()))
}

/// Returns the content of a valid PDF document.
pub fn deed() -> Vec<u8> {
    contract_tests::documents::bytes("deed-of-trust.pdf")
}

/// Returns the text parts of an order as form bytes with boundary `b`, without the end of the form.
pub fn raw_order_parts(file_number: &str) -> String {
    let mut parts = String::new();
    for (name, value) in order(file_number).as_object().unwrap() {
        write!(parts, "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
            .unwrap();
    }
    parts
}

/// Returns the bytes of a form with boundary `b` and one valid document.
pub fn raw_form_with_deed(file_number: &str) -> Vec<u8> {
    let head =
        "--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"deed.pdf\"\r\n\r\n";
    [raw_order_parts(file_number).as_bytes(), head.as_bytes(), &deed(), b"\r\n--b--\r\n"].concat()
}
