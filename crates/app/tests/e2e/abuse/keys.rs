//! Thousands of guessed keys.

use std::time::Instant;

use domain::{
    api_key::{PresentedKey, Rate},
    use_cases::keys::manage_keys::KeyTerms,
};
use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::{Response, StatusCode};

use crate::harness::{CREATE, TestApp, created, patiently, problem};

const GUESSES: usize = 2_000;

/// Returns a well-formed key that was never issued.
fn guess() -> String {
    PresentedKey::random(false, &operator::OsEntropy).expose().to_owned()
}

async fn attempt(app: &TestApp, key: &str, forwarded_for: &str) -> Response {
    let request = app.as_key(key).order_on(CREATE, "F-guessed");
    request.header("X-Forwarded-For", forwarded_for).send().await.unwrap()
}

/// Sends guesses, each with its own forwarded address. Returns how many got 401. The others got
/// 429.
async fn unthrottled(app: &TestApp, guesses: usize) -> usize {
    let statuses = stream::iter(0..guesses).map(|at| async move {
        let key = if at % 2 == 0 { guess() } else { format!("nok_{at}") };
        attempt(app, &key, &format!("192.0.{}.{}", at / 250, at % 250 + 1)).await.status()
    });
    let statuses: Vec<StatusCode> = statuses.buffer_unordered(32).collect().await;
    assert!(statuses.iter().all(|status| [401, 429].contains(&status.as_u16())), "{statuses:?}");
    statuses.iter().filter(|status| **status == StatusCode::UNAUTHORIZED).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn guessed_keys_are_throttled_and_valid_keys_are_not() {
    let app = TestApp::start_with(&["--rate-per-second=5", "--rate-burst=20"]).await;
    let rate = Some(Rate { per_second: 1_000, burst: 1_000 });
    let valid = app.as_key(&app.issue_key_on(KeyTerms { rate, ..KeyTerms::default() }).await);
    let started = Instant::now();
    let guesses = unthrottled(&app, GUESSES);
    let orders = async {
        for at in 0..20 {
            created(patiently(valid.order(&format!("F-{at}"))).await).await;
        }
    };
    let (unthrottled, ()) = futures_util::join!(guesses, orders);
    // A slow machine permits more guesses: the limit is a rate.
    let allowed = 21 + 5 * usize::try_from(started.elapsed().as_secs() + 1).unwrap();
    assert!(
        (20..=allowed).contains(&unthrottled),
        "{unthrottled} of {GUESSES} guesses were not throttled"
    );
    assert_eq!(app.rows("orders"), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn trusted_proxy_addresses_are_throttled_separately() {
    let app = TestApp::start_with(&[
        "--rate-per-second=1",
        "--rate-burst=2",
        "--trusted-proxies=127.0.0.1",
    ])
    .await;
    assert_eq!(unthrottled(&app, 100).await, 100);
    let from = |address| attempt(&app, "nok_guess", address);
    // Only the last address counts: the proxy has written it. A burst of 20 at once is far more than
    // the limit permits, even on a busy machine.
    for forwarded in ["203.0.113.9", "198.51.100.7, 203.0.113.9"] {
        let mut sent = join_all((0..20).map(|_| from(forwarded))).await;
        sent.retain(|response| response.status() == 429);
        let body = problem(sent.remove(0), 429, "rate_limited").await;
        assert_eq!(body["violated-policies"], serde_json::json!(["failed-authentications"]));
    }
    problem(from("203.0.113.9, 198.51.100.7").await, 401, "unauthorized").await;
}
