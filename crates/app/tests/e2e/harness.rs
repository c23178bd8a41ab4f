//! Starts a service for one test and talks to it.

use std::{
    fmt::{Debug, Write as _},
    net::SocketAddr,
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
    api_key::manage_keys::KeyTerms,
    order::{OrderId, SigningServiceId, StoredOrder},
    ports::Kept,
};
use operator::{Machine, OsEntropy, adapters::Storage, settings::Settings};
use reqwest::{
    Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode,
    multipart::{Form, Part},
};
use serde_json::{Value, json};

use crate::{
    raw::{RawAnswer, exchange},
    wiring::Wiring,
};

pub const CREATE: &str = "/api/order/create";
pub const CREATE_WITH_DOCUMENTS: &str = "/api/order/create-with-documents";
/// The header line of a JSON body.
pub const JSON: &str = "Content-Type: application/json\r\n";
/// The header line of a form with boundary `b`.
pub const FORM: &str = "Content-Type: multipart/form-data; boundary=b\r\n";
/// Counts the mails that are not delivered yet. One statement, because a worker moves mails from one
/// table to the other.
pub const PENDING: &str =
    "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM deliveries)";
/// Opens receivers of webhooks on this machine, and encrypts the secrets of webhooks.
pub const WEBHOOKS: [&str; 2] =
    ["--webhook-allow=127.0.0.1", "--secrets-key=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="];

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

/// A service as its clients and operators reach it, with the key of a client.
#[derive(Clone)]
pub struct Api {
    pub client: Client,
    pub key: String,
    pub base_url: String,
    pub address: SocketAddr,
    pub ops_address: SocketAddr,
}

impl Api {
    pub fn new(client: Client, key: &str, address: SocketAddr, ops_address: SocketAddr) -> Self {
        let base_url = format!("http://{address}");
        Self { client, key: key.to_owned(), base_url, address, ops_address }
    }

    /// Returns the same service with another key.
    pub fn as_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    /// Begins an authorized request.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path)).bearer_auth(&self.key)
    }

    pub fn post(&self, path: &str) -> RequestBuilder {
        self.request(Method::POST, path)
    }

    pub async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    /// Returns the JSON at a path.
    pub async fn read(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    pub async fn create(&self, order: &Value) -> Response {
        self.post(CREATE).json(order).send().await.unwrap()
    }

    pub async fn create_with(&self, form: Form) -> Response {
        self.post(CREATE_WITH_DOCUMENTS).multipart(form).send().await.unwrap()
    }

    /// Begins an order with a file number on a path. It has a document if the path takes one.
    pub fn order_on(&self, path: &str, file_number: &str) -> RequestBuilder {
        let request = self.post(path);
        if path == CREATE {
            request.json(&order(file_number))
        } else {
            request.multipart(form_with_deed(file_number))
        }
    }

    /// Sends an order with a file number.
    pub async fn order(&self, file_number: &str) -> Response {
        self.order_on(CREATE, file_number).send().await.unwrap()
    }

    /// Sends an order with a file number and a document.
    pub async fn order_with_deed(&self, file_number: &str) -> Response {
        self.order_on(CREATE_WITH_DOCUMENTS, file_number).send().await.unwrap()
    }

    /// Sends an order to a path, with an idempotency key made from both arguments.
    pub async fn send_with_key(&self, path: &str, file_number: &str) -> Response {
        let key = format!("\"{path} {file_number}\"");
        self.order_on(path, file_number).header("Idempotency-Key", key).send().await.unwrap()
    }

    /// Returns the head of an authorized `POST` with these further header lines, each ending in
    /// `\r\n`.
    pub fn head(&self, path: &str, headers: &str) -> String {
        let line = format!("POST {path} HTTP/1.1\r\nHost: test");
        format!("{line}\r\nAuthorization: Bearer {}\r\n{headers}\r\n", self.key)
    }

    /// Returns the bytes of an order, with these further header lines.
    pub fn raw_order(&self, file_number: &str, headers: &str) -> String {
        let body = order(file_number).to_string();
        let length = format!("Content-Length: {}\r\n", body.len());
        self.head(CREATE, &format!("{JSON}{length}{headers}")) + &body
    }

    /// Returns the bytes of an order with a document, with these further header lines.
    pub fn raw_order_with_deed(&self, file_number: &str, headers: &str) -> Vec<u8> {
        let body = raw_form_with_deed(file_number);
        let length = format!("Content-Length: {}\r\n", body.len());
        let head = self.head(CREATE_WITH_DOCUMENTS, &format!("{FORM}{length}{headers}"));
        [head.as_bytes(), &body].concat()
    }

    /// Sends bytes in one write and reads until the service closes the connection.
    pub async fn raw(&self, request: impl Into<Vec<u8>>) -> RawAnswer {
        RawAnswer::of(&exchange(self.address, request.into(), true).await)
    }

    /// Sends a form with this body.
    pub async fn raw_form(&self, content_type: &str, body: &[u8]) -> RawAnswer {
        let length = format!("Content-Length: {}\r\n", body.len());
        let head = self.head(CREATE_WITH_DOCUMENTS, &format!("{content_type}{length}"));
        self.raw([head.as_bytes(), body].concat()).await
    }

    pub fn ops_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.ops_address)
    }

    /// Returns the answer of an operators' endpoint.
    pub async fn ops(&self, path: &str) -> (StatusCode, String) {
        let response = self.client.get(self.ops_url(path)).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    /// Returns the status and the body of `/readyz`.
    pub async fn readiness(&self) -> (StatusCode, Value) {
        let (status, body) = self.ops("/readyz").await;
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Returns the value of a metric, named with its labels.
    pub async fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = self.ops("/metrics").await;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
    }

    /// Asserts that these lines are among the metrics.
    pub async fn assert_metrics(&self, lines: &[&str]) {
        let (_, metrics) = self.ops("/metrics").await;
        for line in lines {
            assert!(metrics.lines().any(|found| found == *line), "{line}\n\n{metrics}");
        }
    }
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
        let unlimited =
            ["--rate-per-second=0", "--reads-rate-per-second=0", "--mails-per-recipient-hour=0"];
        let settings = settings(&wiring, &unlimited, flags);
        let machine =
            Machine { clock: Arc::clone(&clock) as _, entropy: Arc::new(OsEntropy), traces: None };
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
        self.storage().admin.order(id).await.unwrap().and_then(Kept::whole)
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
        eventually(|| self.wiring.mails().len() >= count).await;
        let mails = self.wiring.mails();
        assert_eq!(mails.len(), count);
        mails
    }
}

impl Wiring {
    /// Counts the rows of a table.
    pub fn rows(&self, table: &str) -> usize {
        self.lines(&format!("SELECT count(*) FROM {table}"))[0].parse().unwrap()
    }

    /// Counts the mails that are not delivered yet: those of events (at least one each), and those
    /// in the queue.
    pub fn pending_mails(&self) -> usize {
        self.lines(PENDING)[0].parse().unwrap()
    }
}

/// Returns the settings of a wiring: flags of the caller replace these defaults.
pub fn settings(wiring: &Wiring, defaults: &[&str], flags: &[&str]) -> Settings {
    let data = format!("--data-dir={}", wiring.data().display());
    let overridden: Vec<&str> = flags.iter().filter_map(|flag| flag.split('=').next()).collect();
    let own = ["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", &data];
    let own = own.iter().chain(defaults).map(|&flag| flag.to_owned()).chain(wiring.flags());
    let own = own.filter(|flag| !overridden.contains(&flag.split('=').next().unwrap()));
    let all = ["notary-orders".to_owned()].into_iter().chain(own);
    let settings = Flags::parse_from(all.chain(flags.iter().map(|&flag| flag.to_owned()))).settings;
    Settings { environment: wiring.environment(), ..settings }
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

/// Reads a number from an environment variable.
pub fn setting<T: FromStr<Err: Debug>>(name: &str, default: T) -> T {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Builds a client with default settings.
pub fn client() -> Client {
    client_builder().build().unwrap()
}

/// Builds a client that opens a new connection for each request.
pub fn client_without_pool() -> Client {
    client_builder().pool_max_idle_per_host(0).build().unwrap()
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

/// Adds documents with the same content to a form.
pub fn with_documents(form: Form, count: usize, content: &[u8]) -> Form {
    (0..count)
        .fold(form, |form, at| form.part("documents", file(&format!("{at}.pdf"), content.to_vec())))
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
