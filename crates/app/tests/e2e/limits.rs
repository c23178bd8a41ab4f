//! The rate limit.

use domain::{api_key::Rate, manage_keys::KeyTerms};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use reqwest::Response;

use crate::harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp, form_with_deed, order, problem};

fn header(response: &Response, name: &str) -> String {
    response.headers()[name].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_asks_too_often_is_told_when_to_come_back() {
    let app = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=3"]).await;
    for at in 0..3 {
        assert_eq!(app.create(&order(&format!("F-{at}"))).await.status(), 201);
    }
    let refused = app.create(&order("F-3")).await;
    let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=2).contains(&seconds));
    // What the header says of the quota fits what it says of the time to wait.
    assert_eq!(header(&refused, "ratelimit"), format!("\"orders\";r=0;t={seconds}"));
    let body = problem(refused, 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], serde_json::json!(["orders"]));
    assert_eq!(app.rows("orders"), 3);
    let other = app.issue_key(None).await;
    assert_eq!(
        app.client
            .post(app.url(CREATE))
            .bearer_auth(other)
            .json(&order("F-4"))
            .send()
            .await
            .unwrap()
            .status(),
        201
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_guesses_keys_is_slowed_down_and_its_good_key_is_not() {
    let app = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=3"]).await;
    let guess =
        || async { app.client.post(app.url(CREATE)).bearer_auth("guess").send().await.unwrap() };
    for _ in 0..3 {
        problem(guess().await, 401, "unauthorized").await;
    }
    let refused = guess().await;
    assert!(
        refused.headers().contains_key("retry-after")
            && !refused.headers().contains_key("ratelimit")
    );
    let body = problem(refused, 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], serde_json::json!(["failed-authentications"]));
    assert_eq!(app.create(&order("F-1")).await.status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_authenticated_answer_says_what_is_left() {
    let app = TestApp::start_with(&["--rate-per-second=10", "--rate-burst=25"]).await;
    let answers = [
        app.create(&order("F-1")).await,
        app.create(&order("F-1")).await,
        app.create(&serde_json::json!({})).await,
        app.post(CREATE).body("{").send().await.unwrap(),
        app.post(CREATE).header("idempotency-key", "a b").json(&order("F-1")).send().await.unwrap(),
    ];
    for (answer, status) in answers.iter().zip([201, 409, 400, 415, 400]) {
        assert_eq!(answer.status(), status);
        assert_eq!(header(answer, "ratelimit-policy"), r#""orders";q=25;w=3"#);
        assert!(
            header(answer, "ratelimit").starts_with(r#""orders";r=2"#),
            "{}",
            header(answer, "ratelimit")
        );
    }
    assert_eq!(header(&answers[0], "ratelimit"), r#""orders";r=24;t=1"#);
    let unauthenticated =
        app.client.post(app.url(CREATE)).json(&order("F-2")).send().await.unwrap();
    assert!(
        !unauthenticated.headers().contains_key("ratelimit")
            && !unauthenticated.headers().contains_key("ratelimit-policy")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_with_documents_have_a_limit_of_their_own() {
    let app = TestApp::start_with(&[
        "--rate-per-second=1",
        "--rate-burst=3",
        "--documents-rate-per-second=1",
        "--documents-rate-burst=1",
    ])
    .await;
    let answer = app.create_with(form_with_deed("F-1")).await;
    assert_eq!(
        (answer.status().as_u16(), header(&answer, "ratelimit-policy")),
        (201, r#""orders-with-documents";q=1;w=1"#.to_owned())
    );
    let refused = app.create_with(form_with_deed("F-2")).await;
    assert!(header(&refused, "ratelimit").starts_with(r#""orders-with-documents";r=0;t="#));
    let body = problem(refused, 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], serde_json::json!(["orders-with-documents"]));
    assert_eq!(header(&app.create(&order("F-3")).await, "ratelimit"), r#""orders";r=2;t=1"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_a_key_come_before_those_of_the_service() {
    let app = TestApp::start().await;
    let rate = |burst| Some(Rate { per_second: 1, burst });
    let key = app
        .issue_key_on(KeyTerms { rate: rate(2), documents_rate: rate(1), ..KeyTerms::default() })
        .await;
    let with_key = |path: &str| app.client.post(app.url(path)).bearer_auth(&key);
    let answer = with_key(CREATE).json(&order("F-1")).send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), header(&answer, "ratelimit-policy")),
        (201, r#""orders";q=2;w=2"#.to_owned())
    );
    assert_eq!(with_key(CREATE).json(&order("F-2")).send().await.unwrap().status(), 201);
    problem(with_key(CREATE).json(&order("F-3")).send().await.unwrap(), 429, "rate_limited").await;
    assert_eq!(
        with_key(CREATE_WITH_DOCUMENTS)
            .multipart(form_with_deed("F-4"))
            .send()
            .await
            .unwrap()
            .status(),
        201
    );
    problem(
        with_key(CREATE_WITH_DOCUMENTS).multipart(form_with_deed("F-5")).send().await.unwrap(),
        429,
        "rate_limited",
    )
    .await;
    // The service itself has none here.
    assert!(!app.create(&order("F-6")).await.headers().contains_key("ratelimit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_find_no_room_are_turned_away_at_once_and_those_that_have_it_are_placed() {
    let app = TestApp::start_with(&["--max-orders-in-flight=2"]).await;
    let locked = app.wiring.lock_database();
    let mut answers: FuturesUnordered<_> = (0..10)
        .map(|number| app.post(CREATE).json(&order(&format!("F-{number}"))).send())
        .collect();
    for _ in 0..8 {
        // While the others wait.
        let turned_away = answers.next().await.unwrap().unwrap();
        assert_eq!(header(&turned_away, "retry-after"), "1");
        problem(turned_away, 503, "unavailable").await;
    }
    drop(locked);
    while let Some(stored) = answers.next().await {
        assert_eq!(stored.unwrap().status(), 201);
    }
    assert_eq!(app.rows("orders"), 2);
    assert_eq!(app.create(&order("F-10")).await.status(), 201);
    let (_, metrics) = app.ops("/metrics").await;
    assert!(metrics.contains("\nnotary_orders_shed_total 8\n"), "{metrics}");
}
