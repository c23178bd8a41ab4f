//! The headers of every response: they prevent content sniffing and caching, and do not name the
//! server.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use reqwest::{Method, Response, header};
use serde_json::json;

use crate::{
    harness::raw::RawAnswer,
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, PATIENCE, TestApp, created, file, form, order, patiently,
    },
};

/// Whether a cache may store the response.
#[derive(Clone, Copy, PartialEq)]
enum Caching {
    Never,
    /// For files whose path contains their version.
    Forever,
}

async fn assert_safe(response: Response, status: u16, caching: Caching) {
    let (got, headers, url) =
        (response.status(), response.headers().clone(), response.url().clone());
    let body = response.text().await.unwrap();
    assert_eq!(got, status, "{url}: {body}");
    assert_eq!(headers["x-content-type-options"], "nosniff", "{url} {status}");
    let cache_control = if caching == Caching::Forever {
        "public, max-age=31536000, immutable"
    } else {
        "no-store"
    };
    assert_eq!(headers["cache-control"], cache_control, "{url} {status}");
    for banner in ["server", "x-powered-by", "via", "x-aspnet-version"] {
        assert!(!headers.contains_key(banner), "{url} {status}: {banner}");
    }
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap());
    if !body.is_empty() {
        let content_type =
            content_type.unwrap_or_else(|| panic!("{url} {status}: no type for {body:?}"));
        // JSON is always UTF-8 (RFC 8259, section 8.1).
        assert!(
            content_type.ends_with("json") || content_type.ends_with("charset=utf-8"),
            "{url} {status}: {content_type}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_responses_have_safe_headers() {
    let app = TestApp::start_with(&["--rate-per-second=1000", "--rate-burst=1000"]).await;
    let foreign = app.as_key(&app.issue_key(Some(7)).await);
    let large = form(&order("F-4")).part("documents", file("a.pdf", vec![0; 10 * 1024 * 1024 + 1]));
    let keyed =
        async |number| app.order_on(CREATE, number).header("idempotency-key", "one").send().await;
    for (response, status) in [
        (app.order("F-1").await, 201),
        (app.order_with_deed("F-2").await, 201),
        (app.create(&json!({})).await, 400),
        (app.as_key("").order("F-1").await, 401),
        (foreign.order("F-3").await, 403),
        (app.order("F-1").await, 409),
        (app.create_with(large).await, 413),
        (app.post(CREATE).body("x").send().await.unwrap(), 415),
        (keyed("F-5").await.unwrap(), 201),
        (keyed("F-6").await.unwrap(), 422),
    ] {
        assert_safe(response, status, Caching::Never).await;
    }
    app.wiring.spoil_database();
    assert_safe(app.order("F-7").await, 500, Caching::Never).await;
    app.wiring.break_database();
    assert_safe(app.order("F-8").await, 503, Caching::Never).await;

    let limited = TestApp::start_with(&["--rate-per-second=1", "--rate-burst=1"]).await;
    created(limited.order("F-1").await).await;
    assert_safe(limited.order("F-2").await, 429, Caching::Never).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_responses_have_safe_headers() {
    let app = TestApp::start().await;
    let client =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let send = async |method: &str, path: &str| {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        client.request(method, app.url(path)).send().await.unwrap()
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
        assert_safe(send(method, path).await, status, Caching::Never).await;
    }
    for path in
        ["/docs/swagger-ui-5.35.0/swagger-ui-bundle.js", "/docs/swagger-ui-5.35.0/swagger-ui.css"]
    {
        assert_safe(send("GET", path).await, 200, Caching::Forever).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_responses_have_safe_headers() {
    let app = TestApp::start().await;
    let send = async |method: Method, path: &str| {
        app.client.request(method, app.ops_url(path)).send().await.unwrap()
    };
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_safe(send(Method::GET, path).await, 200, Caching::Never).await;
        assert_safe(send(Method::HEAD, path).await, 200, Caching::Never).await;
        assert_safe(send(Method::POST, path).await, 405, Caching::Never).await;
    }
    assert_safe(send(Method::GET, "/").await, 404, Caching::Never).await;
    app.wiring.break_database();
    assert_safe(send(Method::GET, "/readyz").await, 503, Caching::Never).await;
}

/// actix answers these: a status that caches do not store by default (RFC 9110, section
/// 15.1), and no body to sniff.
#[tokio::test(flavor = "multi_thread")]
async fn unparsable_requests_get_a_bare_status() {
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
        let RawAnswer { status: got, head: response, body } = app.raw(head.clone()).await;
        assert_eq!(got, status, "{}", &head[..head.len().min(100)]);
        let response = response.to_lowercase();
        assert!(body.is_null() && response.contains("content-length: 0"), "{response}");
        assert!(response.contains("connection: close"), "{response}");
        assert!(!response.contains("\r\nserver:"), "{response}");
    }
    app.assert_untouched();
    assert_eq!(patiently(app.order("F-1")).await.status(), 201);
}

/// Sends a request of HTTP/1.0. Returns the head and the body of the answer, which ends with its connection.
async fn answer_to_1_0(app: &TestApp, path: &str, connection: &str) -> (String, Vec<u8>) {
    let (address, key) = (app.address, app.key.clone());
    let request = format!(
        "GET {path} HTTP/1.0\r\nauthorization: Bearer {key}\r\naccept-encoding: gzip\r\n\
         connection: {connection}\r\n\r\n"
    );
    let exchanged = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    });
    let answer = exchanged.await.unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_ascii_lowercase();
    (head, answer[end + 4..].to_vec())
}

/// RFC 9112, section 6.1. The length or the end of the connection is the end of a body.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_to_http_1_0_has_chunks() {
    let app = TestApp::start().await;
    created(app.order_with_deed("F-1").await).await;
    // A body without a length ends its connection, whatever the client asked for.
    for (path, connection, beginning, end) in [
        ("/api/order/1/documents.zip", "keep-alive", &b"PK\x03\x04"[..], &b""[..]),
        ("/console/shared/api.js", "close", b"\x1F\x8B", b""),
        ("/api/order/1/documents/0", "close", b"%PDF-", b""),
        ("/api/order/1", "close", b"{", b"}"),
    ] {
        let (head, body) = answer_to_1_0(&app, path, connection).await;
        assert!(head.contains(" 200 ok"), "{path}: {head}");
        assert!(!head.contains("transfer-encoding"), "{path}: {head}");
        assert!(body.starts_with(beginning) && body.ends_with(end), "{path}: {head}");
        match head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
            Some(length) => assert_eq!(length.parse(), Ok(body.len()), "{path}"),
            // The end of the connection is the default of HTTP/1.0.
            None => assert!(!head.contains("keep-alive"), "{path}: {head}"),
        }
    }
    let (_, archive) = answer_to_1_0(&app, "/api/order/1/documents.zip", "close").await;
    assert_eq!(&archive[archive.len() - 22..][..4], b"PK\x05\x06", "the end of a whole archive");
}
