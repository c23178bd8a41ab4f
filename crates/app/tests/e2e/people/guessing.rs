//! Guessed sessions and sign-ins, throttled as guessed keys are.

use std::{future::ready, pin::pin, time::Instant};

use domain::person::{Role, Token};
use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::harness::{
    TestApp,
    page::{CLIENT, Page, signed_in},
    problem,
};

const SLOW: [&str; 3] = ["--rate-per-second=1", "--rate-burst=2", "--trusted-proxies=127.0.0.1"];

/// Sends requests at once, and asserts that some get 401, as many as [`SLOW`] permits, and the others 429.
async fn assert_throttled(requests: Vec<RequestBuilder>) {
    let (began, sent) = (Instant::now(), requests.len());
    let answers = join_all(requests.into_iter().map(RequestBuilder::send)).await;
    // A slow machine permits more guesses: the limit is a rate.
    let most = 3 + began.elapsed().as_secs();
    let statuses: Vec<_> = answers.into_iter().map(|it| it.unwrap().status().as_u16()).collect();
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    let unthrottled = statuses.iter().filter(|status| **status == 401).count() as u64;
    assert!((2..=most).contains(&unthrottled), "{unthrottled} of {sent} were not throttled");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessed_cookies_of_an_address_are_throttled_and_sessions_are_not() {
    let app = TestApp::start_with(&SLOW).await;
    let (_, ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let guesses = (0..20).map(|_| {
        let guess = Token::random(&operator::OsEntropy).expose().to_owned();
        let page = Page { session: Some(guess), ..ann.clone() };
        page.request(Method::GET, "/api/session")
    });
    assert_throttled(guesses.collect()).await;
    // The same address, and a session that is.
    let valid = ann.request(Method::GET, "/api/session").send().await.unwrap();
    assert_eq!(valid.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_tab_holds_up_no_key_and_no_sign_in_of_its_address() {
    let app = TestApp::start_with(&SLOW).await;
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let old = ann.clone();
    ann.call(Method::DELETE, "/api/session", None).await;
    assert_throttled((0..20).map(|_| old.request(Method::GET, "/api/order")).collect()).await;
    // The count of failures of the address is still full: a wrong key is told so, twice.
    for _ in 0..2 {
        let wrong = app.as_key("nok_0123456789abcdef_x").get("/api/order").await;
        problem(wrong, 401, "unauthorized").await;
    }
    ann.sign_in().await;
}

/// From many addresses.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_passkeys_of_a_person_are_throttled() {
    let app = TestApp::start_with(&SLOW).await;
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let mut guesses = Vec::new();
    for address in 1..=20 {
        let mut credential = ann.credential(json!({ "purpose": "sign_in" })).await;
        // Another signature: one that the key has not made.
        let mut signature = credential["response"]["signature"].as_str().unwrap().to_owned();
        let other = if signature[40..].starts_with('A') { "B" } else { "A" };
        signature.replace_range(40..41, other);
        credential["response"]["signature"] = json!(signature);
        let finish = ann.request(Method::POST, "/api/session/passkey/finish");
        let finish = finish.header("x-forwarded-for", format!("192.0.2.{address}"));
        guesses.push(finish.json(&json!({ "credential": credential })));
    }
    assert_throttled(guesses).await;
    // Her own is not held up.
    ann.sign_in().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_ins_that_an_address_begins_are_throttled() {
    let app = TestApp::start().await;
    let page = Page::of(&app);
    let begin = || {
        let begin = page.request(Method::POST, "/api/session/passkey");
        begin.json(&json!({ "purpose": "sign_in" })).send()
    };
    // Many at a time: a slow machine regains two each second.
    let answers = stream::iter(0..200).map(|_| begin()).buffer_unordered(32);
    let mut refused = pin!(answers.filter_map(|answer| {
        let answer = answer.unwrap();
        ready((answer.status() != 200).then_some(answer))
    }));
    let refused = refused.next().await;
    let body = problem(refused.unwrap(), 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], json!(["begun-sign-ins"]));
    assert!(app.rows("ceremonies") < 200);
}
