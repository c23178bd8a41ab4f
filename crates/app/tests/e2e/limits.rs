//! Rate limits and the concurrency limit.

use domain::api_key::{Rate, manage_keys::KeyTerms};
use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use reqwest::{RequestBuilder, Response};

use crate::harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp, order, problem};

fn header(response: &Response, name: &str) -> String {
    response.headers()[name].to_str().unwrap().to_owned()
}

/// Sends requests at once: one after another, they might last until the limit permits more. Returns
/// the responses that have the status, and the only one that has not.
async fn send_at_once<const N: usize>(
    requests: [RequestBuilder; N],
    status: u16,
) -> (Vec<Response>, Response) {
    let sent = join_all(requests.map(RequestBuilder::send)).await;
    let responses = sent.into_iter().map(Result::unwrap);
    let (expected, mut others): (Vec<_>, Vec<_>) =
        responses.partition(|response| response.status() == status);
    assert_eq!((expected.len(), others.len()), (N - 1, 1), "{expected:?} {others:?}");
    (expected, others.remove(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_rate_are_rejected_with_retry_after() {
    let app = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=3"]).await;
    // Requests at once also exceed the rate of unknown keys, after which a new key must wait.
    let other = app.issue_key(None).await;
    let orders = ["F-0", "F-1", "F-2", "F-3"].map(|number| app.order_on(CREATE, number));
    let (_, rejected) = send_at_once(orders, 201).await;
    let seconds: u64 = rejected.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=2).contains(&seconds));
    // Both headers name the same delay.
    assert_eq!(header(&rejected, "ratelimit"), format!("\"orders\";r=0;t={seconds}"));
    let body = problem(rejected, 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], serde_json::json!(["orders"]));
    assert_eq!(app.rows("orders"), 3);
    assert_eq!(app.as_key(&other).order("F-4").await.status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn guessed_keys_are_limited_and_valid_ones_are_not() {
    let app = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=3"]).await;
    let guesses = [(); 4].map(|()| app.as_key("guess").post(CREATE));
    let (responses, rejected) = send_at_once(guesses, 401).await;
    for response in responses {
        problem(response, 401, "unauthorized").await;
    }
    assert!(
        rejected.headers().contains_key("retry-after")
            && !rejected.headers().contains_key("ratelimit")
    );
    let body = problem(rejected, 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], serde_json::json!(["failed-authentications"]));
    assert_eq!(app.order("F-1").await.status(), 201);
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
    let uploads = ["F-1", "F-2"].map(|number| app.order_on(CREATE_WITH_DOCUMENTS, number));
    let (created, rejected) = send_at_once(uploads, 201).await;
    assert_eq!(header(&created[0], "ratelimit-policy"), r#""orders-with-documents";q=1;w=1"#);
    assert!(header(&rejected, "ratelimit").starts_with(r#""orders-with-documents";r=0;t="#));
    let body = problem(rejected, 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], serde_json::json!(["orders-with-documents"]));
    assert_eq!(header(&app.order("F-3").await, "ratelimit"), r#""orders";r=2;t=1"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_key_replace_limits_of_service() {
    let app = TestApp::start().await;
    let rate = |burst| Some(Rate { per_second: 1, burst });
    let key = app
        .issue_key_on(KeyTerms { rate: rate(2), documents_rate: rate(1), ..KeyTerms::default() })
        .await;
    let limited = app.as_key(&key);
    let orders = ["F-1", "F-2", "F-3"].map(|number| limited.order_on(CREATE, number));
    let (created, rejected) = send_at_once(orders, 201).await;
    assert_eq!(header(&created[0], "ratelimit-policy"), r#""orders";q=2;w=2"#);
    problem(rejected, 429, "rate_limited").await;
    let uploads = ["F-4", "F-5"].map(|number| limited.order_on(CREATE_WITH_DOCUMENTS, number));
    let (_, rejected) = send_at_once(uploads, 201).await;
    problem(rejected, 429, "rate_limited").await;
    // The service itself has no limit in this test.
    assert!(!app.order("F-6").await.headers().contains_key("ratelimit"));
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
