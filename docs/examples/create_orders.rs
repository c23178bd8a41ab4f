//! Creates an order without documents and an order with documents, each exactly once. Then reads
//! the second one back and downloads its documents.
//!
//! Settings: `BASE_URL`, `API_KEY`, `FILE_NUMBER` (prefix of the file numbers), `STATE_DIR` (folder
//! of the idempotency keys). Needs reqwest (features `json`, `multipart`), tokio, serde,
//! `serde_json`, sha2, uuid (feature `v4`) and fastrand.

use std::{env, error::Error, fs, io, path::Path, process::ExitCode, time::Duration};

use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
    multipart::{Form, Part},
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

type Failure = Box<dyn Error>;

const ATTEMPTS: u32 = 5;
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(60);
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);

fn order(file_number: &str) -> Value {
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
fn idempotency_key(file_number: &str) -> io::Result<String> {
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

/// An answer other than 201.
struct ProblemAnswer {
    status: StatusCode,
    problem: Problem,
    retry_after: Duration,
}

/// The problem; empty if a proxy answered instead of the service.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Problem {
    code: String,
    detail: String,
    request_id: String,
    errors: Vec<FieldProblem>,
}

#[derive(Deserialize)]
struct FieldProblem {
    pointer: String,
    code: String,
    detail: String,
}

impl ProblemAnswer {
    fn is_worth_repeating(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
            || self.status.is_server_error() && self.status.as_u16() != 501
            || self.problem.code == "idempotency_in_flight"
    }

    fn described(&self) -> String {
        let advice = match self.problem.code.as_str() {
            "unauthorized" => "check API_KEY, or ask the operator for a new key",
            "forbidden" => "the key is limited to another signing service: ask the operator",
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
        let first =
            format!("{} {code}: {detail} ({advice}; request {request_id})", self.status.as_u16());
        let rest = errors
            .iter()
            .map(|error| format!("\n  {} {}: {}", error.pointer, error.code, error.detail));
        first + &rest.collect::<String>()
    }
}

/// Sends until there is a final answer, and returns the order's id.
async fn send(request: impl Fn() -> RequestBuilder) -> Result<i64, Failure> {
    let mut failure = String::new();
    for attempt in 0..ATTEMPTS {
        let retry_after = match attempt_once(request()).await {
            Ok(Ok(order_id)) => return Ok(order_id),
            Ok(Err(answer)) if !answer.is_worth_repeating() => {
                return Err(answer.described().into());
            }
            Ok(Err(answer)) => {
                failure = answer.described();
                answer.retry_after
            }
            // The order may have been created or not. The key makes the repeat safe.
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
    Err(format!("gave up after {ATTEMPTS} attempts, try later with the same key: {failure}").into())
}

async fn attempt_once(request: RequestBuilder) -> reqwest::Result<Result<i64, ProblemAnswer>> {
    #[derive(Deserialize)]
    struct Order {
        order_id: i64,
    }
    let response = request.send().await?;
    if response.status() == StatusCode::CREATED {
        return Ok(Ok(response.json::<Order>().await?.order_id));
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

struct Orders {
    client: Client,
    base_url: String,
    api_key: String,
}

impl Orders {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url.trim_end_matches('/'))
    }

    fn post(&self, path: &str, key: &str) -> RequestBuilder {
        self.client
            .post(self.url(path))
            .bearer_auth(&self.api_key)
            .header("Idempotency-Key", format!("\"{key}\""))
    }

    async fn create(&self, file_number: &str) -> Result<i64, Failure> {
        let (key, order) = (idempotency_key(file_number)?, order(file_number));
        send(|| self.post("/api/order/create", &key).timeout(TIMEOUT).json(&order)).await
    }

    async fn create_with_documents(
        &self,
        file_number: &str,
        documents: &[(&'static str, Vec<u8>)],
    ) -> Result<i64, Failure> {
        let (key, order) = (idempotency_key(file_number)?, order(file_number));
        send(|| {
            let mut form = Form::new();
            // In the form, every part but the files is a text: objects as JSON, the id in digits.
            for (name, value) in order.as_object().into_iter().flatten() {
                form = form.text(name.clone(), value.to_string());
            }
            for (name, content) in documents {
                form = form.part("documents", Part::bytes(content.clone()).file_name(*name));
            }
            self.post("/api/order/create-with-documents", &key)
                .timeout(UPLOAD_TIMEOUT)
                .multipart(form)
        })
        .await
    }
}

impl Orders {
    /// Reads a path. A read changes nothing, so it can be repeated without a key.
    async fn get(&self, path: &str) -> Result<Response, Failure> {
        let request = self.client.get(self.url(path)).bearer_auth(&self.api_key).timeout(TIMEOUT);
        let response = request.send().await?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        Err(problem_of(response).await.described().into())
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
        let order: Order = self.get(&format!("/api/order/{order_id}")).await?.json().await?;
        for Document { position, name, sha256 } in order.documents {
            let path = format!("/api/order/{order_id}/documents/{position}");
            let content = self.get(&path).await?.bytes().await?;
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
    // Only this workspace needs this line: it builds no cryptography but `ring`. Your program has
    // reqwest's default.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let variable = |name: &str| env::var(name).map_err(|_| format!("set {name}"));
    let client = Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let orders = Orders { client, base_url: variable("BASE_URL")?, api_key: variable("API_KEY")? };
    let file_number = variable("FILE_NUMBER").unwrap_or_else(|_| "REFI-2026-100".to_owned());
    println!("order_id {}", orders.create(&format!("{file_number}-1")).await?);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let read = |name: &'static str| fs::read(folder.join(name)).map(|content| (name, content));
    let documents = [read("deed-of-trust.pdf")?, read("signing-instructions.docx")?];
    let order_id = orders.create_with_documents(&format!("{file_number}-2"), &documents).await?;
    println!("order_id {order_id}");
    orders.read_back(order_id).await
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
