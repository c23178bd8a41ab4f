//! Repeats of finished requests with an `Idempotency-Key`.

use reqwest::{Response, multipart::Form};
use serde_json::Value;

use crate::{
    harness::{Api, CREATE, CREATE_WITH_DOCUMENTS, TestApp, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    repeat_returns_the_first_response_and_creates_nothing,
    key_is_free_after_the_retention_time,
    rotated_api_key_replays_requests_of_the_old_key,
}

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

async fn repeat_returns_the_first_response_and_creates_nothing(kind: Kind) {
    let app = kind.app().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    // The advance below would end the lease of a mail in progress, which would be sent twice.
    app.mails_leave().await;
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

async fn key_is_free_after_the_retention_time(kind: Kind) {
    let app = kind.app_with(&["--idempotency-retention-secs=3600"]).await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    app.clock.advance(time::Duration::seconds(3599));
    assert_eq!(replayed(app.create_under(KEY, &order("F-1")).await).await, body);
    app.clock.advance(time::Duration::SECOND);
    assert_ne!(first(app.create_under(KEY, &order("F-1")).await).await, body);
    assert_eq!(app.rows("orders"), 2);
}

async fn rotated_api_key_replays_requests_of_the_old_key(kind: Kind) {
    let app = kind.app().await;
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
    let long = "x".repeat(256);
    for values in [&["\"\""][..], &["two words"], &[&long], &["a", "a"]] {
        for path in [CREATE, CREATE_WITH_DOCUMENTS] {
            let request = values.iter().fold(app.order_on(path, "F-1"), |request, value| {
                request.header("Idempotency-Key", *value)
            });
            let body = problem(request.send().await.unwrap(), 400, "malformed_request").await;
            let detail = body["detail"].as_str().unwrap();
            assert!(detail.contains("Idempotency-Key"), "{values:?}: {detail}");
        }
    }
    app.assert_untouched();
}
