//! Rate limits and the concurrency limit.

use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use reqwest::Response;

use crate::harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp, order, problem};

fn header(response: &Response, name: &str) -> String {
    response.headers()[name].to_str().unwrap().to_owned()
}

/// Sends twelve orders to a path at once. That is far more than a burst of three and one a second
/// permit, even if a busy machine takes seconds. Returns the created ones, and one over the rate.
async fn send_at_once(app: &TestApp, path: &str) -> (Vec<Response>, Response) {
    let orders = (0..12).map(|at| app.order_on(path, &format!("{path} {at}")).send());
    let responses = join_all(orders).await.into_iter().map(Result::unwrap);
    let (created, mut others): (Vec<_>, Vec<_>) =
        responses.partition(|response| response.status() == 201);
    assert!(!created.is_empty() && others.iter().all(|response| response.status() == 429));
    (created, others.pop().expect("one over the rate"))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_rate_are_rejected_with_retry_after() {
    let app = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=3"]).await;
    // Requests at once also exceed the rate of unknown keys, after which a new key must wait.
    let other = app.issue_key(None).await;
    let (created, rejected) = send_at_once(&app, CREATE).await;
    let seconds: u64 = rejected.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=2).contains(&seconds));
    // Both headers name the same delay.
    assert_eq!(header(&rejected, "ratelimit"), format!("\"orders\";r=0;t={seconds}"));
    let body = problem(rejected, 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], serde_json::json!(["orders"]));
    assert_eq!(app.rows("orders"), created.len());
    assert_eq!(app.as_key(&other).order("F-4").await.status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn authenticated_responses_show_remaining_quota() {
    let app = TestApp::start_with(&["--rate-per-second=10", "--rate-burst=25"]).await;
    let responses = [
        app.order("F-1").await,
        app.order("F-1").await,
        app.create(&serde_json::json!({})).await,
        app.post(CREATE).body("{").send().await.unwrap(),
        app.post(CREATE).header("idempotency-key", "a b").json(&order("F-1")).send().await.unwrap(),
    ];
    for (response, status) in responses.iter().zip([201, 409, 400, 415, 400]) {
        assert_eq!(response.status(), status);
        assert_eq!(header(response, "ratelimit-policy"), r#""orders";q=25;w=3"#);
        let quota = header(response, "ratelimit");
        assert!(quota.starts_with(r#""orders";r=2"#), "{quota}");
    }
    assert_eq!(header(&responses[0], "ratelimit"), r#""orders";r=24;t=1"#);
    let without_key = app.client.post(app.url(CREATE)).json(&order("F-2")).send().await.unwrap();
    for name in ["ratelimit", "ratelimit-policy"] {
        assert!(!without_key.headers().contains_key(name), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_have_their_own_rate_limit() {
    let app = TestApp::start_with(&[
        "--rate-per-second=1",
        "--rate-burst=3",
        "--documents-rate-per-second=1",
        "--documents-rate-burst=1",
    ])
    .await;
    let (created, rejected) = send_at_once(&app, CREATE_WITH_DOCUMENTS).await;
    assert_eq!(header(&created[0], "ratelimit-policy"), r#""orders-with-documents";q=1;w=1"#);
    assert!(header(&rejected, "ratelimit").starts_with(r#""orders-with-documents";r=0;t="#));
    let body = problem(rejected, 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], serde_json::json!(["orders-with-documents"]));
    assert_eq!(header(&app.order("F-3").await, "ratelimit"), r#""orders";r=2;t=1"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_concurrency_limit_are_unavailable() {
    let app = TestApp::start_with(&["--max-orders-in-flight=2"]).await;
    let lock = app.wiring.lock_database();
    let mut responses: FuturesUnordered<_> =
        (0..10).map(|number| app.order_on(CREATE, &format!("F-{number}")).send()).collect();
    // Two requests wait for the lock; the others are answered meanwhile.
    for _ in 0..8 {
        let over_limit = responses.next().await.unwrap().unwrap();
        assert_eq!(header(&over_limit, "retry-after"), "1");
        problem(over_limit, 503, "unavailable").await;
    }
    drop(lock);
    while let Some(response) = responses.next().await {
        assert_eq!(response.unwrap().status(), 201);
    }
    assert_eq!(app.rows("orders"), 2);
    assert_eq!(app.order("F-10").await.status(), 201);
    app.assert_metrics(&["notary_orders_shed_total 8"]).await;
}
