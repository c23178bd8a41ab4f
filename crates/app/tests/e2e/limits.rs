//! The rate limit.

use crate::harness::{CREATE, TestApp, order, problem};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_asks_too_often_is_told_when_to_come_back() {
    let app = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=3"]).await;
    for at in 0..3 {
        assert_eq!(app.create(&order(&format!("F-{at}"))).await.status(), 201);
    }
    let refused = app.create(&order("F-3")).await;
    let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=2).contains(&seconds));
    problem(refused, 429, "rate_limited").await;
    assert_eq!(app.rows("orders"), 3);
    let other = app.issue_key(None).await;
    assert_eq!(app.client.post(app.url(CREATE)).bearer_auth(other).json(&order("F-4")).send().await.unwrap().status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_guesses_keys_is_slowed_down_and_its_good_key_is_not() {
    let app = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=3"]).await;
    let guess = || async { app.client.post(app.url(CREATE)).bearer_auth("guess").send().await.unwrap() };
    for _ in 0..3 {
        problem(guess().await, 401, "unauthorized").await;
    }
    let refused = guess().await;
    assert!(refused.headers().contains_key("retry-after"));
    problem(refused, 429, "rate_limited").await;
    assert_eq!(app.create(&order("F-1")).await.status(), 201);
}
