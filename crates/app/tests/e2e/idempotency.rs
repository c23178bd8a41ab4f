//! Repeats of finished requests with an `Idempotency-Key`.

use reqwest::{RequestBuilder, Response, header::HeaderValue, multipart::Form};
use serde_json::{Value, json};

use crate::harness::{
    Api, CREATE, CREATE_WITH_DOCUMENTS, TestApp, deed, eventually, file, form, form_with_deed,
    order, problem, with_documents,
};

pub const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

impl Api {
    pub async fn create_under(&self, key: &str, order: &Value) -> Response {
        self.post(CREATE).header("Idempotency-Key", key).json(order).send().await.unwrap()
    }

    pub async fn create_with_under(&self, key: &str, form: Form) -> Response {
        let request = self.post(CREATE_WITH_DOCUMENTS).header("Idempotency-Key", key);
        request.multipart(form).send().await.unwrap()
    }
}

/// Returns the body of a first response.
pub async fn first(response: Response) -> String {
    body(response, None).await
}

/// Returns the body of a replayed response.
pub async fn replayed(response: Response) -> String {
    body(response, Some("true")).await
}

async fn body(response: Response, is_replayed: Option<&str>) -> String {
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    let found = headers.get("idempotency-replayed").map(|value| value.to_str().unwrap());
    assert_eq!((status.as_u16(), found), (201, is_replayed), "{text}");
    text
}

/// Asserts the number of orders and documents, and that no upload is left.
pub fn assert_stored(app: &TestApp, orders: usize, documents: usize) {
    assert_eq!((app.rows("orders"), app.rows("documents")), (orders, documents));
    assert_eq!(app.documents().len(), documents);
    assert_eq!(app.rows("uploads"), 0);
    app.assert_spool_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_returns_the_first_response_and_creates_nothing() {
    let app = TestApp::start().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    // The advance below would end the lease of a mail in progress, which would be sent twice.
    eventually(|| app.pending_mails() == 0).await;
    // Within the duplicate window, with a quoted key, after the window, and after a restart.
    assert_eq!(replayed(app.create_under(KEY, &order("F-1")).await).await, body);
    assert_eq!(replayed(app.create_under(&format!("\"{KEY}\""), &order("F-1")).await).await, body);
    app.clock.advance(time::Duration::hours(23));
    assert_eq!(replayed(app.create_under(KEY, &order("F-1")).await).await, body);
    app.mails(1).await;
    app.assert_metrics(&[
        r#"notary_orders_orders_created_total{operation="json"} 1"#,
        "notary_orders_idempotent_replays_total 3",
    ])
    .await;
    let app = app.restart(&[]).await;
    assert_eq!(replayed(app.create_under(KEY, &order("F-1")).await).await, body);
    assert_eq!((app.rows("orders"), app.pending_mails()), (1, 0));
    app.mails(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_with_documents_stores_nothing_again() {
    let app = TestApp::start().await;
    let documents = || with_documents(form(&order("F-1")), 2, &deed());
    let body = first(app.create_with_under(KEY, documents()).await).await;
    for _ in 0..3 {
        assert_eq!(replayed(app.create_with_under(KEY, documents()).await).await, body);
    }
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["documents_uploaded"], 2);
    assert_stored(&app, 1, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_requests_may_be_written_differently() {
    let app = TestApp::start().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    let mut equal = order("F-1");
    equal["signingDetailsFormData"]["signerName"] = json!("  Jane Doe\t");
    equal["signingDetailsFormData"]["spouseName"] = json!(" ");
    equal["signingContactsFormData"]["observer"] = Value::Null;
    equal["unknown"] = json!({ "is": "ignored" });
    let pretty = serde_json::to_string_pretty(&equal).unwrap();
    let request = app
        .post(CREATE)
        .header("idempotency-key", KEY)
        .header("content-type", "application/json; charset=utf-8");
    assert_eq!(replayed(request.body(pretty).send().await.unwrap()).await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn reused_key_with_another_payload_is_rejected() {
    let app = TestApp::start().await;
    first(app.create_under(KEY, &order("F-1")).await).await;
    let assert_reused = async |response| problem(response, 422, "idempotency_key_reused").await;
    let mut other = order("F-1");
    other["signingDetailsFormData"]["spouseName"] = json!("John Doe");
    assert_reused(app.create_under(KEY, &other).await).await;
    assert_reused(app.create_under(KEY, &order("F-2")).await).await;
    // The same fields, but another operation.
    assert_reused(app.create_with_under(KEY, form_with_deed("F-1")).await).await;

    first(app.create_with_under("with-documents", form_with_deed("F-3")).await).await;
    let renamed = form(&order("F-3")).part("documents", file("deed-2.pdf", deed()));
    assert_reused(app.create_with_under("with-documents", renamed).await).await;
    let repeated_document = form_with_deed("F-3").part("documents", file("deed.pdf", deed()));
    assert_reused(app.create_with_under("with-documents", repeated_document).await).await;
    assert_stored(&app, 2, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_requests_do_not_use_the_key() {
    let app = TestApp::start().await;
    let json = || app.post(CREATE).header("Idempotency-Key", KEY);
    let upload = || app.post(CREATE_WITH_DOCUMENTS).header("Idempotency-Key", KEY);
    let malformed = || json().header("content-type", "application/json").body("{");
    let mut invalid = order("F-1");
    invalid["signingDetailsFormData"]["state"] = json!("Texas");
    let document = |name| file(name, deed());
    let invalid_form = || form(&invalid).part("documents", document("deed.pdf"));
    let executable = || form(&order("F-1")).part("documents", document("deed.exe"));
    let unknown_part = || form_with_deed("F-1").part("deed", document("deed.pdf"));
    for _ in 0..2 {
        for (request, status, code) in [
            (json().json(&invalid), 400, "validation_failed"),
            (malformed(), 400, "malformed_request"),
            (upload().multipart(invalid_form()), 400, "validation_failed"),
            (upload().multipart(form(&order("F-1"))), 400, "no_documents"),
            (upload().multipart(executable()), 400, "unsupported_document"),
            (upload().multipart(unknown_part()), 400, "malformed_request"),
            (upload().json(&order("F-1")), 415, "unsupported_media_type"),
        ] {
            problem(request.send().await.unwrap(), status, code).await;
        }
    }
    app.assert_untouched();
    first(app.create_with_under(KEY, form_with_deed("F-1")).await).await;

    problem(app.create_under("another", &order("F-1")).await, 409, "duplicate_order").await;
    problem(app.create_with_under("another", form_with_deed("F-1")).await, 409, "duplicate_order")
        .await;
    app.clock.advance(time::Duration::MINUTE);
    first(app.create_under("another", &order("F-1")).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_is_free_after_the_retention_time() {
    let app = TestApp::start_with(&["--idempotency-retention-secs=3600"]).await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    app.clock.advance(time::Duration::seconds(3599));
    assert_eq!(replayed(app.create_under(KEY, &order("F-1")).await).await, body);
    app.clock.advance(time::Duration::SECOND);
    assert_ne!(first(app.create_under(KEY, &order("F-1")).await).await, body);
    assert_eq!(app.rows("orders"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_do_not_share_idempotency_keys() {
    let app = TestApp::start().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    let other = app.issue_key(None).await;
    let other = app.as_key(&other);
    assert_ne!(first(other.create_under(KEY, &order("F-2")).await).await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_api_key_replays_requests_of_the_old_key() {
    let app = TestApp::start().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    let keys = app.storage().manage_keys(app.machine());
    let id = keys.keys.list().await.unwrap()[0].id;
    let new = keys.rotate(id, time::Duration::ZERO, "tests").await.unwrap().1;
    // The service caches a key for this time.
    app.clock.advance(time::Duration::seconds(5));
    problem(app.create_under(KEY, &order("F-1")).await, 401, "unauthorized").await;
    let new = app.as_key(new.expose());
    assert_eq!(replayed(new.create_under(KEY, &order("F-1")).await).await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_header_is_rejected_by_name() {
    let app = TestApp::start().await;
    let operations = || [CREATE, CREATE_WITH_DOCUMENTS].map(|path| app.order_on(path, "F-1"));
    let rejection = async |request: RequestBuilder| {
        let body = problem(request.send().await.unwrap(), 400, "malformed_request").await;
        let detail = body["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("Idempotency-Key"), "{detail}");
        detail
    };
    let long = "x".repeat(256);
    let quoted_long = format!("\"{long}\"");
    for value in [
        "",
        "\"\"",
        " ",
        "two words",
        "a,b",
        "\"open",
        "\"a\", \"b\"",
        long.as_str(),
        quoted_long.as_str(),
        "\u{e9}",
    ] {
        for request in operations() {
            let header = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            let detail = rejection(request.header("Idempotency-Key", header)).await;
            assert!(value.len() < 5 || !detail.contains(value), "{value}: {detail}");
        }
    }
    for request in operations() {
        rejection(request.header("Idempotency-Key", "a").header("Idempotency-Key", "a")).await;
    }
    app.assert_untouched();
    first(app.create_under(&"x".repeat(255), &order("F-1")).await).await;
    first(app.create_under(&format!("\"{}\"", "y".repeat(255)), &order("F-2")).await).await;
}
