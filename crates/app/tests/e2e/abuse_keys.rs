//! Keys that are guessed by the thousand.

use std::time::{Duration, Instant};

use domain::api_key::PresentedKey;
use futures_util::{StreamExt as _, stream};
use reqwest::{Response, StatusCode};

use crate::harness::{CREATE, TestApp, created, order, problem};

const GUESSES: usize = 2_000;

/// What nobody was ever given, and looks as if.
fn guess() -> String {
    PresentedKey::random(false, &app::OsEntropy).expose().to_owned()
}

async fn attempt(app: &TestApp, key: &str, forwarded_for: String) -> Response {
    app.client
        .post(app.url(CREATE))
        .bearer_auth(key)
        .header("X-Forwarded-For", forwarded_for)
        .json(&order("F-guessed"))
        .send()
        .await
        .unwrap()
}

/// How many of so many guesses were answered 401, the others 429. Each claims to come from an
/// address of its own.
async fn unthrottled(app: &TestApp, guesses: usize) -> usize {
    let statuses = stream::iter(0..guesses).map(|at| async move {
        let key = if at % 2 == 0 { guess() } else { format!("nok_{at}") };
        attempt(app, &key, format!("192.0.{}.{}", at / 250, at % 250 + 1)).await.status()
    });
    let statuses: Vec<StatusCode> = statuses.buffer_unordered(32).collect().await;
    assert!(statuses.iter().all(|status| [401, 429].contains(&status.as_u16())), "{statuses:?}");
    statuses.iter().filter(|status| **status == StatusCode::UNAUTHORIZED).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_guesses_is_throttled_whatever_address_he_claims_and_others_there_are_not() {
    let app = TestApp::start_with(&["--rate-per-second=5", "--rate-burst=20"]).await;
    let good = app.issue_key_on(domain::manage_keys::KeyTerms {
        rate: Some(domain::api_key::Rate { per_second: 1_000, burst: 1_000 }),
        ..domain::manage_keys::KeyTerms::default()
    });
    let good = good.await;
    let began = Instant::now();
    let guessing = unthrottled(&app, GUESSES);
    let ordering = async {
        for at in 0..20 {
            let (asked, order) = (Instant::now(), order(&format!("F-{at}")));
            created(
                app.client
                    .post(app.url(CREATE))
                    .bearer_auth(&good)
                    .json(&order)
                    .send()
                    .await
                    .unwrap(),
            )
            .await;
            assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
        }
    };
    let (unthrottled, ()) = futures_util::join!(guessing, ordering);
    let allowed = 21 + 5 * usize::try_from(began.elapsed().as_secs() + 1).unwrap();
    assert!(
        (20..=allowed).contains(&unthrottled),
        "{unthrottled} of {GUESSES} guesses were looked at"
    );
    assert_eq!(app.rows("orders"), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_trusted_proxy_each_address_is_throttled_by_itself() {
    let app = TestApp::start_with(&[
        "--rate-per-second=1",
        "--rate-burst=2",
        "--trusted-proxies=127.0.0.1",
    ])
    .await;
    assert_eq!(unthrottled(&app, 100).await, 100);
    let from = |address: &str| attempt(&app, "nok_guess", address.to_owned());
    for _ in 0..2 {
        problem(from("203.0.113.9").await, 401, "unauthorized").await;
    }
    problem(from("203.0.113.9").await, 429, "rate_limited").await;
    // Only what the proxy has written, which is the last of them.
    problem(from("198.51.100.7, 203.0.113.9").await, 429, "rate_limited").await;
    problem(from("203.0.113.9, 198.51.100.7").await, 401, "unauthorized").await;
}
