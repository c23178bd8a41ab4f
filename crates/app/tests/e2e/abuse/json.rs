//! Malformed and unusual JSON bodies.

use reqwest::header;
use serde_json::json;

use crate::{
    harness::{CREATE, JSON, TestApp, created, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    longest_four_byte_texts_fit_the_body,
}

async fn post(app: &TestApp, body: impl Into<reqwest::Body>) -> reqwest::Response {
    let request = app.post(CREATE).header(header::CONTENT_TYPE, "application/json");
    request.body(body).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_json_is_malformed() {
    let app = TestApp::start().await;
    let valid = order("F-1").to_string();
    let mut latin = valid.clone().into_bytes();
    let at = valid.find("Jane").unwrap();
    latin[at] = 0xE9;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let texts = "|   |null|[]|42|\"order\"|true|{|{}{}|{'a': 1}|{\"a\": NaN}|{}\u{feff}";
    let texts = texts.split('|').map(|text| text.as_bytes().to_vec());
    for body in texts.chain([
        b"\xFF\xFE{\0}\0".to_vec(),
        valid.as_bytes()[..valid.len() - 1].to_vec(),
        latin,
        deep.clone().into_bytes(),
        valid.replace("\"fileNumber\"", "\"fileNumber\":\"F-2\",\"fileNumber\"").into_bytes(),
        valid
            .replace("\"requestedBy\"", "\"requestedBy\":{\"userId\":7},\"requestedBy\"")
            .into_bytes(),
        valid.replace("Jane", "Ja\nne").into_bytes(),
    ]) {
        problem(post(&app, body).await, 400, "malformed_request").await;
    }
    let body = problem(post(&app, "{}").await, 400, "validation_failed").await;
    assert_eq!(body["errors"].as_array().unwrap().len(), 4);
    let nested = valid.replace("\"Jane Doe\"", &deep[99_900..100_100]);
    problem(post(&app, nested).await, 400, "validation_failed").await;
    app.assert_untouched();
    let ignored =
        format!("{{\"surprise\":{},{}", "[".repeat(50_000) + &"]".repeat(50_000), &valid[1..]);
    created(post(&app, ignored).await).await;
    let half = order("F-2").to_string().replace("Jane", "\\ud800Jane");
    let order = created(post(&app, half).await).await;
    assert_eq!(order["signer_name"], "\u{fffd}Jane Doe");
}

#[tokio::test(flavor = "multi_thread")]
async fn body_over_its_limit_is_rejected() {
    let app = TestApp::start().await;
    let mut order = order("F-1");
    order["padding"] = json!("x".repeat(300_000));
    problem(app.create(&order).await, 413, "payload_too_large").await;
    let chunks =
        futures_util::stream::iter((0..40).map(|_| Ok::<_, std::io::Error>(vec![b' '; 10_000])));
    problem(post(&app, reqwest::Body::wrap_stream(chunks)).await, 413, "payload_too_large").await;
    // The announced length alone is enough.
    let head = app.head(CREATE, &format!("{JSON}Content-Length: 9999999999\r\n"));
    app.raw(head).await.assert_problem(413, "payload_too_large");
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_body_leaves_nothing() {
    let app = TestApp::start().await;
    let request = app.raw_order("F-1", "");
    let request = &request[..request.len() - 10];
    let mut stream = std::net::TcpStream::connect(app.address).unwrap();
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    drop(stream);
    created(app.order("F-2").await).await;
    assert_eq!(app.rows("orders"), 1);
}

async fn longest_four_byte_texts_fit_the_body(kind: Kind) {
    let app = kind.app().await;
    let mut order = order(&"é".repeat(100));
    let details = order["signingDetailsFormData"].as_object_mut().unwrap();
    for (name, max_chars) in [
        ("signerName", 200),
        ("propertyAddress", 500),
        ("specialInstructions", 5_000),
        ("spouseName", 200),
        ("signingAddress", 500),
    ] {
        details.insert(name.to_owned(), json!("\u{1f58b}".repeat(max_chars)));
    }
    created(app.create(&order).await).await;
}
