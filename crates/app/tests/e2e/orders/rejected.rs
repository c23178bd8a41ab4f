//! Requests that are rejected for what they say, and the mails about them to the contact of the key.

use domain::{order::EmailAddress, use_cases::keys::manage_keys::KeyTerms};
use reqwest::Method;
use serde_json::{Value, json};
use time::Duration;

use crate::{
    harness::{Api, TestApp, created, errors, eventually, eventually_async, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    contact_of_a_key_is_told_of_rejected_orders_once_an_hour,
    counts_of_rejected_requests_survive_a_restart,
    mail_about_rejected_requests_is_sent_again_when_the_relay_is_back,
}

const CONTACT: &str = "it@title.example.com";

/// Returns an order of a program that knows a field by another name.
fn renamed(file_number: &str) -> Value {
    let mut order = order(file_number);
    let details = order["signingDetailsFormData"].as_object_mut().unwrap();
    let name = details.remove("signerName").unwrap();
    details.insert("signer_full_name".to_owned(), name);
    order
}

/// Returns the client of a key with a contact.
async fn told(app: &TestApp) -> Api {
    let contact = EmailAddress::try_from(CONTACT.to_owned()).ok();
    app.as_key(&app.issue_key_on(KeyTerms { contact, ..KeyTerms::default() }).await)
}

/// Waits until the service has stored counts of this many requests.
async fn stored(app: &TestApp, requests: usize) {
    let sum = "SELECT coalesce(sum(requests), 0) FROM rejected_requests";
    eventually(|| app.wiring.lines(sum) == [requests.to_string()]).await;
}

async fn contact_of_a_key_is_told_of_rejected_orders_once_an_hour(kind: Kind) {
    let app = kind.app().await;
    let client = told(&app).await;
    assert_eq!(client.read("/api/key").await["rejected_last_day"], json!({}));
    let mut request_ids = Vec::new();
    for number in 0..3 {
        let answer = client.create(&renamed(&format!("F-{number}"))).await;
        let problem = problem(answer, 400, "validation_failed").await;
        assert_eq!(errors(&problem), [("/signingDetailsFormData/signerName", "required")]);
        request_ids.push(problem["request_id"].as_str().unwrap().to_owned());
    }
    // Neither what another key does, nor what is right or not there, nor a wrong moment.
    problem(app.create(&renamed("F-1")).await, 400, "validation_failed").await;
    created(client.order("F-1").await).await;
    problem(client.order("F-1").await, 409, "duplicate_order").await;
    let missing = client.request(Method::PUT, "/api/order/999").json(&order("F-9"));
    problem(missing.send().await.unwrap(), 404, "not_found").await;
    let counts = json!({ "validation_failed": 3 });
    assert_eq!(client.read("/api/key").await["rejected_last_day"], counts);
    stored(&app, 4).await;
    // The mail of the order, whose lease would end.
    app.mails(1).await;
    app.clock.advance(Duration::seconds(31));

    let mails = app.mails(2).await;
    let mail = mails.iter().find(|mail| mail.contains(&format!("To: {CONTACT}"))).unwrap();
    let expected = [
        "Subject: 3 requests of an API key rejected",
        "validation_failed: 3 requests",
        "/signingDetailsFormData/signerName (required)",
    ];
    for part in expected.into_iter().chain(request_ids.iter().map(String::as_str)) {
        assert!(mail.contains(part), "{part}: {mail}");
    }
    assert!(!mail.contains("Jane") && !mail.contains("F-0"), "{mail}");

    problem(client.create(&renamed("F-4")).await, 400, "validation_failed").await;
    stored(&app, 5).await;
    let untold = "SELECT sum(told) FROM rejected_requests";
    eventually(|| app.wiring.lines(untold) == ["3"]).await;
    app.clock.advance(Duration::minutes(61));
    let mails = app.mails(3).await;
    assert!(mails.iter().any(|mail| mail.contains("Subject: 1 request of an API key rejected")));
    app.clock.advance(Duration::DAY);
    eventually_async(async || client.read("/api/key").await["rejected_last_day"] == json!({}))
        .await;
}

async fn counts_of_rejected_requests_survive_a_restart(kind: Kind) {
    let app = kind.app().await;
    for _ in 0..2 {
        problem(app.create(&renamed("F-1")).await, 400, "validation_failed").await;
    }
    let app = app.restart(&[]).await;
    let counts = json!({ "validation_failed": 2 });
    assert_eq!(app.read("/api/key").await["rejected_last_day"], counts);
    problem(app.create(&renamed("F-1")).await, 400, "validation_failed").await;
    let counts = json!({ "validation_failed": 3 });
    assert_eq!(app.read("/api/key").await["rejected_last_day"], counts);
}

async fn mail_about_rejected_requests_is_sent_again_when_the_relay_is_back(kind: Kind) {
    let app = kind.app().await;
    let client = told(&app).await;
    app.wiring.break_mail();
    problem(client.create(&renamed("F-1")).await, 400, "validation_failed").await;
    stored(&app, 1).await;
    app.clock.advance(Duration::seconds(31));
    let tried = "SELECT count(*) FROM api_keys WHERE next_rejected_mail_at IS NOT NULL";
    eventually(|| app.wiring.lines(tried) == ["1"]).await;
    app.wiring.mend_mail();
    // The attempt may still be going on, and the next one is due a minute after its failure.
    let is_mailed = || {
        app.clock.advance(Duration::seconds(2));
        !app.wiring.mails().is_empty()
    };
    eventually(is_mailed).await;
    app.mails(1).await;
}
