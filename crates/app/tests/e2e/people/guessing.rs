//! Guessed sessions and sign-ins, throttled as guessed keys are.

use domain::person::{Role, Token};
use reqwest::Method;
use serde_json::json;

use crate::harness::{
    TestApp,
    page::{CLIENT, Page, signed_in},
    problem,
};

const SLOW: [&str; 3] = ["--rate-per-second=1", "--rate-burst=2", "--trusted-proxies=127.0.0.1"];

#[tokio::test(flavor = "multi_thread")]
async fn guessed_cookies_of_an_address_are_throttled_and_sessions_are_not() {
    let app = TestApp::start_with(&SLOW).await;
    let (_, ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let mut codes = Vec::new();
    for _ in 0..20 {
        let guess = Token::random(&operator::OsEntropy).expose().to_owned();
        let page = Page { session: Some(guess), ..ann.clone() };
        codes.push(
            page.request(Method::GET, "/api/session").send().await.unwrap().status().as_u16(),
        );
    }
    assert_eq!(codes[..2], [401, 401]);
    assert!(codes.iter().filter(|code| **code == 429).count() > 10, "{codes:?}");
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
    let mut codes = Vec::new();
    for _ in 0..20 {
        let answer = old.request(Method::GET, "/api/order").send().await.unwrap();
        codes.push(answer.status().as_u16());
    }
    assert!(codes.contains(&401) && codes.contains(&429), "{codes:?}");
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
    let mut codes = Vec::new();
    for address in 1..=20 {
        let mut credential = ann.credential(json!({ "purpose": "sign_in" })).await;
        // Another signature: one that the key has not made.
        let mut signature = credential["response"]["signature"].as_str().unwrap().to_owned();
        let other = if signature[40..].starts_with('A') { "B" } else { "A" };
        signature.replace_range(40..41, other);
        credential["response"]["signature"] = json!(signature);
        let finish = ann.request(Method::POST, "/api/session/passkey/finish");
        let finish = finish.header("x-forwarded-for", format!("192.0.2.{address}"));
        let answer = finish.json(&json!({ "credential": credential })).send().await.unwrap();
        codes.push(answer.status().as_u16());
    }
    assert_eq!(codes[..2], [401, 401]);
    assert!(codes.iter().filter(|code| **code == 429).count() > 5, "{codes:?}");
    // Her own is not held up.
    ann.sign_in().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_ins_that_an_address_begins_are_throttled() {
    let app = TestApp::start().await;
    let page = Page::of(&app);
    let mut refused = None;
    for _ in 0..200 {
        let begin = page.request(Method::POST, "/api/session/passkey");
        let answer = begin.json(&json!({ "purpose": "sign_in" })).send().await.unwrap();
        if answer.status() != 200 {
            refused = Some(answer);
            break;
        }
    }
    let body = problem(refused.unwrap(), 429, "rate_limited").await;
    assert_eq!(body["violated-policies"], json!(["begun-sign-ins"]));
    assert!(app.rows("ceremonies") < 200);
}
