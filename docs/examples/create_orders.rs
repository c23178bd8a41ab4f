//! Creates an order without documents and an order with documents, each exactly once. Then reads
//! the second one back and downloads its documents.
//!
//! Settings: `BASE_URL`, `API_KEY`, `FILE_NUMBER` (prefix of the file numbers), `STATE_DIR` (folder
//! of the idempotency keys). Needs reqwest (features `json`, `multipart`, `query`), tokio, serde,
//! `serde_json`, bytes, sha2, uuid (feature `v4`) and fastrand.

use std::{env, error::Error, fmt, fs, io, path::Path, process::ExitCode, time::Duration};

use bytes::Bytes;
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER},
    multipart::{Form, Part},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) type Failure = Box<dyn Error>;

const ATTEMPTS: u32 = 5;
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) fn order(file_number: &str) -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": {
            "fileNumber": file_number, "signingType": "Refinance",
            "signingDate": "2026-12-01", "signingTimeType": "at", "specificTime": "14:30",
            "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St, Dallas, TX 75201",
            "city": "Dallas", "state": "TX", "zipcode": "75201",
            "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com"
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}

/// Makes one key for each order and stores it before the first attempt, so that a restarted program
/// repeats with the same key. Stores it in a file; your product stores it in a column of the order.
pub(crate) fn idempotency_key(file_number: &str) -> io::Result<String> {
    let folder = env::var("STATE_DIR").unwrap_or_else(|_| ".".to_owned());
    let stored = Path::new(&folder).join(format!("{file_number}.idempotency-key"));
    if !stored.exists() {
        // A crash must not leave half a key.
        let made = stored.with_extension("new");
        fs::write(&made, uuid::Uuid::new_v4().to_string())?;
        fs::rename(made, &stored)?;
    }
    fs::read_to_string(stored)
}

/// An answer with another status than the expected ones.
#[derive(Debug)]
pub(crate) struct ProblemAnswer {
    status: StatusCode,
    pub(crate) problem: Problem,
    retry_after: Duration,
}

/// The problem; empty if a proxy answered instead of the service.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) code: String,
    detail: String,
    request_id: String,
    pub(crate) errors: Vec<FieldProblem>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FieldProblem {
    #[serde(alias = "parameter")]
    pointer: String,
    pub(crate) code: String,
    detail: String,
}

impl ProblemAnswer {
    fn is_worth_repeating(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
            || self.status.is_server_error() && self.status.as_u16() != 501
            || self.problem.code == "idempotency_in_flight"
    }
}

impl Error for ProblemAnswer {}

impl fmt::Display for ProblemAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self.problem.code.as_str() {
            "unauthorized" => "check API_KEY, or ask the operator for a new key",
            "forbidden" => {
                "the key lacks a scope or is limited to another signing service: ask the operator"
            }
            "not_found" | "method_not_allowed" => "check BASE_URL",
            "duplicate_order" => {
                "another order has just used this file number: find it before you send this one"
            }
            "idempotency_key_reused" => {
                "the stored key was used for another payload: send that payload, or use a new key"
            }
            _ if self.status.is_client_error() => "correct the request",
            _ if self.status.is_server_error() => "the service failed, not the request",
            _ => "check BASE_URL",
        };
        let Problem { code, detail, request_id, errors } = &self.problem;
        let status = self.status.as_u16();
        write!(formatter, "{status} {code}: {detail} ({advice}; request {request_id})")?;
        for FieldProblem { pointer, code, detail } in errors {
            write!(formatter, "\n  {pointer} {code}: {detail}")?;
        }
        Ok(())
    }
}

/// Sends until there is a final answer, and returns it if its status is an expected one. A repeat
/// must be safe.
pub(crate) async fn send<T: DeserializeOwned>(
    expected: &[StatusCode],
    request: impl Fn() -> RequestBuilder,
) -> Result<(HeaderMap, T), Failure> {
    let mut failure = String::new();
    for attempt in 0..ATTEMPTS {
        let retry_after = match attempt_once(expected, request()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(answer)) if !answer.is_worth_repeating() => return Err(answer.into()),
            Ok(Err(answer)) => {
                failure = answer.to_string();
                answer.retry_after
            }
            // The service may have done it or not.
            Err(error) => {
                failure = format!("no answer: {error:?}");
                Duration::ZERO
            }
        };
        if attempt + 1 < ATTEMPTS {
            // Never earlier than Retry-After. The jitter spreads clients that got the same
            // Retry-After.
            let backoff = LONGEST_BACKOFF.min(FIRST_BACKOFF * 2_u32.pow(attempt));
            tokio::time::sleep(retry_after + backoff.mul_f64(fastrand::f64())).await;
        }
    }
    Err(format!("gave up after {ATTEMPTS} attempts, try later again: {failure}").into())
}

async fn attempt_once<T: DeserializeOwned>(
    expected: &[StatusCode],
    request: RequestBuilder,
) -> reqwest::Result<Result<(HeaderMap, T), ProblemAnswer>> {
    let response = request.send().await?;
    if expected.contains(&response.status()) {
        let headers = response.headers().clone();
        return Ok(Ok((headers, response.json().await?)));
    }
    Ok(Err(problem_of(response).await))
}

async fn problem_of(response: Response) -> ProblemAnswer {
    let status = response.status();
    let header = |name| {
        response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let retry_after = Duration::from_secs(header(RETRY_AFTER).parse().unwrap_or(0));
    let problem = if header(CONTENT_TYPE).starts_with("application/problem+json") {
        response.json().await.unwrap_or_default()
    } else {
        Problem::default()
    };
    ProblemAnswer { status, problem, retry_after }
}

pub(crate) struct Orders {
    client: Client,
    base_url: String,
    api_key: String,
}

impl Orders {
    /// Reads the settings.
    pub(crate) fn from_env() -> Result<Self, Failure> {
        // Only this workspace needs this line: it builds no cryptography but `ring`. Your program
        // has reqwest's default.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let variable = |name: &str| env::var(name).map_err(|_| format!("set {name}"));
        let client = Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Self { client, base_url: variable("BASE_URL")?, api_key: variable("API_KEY")? })
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.base_url.trim_end_matches('/'));
        self.client.request(method, url).bearer_auth(&self.api_key).timeout(TIMEOUT)
    }

    /// Creates an order, and returns its id. The key makes repeats safe.
    async fn post(
        &self,
        path: &str,
        file_number: &str,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<i64, Failure> {
        #[derive(Deserialize)]
        struct Order {
            order_id: i64,
        }
        let key = format!("\"{}\"", idempotency_key(file_number)?);
        let request =
            || fill(self.request(Method::POST, path).header("Idempotency-Key", key.as_str()));
        let (_, order): (_, Order) = send(&[StatusCode::CREATED], request).await?;
        Ok(order.order_id)
    }

    async fn create(&self, file_number: &str) -> Result<i64, Failure> {
        let order = order(file_number);
        self.post("/api/order/create", file_number, |request| request.json(&order)).await
    }

    async fn create_with_documents(
        &self,
        file_number: &str,
        documents: &[(&'static str, Vec<u8>)],
    ) -> Result<i64, Failure> {
        let order = order(file_number);
        self.post("/api/order/create-with-documents", file_number, |request| {
            let mut form = Form::new();
            // In the form, every part but the files is a text: objects as JSON, the id in digits.
            for (name, value) in order.as_object().into_iter().flatten() {
                form = form.text(name.clone(), value.to_string());
            }
            for (name, content) in documents {
                form = form.part("documents", Part::bytes(content.clone()).file_name(*name));
            }
            request.timeout(UPLOAD_TIMEOUT).multipart(form)
        })
        .await
    }
}

impl Orders {
    /// Reads a path. A read changes nothing, so it can be repeated without a key.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<(HeaderMap, T), Failure> {
        send(&[StatusCode::OK], || self.request(Method::GET, path)).await
    }

    async fn download(&self, path: &str) -> Result<Bytes, Failure> {
        let response = self.request(Method::GET, path).send().await?;
        if response.status() != StatusCode::OK {
            return Err(problem_of(response).await.into());
        }
        Ok(response.bytes().await?)
    }

    /// Reads an order back, and downloads its documents.
    async fn read_back(&self, order_id: i64) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Order {
            documents: Vec<Document>,
        }
        #[derive(Deserialize)]
        struct Document {
            position: u32,
            name: String,
            sha256: String,
        }
        let (_, order): (_, Order) = self.get(&format!("/api/order/{order_id}")).await?;
        for Document { position, name, sha256 } in order.documents {
            let path = format!("/api/order/{order_id}/documents/{position}");
            let content = self.download(&path).await?;
            let digest: Vec<_> =
                Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
            if digest.concat() != sha256 {
                return Err(format!("{name} is damaged").into());
            }
            println!("document {name}");
        }
        Ok(())
    }
}

async fn run() -> Result<(), Failure> {
    let orders = Orders::from_env()?;
    let file_number = env::var("FILE_NUMBER").unwrap_or_else(|_| "REFI-2026-100".to_owned());
    println!("order_id {}", orders.create(&format!("{file_number}-1")).await?);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let read = |name: &'static str| fs::read(folder.join(name)).map(|content| (name, content));
    let documents = [read("deed-of-trust.pdf")?, read("signing-instructions.docx")?];
    let order_id = orders.create_with_documents(&format!("{file_number}-2"), &documents).await?;
    println!("order_id {order_id}");
    orders.read_back(order_id).await
}

pub(crate) fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run().await)
}
