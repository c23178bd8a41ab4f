//! A service of its own for each test, and how to talk to it.

use std::{
    fmt::{Debug, Write as _},
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use app::{Machine, OsEntropy, adapters::Storage, serve::Service, settings::Settings};
use clap::Parser;
use contract_tests::fakes::ManualClock;
use domain::{manage_keys::KeyTerms, order::SigningServiceId};
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
    /// A service with the default settings, except that no test meets the rate limit unless it is
    /// about it.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub async fn start_with(flags: &[&str]) -> Self {
        Self::start_on(Wiring::new(), Arc::default(), flags, None).await
    }

    pub async fn start_on(
        wiring: Wiring,
        clock: Arc<ManualClock>,
        flags: &[&str],
        key: Option<String>,
    ) -> Self {
        let data = wiring.data().to_str().unwrap();
        let own = [
            "notary-orders",
            "--listen=127.0.0.1:0",
            "--ops-listen=127.0.0.1:0",
            "--rate-per-second=0",
            "--data-dir",
            data,
        ]
        .map(str::to_owned);
        let named: Vec<&str> = flags.iter().filter_map(|flag| flag.split('=').next()).collect();
        let own = own
            .into_iter()
            .chain(wiring.flags())
            .filter(|flag| !named.contains(&flag.split('=').next().unwrap()));
        let settings =
            Flags::parse_from(own.chain(flags.iter().map(|&flag| flag.to_owned()))).settings;
        let settings = Settings { environment: wiring.environment(), ..settings };
        let machine = Machine { clock: Arc::clone(&clock) as _, entropy: Arc::new(OsEntropy) };
        let storage = Storage::open(&settings).await.unwrap();
        let service = Service::start(&settings, &machine, storage.clone()).await.unwrap();
        let mut app =
            Self { service, storage, machine, clock, client: client(), key: String::new(), wiring };
        app.key = match key {
            Some(key) => key,
            None => app.issue_key(None).await,
        };
        app
    }

    /// Stops the service gracefully and starts it again on what it left.
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

    /// Sends bytes as they are, in one go, and reads until the service closes the connection or has
    /// answered.
    pub async fn raw(&self, request: Vec<u8>) -> RawAnswer {
        let address = self.address();
        tokio::task::spawn_blocking(move || RawAnswer::to(address, &request)).await.unwrap()
    }

    /// A raw multipart request with this body.
    pub async fn raw_form(&self, content_type: &str, body: &[u8]) -> RawAnswer {
        let mut request = format!(
            "POST {CREATE_WITH_DOCUMENTS} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            self.key,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.raw(request).await
    }

    /// Files of uploads that are arriving.
    pub fn spooled(&self) -> Vec<PathBuf> {
        spooled(self.wiring.data())
    }

    /// The contents of every stored object.
    pub fn documents(&self) -> Vec<Vec<u8>> {
        self.wiring.objects().into_values().collect()
    }

    pub fn rows(&self, table: &str) -> i64 {
        self.wiring.rows(table)
    }

    /// No row, no object, no spool file: as if nothing had been asked.
    pub fn assert_untouched(&self) {
        for table in
            ["orders", "documents", "uploads", "deliveries", "file_numbers", "idempotency_keys"]
        {
            assert_eq!(self.rows(table), 0, "{table}");
        }
        assert_eq!(self.wiring.objects().len(), 0);
        self.assert_spool_empty();
    }

    pub fn assert_spool_empty(&self) {
        assert_eq!(self.spooled(), Vec::<PathBuf>::new());
    }

    /// Waits until so many mails were delivered, and returns them.
    pub async fn mails(&self, count: usize) -> Vec<String> {
        eventually(|| self.wiring.mails().len() >= count).await;
        let mails = self.wiring.mails();
        assert_eq!(mails.len(), count);
        mails
    }
}

/// Files of uploads that are arriving at a service.
pub fn spooled(data: &Path) -> Vec<PathBuf> {
    files_below(&data.join("spool")).into_iter().filter(|path| !path.ends_with("lock")).collect()
}

pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Waits for something that happens beside the test, for half a minute at the most.
pub async fn eventually(mut happened: impl FnMut() -> bool) {
    eventually_told(async || happened()).await;
}

/// The same, of something that has to be asked for.
pub async fn eventually_told(mut happened: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(30);
    while !happened().await {
        assert!(Instant::now() < patience, "it did not happen within half a minute");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What came back over a raw connection.
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
        // The service may answer, and stop reading, before it has all of it.
        let writing = std::thread::spawn(move || {
            let _ = writer.write_all(&request);
            let _ = writer.shutdown(Shutdown::Write);
        });
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the service answers and closes within ten seconds");
        writing.join().unwrap();
        let text = String::from_utf8(answer).unwrap();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {text:?}"));
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

/// Sends bytes as they are, in one go; the statuses of the answers, once the service has closed the
/// connection, which it is to do soon.
pub async fn answers(address: SocketAddr, bytes: Vec<u8>) -> Vec<u16> {
    let exchanged = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).expect("the service closes the connection");
        String::from_utf8(answers).unwrap()
    });
    let (text, mut statuses) = (exchanged.await.unwrap(), Vec::new());
    let mut rest = text.as_str();
    while let Some((head, behind)) = rest.split_once("\r\n\r\n") {
        statuses.push(head.split(' ').nth(1).unwrap().parse().unwrap());
        let length = head
            .to_ascii_lowercase()
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        // The answer to HEAD has a length, and nothing of it.
        rest = behind.get(length.unwrap()..).unwrap_or_default();
    }
    assert_eq!(rest, "", "what is no answer");
    statuses
}

/// A number that the environment may set.
pub fn setting<T: FromStr<Err: Debug>>(name: &str, otherwise: T) -> T {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// A client like any other, once it knows whose cryptography to use: that of the service.
pub fn client() -> Client {
    client_builder().build().unwrap()
}

/// One that is not quite like any other.
pub fn client_builder() -> ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
}

/// The problem that a response is, after checking that it is one in every way that RFC 9457 and the
/// API promise.
pub async fn problem(response: Response, status: u16, code: &str) -> Value {
    let headers = response.headers().clone();
    let got = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert_eq!(got, status, "{text}");
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

/// A dependency fails, and the client is told so within three seconds and when to come back.
pub async fn assert_unavailable(asked: Instant, response: Response) {
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    let retry_after = response.headers().contains_key("retry-after");
    problem(response, 503, "unavailable").await;
    assert!(retry_after);
}

/// The order record of a creation response.
pub async fn created(response: Response) -> Value {
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// A request with every required field.
pub fn order(file_number: &str) -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": {
            "fileNumber": file_number, "signingDate": "2026-12-01", "signingTimeType": "at", "specificTime": "14:30", "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St, Dallas, TX 75201", "signingType": "Refinance", "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com", "city": "Dallas", "state": "TX", "zipcode": "75201"
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001, "userRole": "escrow_officer", "signingServiceId": 42 }
    })
}

/// The text parts of an order's form.
pub fn form(order: &Value) -> Form {
    let mut form = Form::new();
    for (name, value) in order.as_object().unwrap() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        form = form.text(name.clone(), text);
    }
    form
}

pub fn file(name: &str, content: impl Into<Vec<u8>>) -> Part {
    Part::bytes(content.into()).file_name(name.to_owned())
}

/// A form with one genuine document.
pub fn form_with_deed(file_number: &str) -> Form {
    form(&order(file_number)).part("documents", file("deed.pdf", deed()))
}

pub fn deed() -> Vec<u8> {
    contract_tests::documents::bytes("deed-of-trust.pdf")
}

/// The bytes of a form with boundary `b`: text parts of an order, then whatever the test is about.
pub fn raw_order_parts(file_number: &str) -> String {
    let mut parts = String::new();
    for (name, value) in order(file_number).as_object().unwrap() {
        write!(parts, "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
            .unwrap();
    }
    parts
}

/// The bytes of a form with boundary `b` and one genuine document.
pub fn raw_form_with_deed(file_number: &str) -> Vec<u8> {
    let head =
        "--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"deed.pdf\"\r\n\r\n";
    [raw_order_parts(file_number).as_bytes(), head.as_bytes(), &deed(), b"\r\n--b--\r\n"].concat()
}
