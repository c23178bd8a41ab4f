//! A running service, as its clients and operators talk to it.

use std::net::SocketAddr;

use reqwest::{
    Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode, multipart::Form,
};
use serde_json::Value;

use crate::{
    harness::eventually_async,
    harness::raw::{RawAnswer, exchange},
    harness::requests::{form_with_deed, order, raw_form_with_deed},
};

pub const CREATE: &str = "/api/order/create";
pub const CREATE_WITH_DOCUMENTS: &str = "/api/order/create-with-documents";
/// The header line of a JSON body.
pub const JSON: &str = "Content-Type: application/json\r\n";
/// The header line of a form with boundary `b`.
pub const FORM: &str = "Content-Type: multipart/form-data; boundary=b\r\n";
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

    /// Waits until the service says that it is ready.
    pub async fn gets_ready(&self) {
        eventually_async(async || self.readiness().await.0 == StatusCode::OK).await;
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

/// Asserts that a request got 503 with `Retry-After`.
pub async fn assert_unavailable(response: Response) {
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
