//! The headers of every answer: nothing is to be guessed of it, nothing kept, and nothing told of
//! the server.

use std::time::Duration;

use reqwest::{Method, Response, header};
use serde_json::json;

use crate::harness::{
    CREATE, CREATE_WITH_DOCUMENTS, RawAnswer, TestApp, created, file, form, form_with_deed, order,
};

/// Whether whoever stands between may keep the answer.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    Never,
    /// What stands at the path never changes, and is nobody's.
    Always,
}

async fn assert_safe(response: Response, status: u16, keep: Keep) {
    let (got, headers, url) =
        (response.status(), response.headers().clone(), response.url().clone());
    let body = response.text().await.unwrap();
    assert_eq!(got, status, "{url}: {body}");
    assert_eq!(headers["x-content-type-options"], "nosniff", "{url} {status}");
    let caching =
        if keep == Keep::Always { "public, max-age=31536000, immutable" } else { "no-store" };
    assert_eq!(headers["cache-control"], caching, "{url} {status}");
    for banner in ["server", "x-powered-by", "via", "x-aspnet-version"] {
        assert!(!headers.contains_key(banner), "{url} {status}: {banner}");
    }
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap());
    if !body.is_empty() {
        let content_type =
            content_type.unwrap_or_else(|| panic!("{url} {status}: what is {body:?}"));
        // JSON is UTF-8 always (RFC 8259 section 8.1).
        assert!(
            content_type.ends_with("json") || content_type.ends_with("charset=utf-8"),
            "{url} {status}: {content_type}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_the_api_has_them() {
    let app = TestApp::start_with(&["--rate-per-second=1000", "--rate-burst=1000"]).await;
    let refused = |order: serde_json::Value| app.post(CREATE).json(&order).send();
    assert_safe(app.create(&order("F-1")).await, 201, Keep::Never).await;
    assert_safe(app.create_with(form_with_deed("F-2")).await, 201, Keep::Never).await;
    assert_safe(refused(json!({})).await.unwrap(), 400, Keep::Never).await;
    assert_safe(app.client.post(app.url(CREATE)).send().await.unwrap(), 401, Keep::Never).await;
    let foreign = app.issue_key(Some(7)).await;
    assert_safe(
        app.client
            .post(app.url(CREATE))
            .bearer_auth(foreign)
            .json(&order("F-3"))
            .send()
            .await
            .unwrap(),
        403,
        Keep::Never,
    )
    .await;
    assert_safe(refused(order("F-1")).await.unwrap(), 409, Keep::Never).await;
    let large = form(&order("F-4")).part("documents", file("a.pdf", vec![0; 10 * 1024 * 1024 + 1]));
    assert_safe(app.create_with(large).await, 413, Keep::Never).await;
    assert_safe(app.post(CREATE).body("x").send().await.unwrap(), 415, Keep::Never).await;
    for (number, status) in [("F-5", 201), ("F-6", 422)] {
        assert_safe(
            app.post(CREATE)
                .header("idempotency-key", "one")
                .json(&order(number))
                .send()
                .await
                .unwrap(),
            status,
            Keep::Never,
        )
        .await;
    }
    app.wiring.spoil_database();
    assert_safe(refused(order("F-7")).await.unwrap(), 500, Keep::Never).await;
    app.wiring.break_database();
    assert_safe(refused(order("F-8")).await.unwrap(), 503, Keep::Never).await;

    let slow = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=1"]).await;
    created(slow.create(&order("F-1")).await).await;
    assert_safe(slow.create(&order("F-2")).await, 429, Keep::Never).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_has_every_answer_beside_the_operations() {
    let app = TestApp::start().await;
    let client =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let ask = async |method: &str, path: &str| {
        client
            .request(Method::from_bytes(method.as_bytes()).unwrap(), app.url(path))
            .send()
            .await
            .unwrap()
    };
    for (method, path, status) in [
        ("GET", "/docs", 200),
        ("GET", "/docs/docs.js", 200),
        ("GET", "/docs/", 308),
        ("GET", "/openapi.json", 200),
        ("HEAD", "/openapi.json", 200),
        ("POST", "/openapi.json", 405),
        ("GET", "/nowhere", 404),
        ("HEAD", "/nowhere", 404),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404),
        ("GET", CREATE, 405),
        ("OPTIONS", CREATE, 405),
        ("TRACE", CREATE_WITH_DOCUMENTS, 405),
    ] {
        assert_safe(ask(method, path).await, status, Keep::Never).await;
    }
    for path in
        ["/docs/swagger-ui-5.35.0/swagger-ui-bundle.js", "/docs/swagger-ui-5.35.0/swagger-ui.css"]
    {
        assert_safe(ask("GET", path).await, 200, Keep::Always).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn so_has_every_answer_to_operators() {
    let app = TestApp::start().await;
    let ask = async |method: Method, path: &str| {
        app.client.request(method, app.ops_url(path)).send().await.unwrap()
    };
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_safe(ask(Method::GET, path).await, 200, Keep::Never).await;
        assert_safe(ask(Method::POST, path).await, 404, Keep::Never).await;
    }
    assert_safe(ask(Method::GET, "/").await, 404, Keep::Never).await;
    app.wiring.break_database();
    assert_safe(ask(Method::GET, "/readyz").await, 503, Keep::Never).await;
}

/// What is no request is answered by the framework alone: nothing but a status that no cache keeps
/// unasked (RFC 9110 section 15.1), and no body whose type anybody could guess.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_gets_a_bare_status() {
    let app = TestApp::start().await;
    let post = format!("POST {CREATE} HTTP/1.1\r\nHost: t\r\n");
    for (head, status) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        (format!("{post}Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"), 400),
        (format!("{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400),
        (format!("{post}Content-Length: -1\r\n\r\n"), 400),
        (format!("{post}Bad\u{1} Name: x\r\n\r\n"), 400),
        (format!("{post}{}\r\n", "X-Many: x\r\n".repeat(200)), 431),
    ] {
        let RawAnswer { status: got, head: answer, body } =
            app.raw(head.clone().into_bytes()).await;
        assert_eq!(got, status, "{}", &head[..head.len().min(100)]);
        let answer = answer.to_lowercase();
        assert!(body.is_null() && answer.contains("content-length: 0"), "{answer}");
        assert!(
            !answer.contains("\r\nserver:") && answer.contains("connection: close"),
            "{answer}"
        );
    }
    app.assert_untouched();
    // A connection that was closed for one is none for another.
    assert_eq!(
        tokio::time::timeout(Duration::from_secs(10), app.create(&order("F-1")))
            .await
            .unwrap()
            .status(),
        201
    );
}
