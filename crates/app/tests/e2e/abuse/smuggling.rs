//! Requests that two parsers may split in different ways. Each is rejected or has exactly one
//! reading, and an order in the body of another request is never created.

use crate::{
    harness::raw::{answers, exchange},
    harness::{CREATE, CREATE_WITH_DOCUMENTS, JSON, TestApp, order},
};

/// Statuses of the responses to a request and to the request after it on the connection.
type Statuses = &'static [u16];

const REJECTED: Statuses = &[400];
const ONE: Statuses = &[201];
const BOTH: Statuses = &[201, 201];
/// No request follows one that closes the connection, nor chunks or an upgrade, because another reader
/// may see their end elsewhere.
const LAST: Statuses = &[201, 400];

struct Sender {
    app: TestApp,
    number: usize,
}

impl Sender {
    /// Returns the body of a valid order.
    fn body(&mut self) -> String {
        self.number += 1;
        order(&format!("F-{}", self.number)).to_string()
    }

    fn head(&self, line: &str, more: &str) -> String {
        let key = &self.app.key;
        format!("{line}\r\nHost: t\r\nAuthorization: Bearer {key}\r\n{JSON}{more}\r\n")
    }

    /// Returns the head of an order.
    fn post(&self, more: &str) -> String {
        self.head(&format!("POST {CREATE} HTTP/1.1"), more)
    }

    /// Returns a request with one reading, the last one on its connection.
    fn plain(&mut self) -> String {
        let body = self.body();
        self.post(&format!("Content-Length: {}\r\nConnection: close\r\n", body.len())) + &body
    }

    /// Sends bytes, and checks the statuses and the number of new orders.
    async fn expect(&self, case: &str, bytes: impl Into<Vec<u8>>, expected: Statuses) {
        let before = self.app.rows("orders");
        let got = answers(self.app.address, bytes.into()).await;
        assert_eq!(got, expected, "{case}");
        let acknowledged = got.iter().filter(|status| **status == 201).count();
        assert_eq!(self.app.rows("orders") - before, acknowledged, "{case}");
    }
}

async fn sender() -> Sender {
    Sender { app: TestApp::start().await, number: 0 }
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// `LENGTH` in a header stands for the length of the body.
#[tokio::test(flavor = "multi_thread")]
async fn body_has_one_length() {
    let mut sender = sender().await;
    for (headers, in_chunks, expected) in [
        ("Content-Length: LENGTH\r\nTransfer-Encoding: chunked\r\n", true, REJECTED),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", true, REJECTED),
        ("Content-Length: LENGTH\r\nTransfer-Encoding: identity\r\n", false, REJECTED),
        ("Content-Length: LENGTH\r\nContent-Length: LENGTH\r\n", false, REJECTED),
        ("Content-Length: 0\r\nContent-Length: LENGTH\r\n", false, REJECTED),
        ("Content-Length: LENGTH, LENGTH\r\n", false, REJECTED),
        ("Content-Length: +LENGTH\r\n", false, REJECTED),
        ("Content-Length: -1\r\n", false, REJECTED),
        ("Content-Length: LENGTH 0\r\n", false, REJECTED),
        ("Content-Length: 0xff\r\n", false, REJECTED),
        ("Content-Length: 1e3\r\n", false, REJECTED),
        ("Content-Length: \r\n", false, REJECTED),
        ("Content-Length: 18446744073709551616\r\n", false, REJECTED),
        ("Content-Length : LENGTH\r\n", false, REJECTED),
        ("Content-Length: LENGTH\t \r\n", false, BOTH),
        ("Content-Length: 0LENGTH\r\n", false, BOTH),
        ("Transfer-Encoding: chunked\r\n", true, LAST),
        ("transfer-encoding:CHUNKED\r\n", true, LAST),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", true, REJECTED),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", true, REJECTED),
        ("Transfer-Encoding: chunked, chunked\r\n", true, REJECTED),
        ("Transfer-Encoding: gzip, chunked\r\n", true, REJECTED),
        ("Transfer-Encoding: chunked, identity\r\n", true, REJECTED),
        ("Transfer-Encoding: identity\r\n", true, REJECTED),
        ("Transfer-Encoding: xchunked\r\n", true, REJECTED),
        ("Transfer-Encoding: chunked;q=1\r\n", true, REJECTED),
        ("Transfer-Encoding: \u{b}chunked\r\n", true, REJECTED),
        ("Transfer-Encoding : chunked\r\n", true, REJECTED),
        ("Transfer-Encoding\r\n : chunked\r\n", true, REJECTED),
        ("Transfer-Encoding:\r\n chunked\r\n", true, REJECTED),
        // Without a length there is no body, so the body is read as an invalid request.
        ("", false, &[400, 400]),
    ] {
        let body = sender.body();
        let headers = headers.replace("LENGTH", &body.len().to_string());
        let bytes = sender.post(&headers)
            + &if in_chunks { chunked(&body) } else { body }
            + &sender.plain();
        sender.expect(&headers, bytes, expected).await;
    }
}

/// `SIZE` stands for the length of the body, `BODY` for the body.
#[tokio::test(flavor = "multi_thread")]
async fn chunk_has_one_length() {
    let mut sender = sender().await;
    let head = sender.post("Transfer-Encoding: chunked\r\n");
    for (chunks, expected) in [
        ("SIZE\r\nBODY\r\n0\r\n\r\n", LAST),
        ("000SIZE\r\nBODY\r\n0\r\n\r\n", LAST),
        ("SIZE;name=value\r\nBODY\r\n0\r\n\r\n", LAST),
        ("SIZE\r\nBODY\r\n0\r\nContent-Length: 5\r\n\r\n", LAST),
        ("SIZE;name\nBODY\r\n0\r\n\r\n", REJECTED),
        ("SIZE\nBODY\r\n0\r\n\r\n", REJECTED),
        ("SIZE\rBODY\r\n0\r\n\r\n", REJECTED),
        ("SIZE\r\nBODY\n0\r\n\r\n", REJECTED),
        ("SIZE\r\nBODY0\r\n\r\n", REJECTED),
        ("0xSIZE\r\nBODY\r\n0\r\n\r\n", REJECTED),
        ("+SIZE\r\nBODY\r\n0\r\n\r\n", REJECTED),
        ("-1\r\nBODY\r\n0\r\n\r\n", REJECTED),
        (" SIZE\r\nBODY\r\n0\r\n\r\n", REJECTED),
        ("10000000000000SIZE\r\nBODY\r\n0\r\n\r\n", REJECTED),
        ("1\r\nBODY\r\n0\r\n\r\n", REJECTED),
        ("\r\nBODY\r\n0\r\n\r\n", REJECTED),
    ] {
        let body = sender.body();
        let bytes = head.clone()
            + &chunks.replace("SIZE", &format!("{:x}", body.len())).replace("BODY", &body)
            + &sender.plain();
        sender.expect(chunks, bytes, expected).await;
    }
}

/// actix ends a line of a trailer only at CR LF, while a proxy may end it at LF. Then the
/// next head would be a trailer, and the next body a request.
#[tokio::test(flavor = "multi_thread")]
async fn trailer_hides_no_request() {
    let mut sender = sender().await;
    for trailer in [
        "X: y\n\r\n",
        "X: y\n\n",
        "X: y\r\n\n",
        "X: y\n",
        "X\n\r\n",
        "\n",
        "\n\n",
        "\n\r\n",
        "Content-Length: 5\r\n\r\n",
        "0\n\r\n",
        "X: 0\n\r\n",
        "\r\n\r\n\r\n",
    ] {
        let (body, hidden) = (sender.body(), sender.plain());
        let head = sender.post("Transfer-Encoding: chunked\r\n");
        let first = format!("{head}{:x}\r\n{body}\r\n0\r\n{trailer}", body.len());
        // Its length ends with 0, so that its head ends as the last chunk does.
        let width = hidden.len().next_multiple_of(10);
        let hidden = format!("{hidden:width$}");
        let second = sender.post(&format!("Content-Length: {}\r\n", hidden.len()));
        let before = sender.app.rows("orders");
        let got = answers(sender.app.address, (first + &second + &hidden).into_bytes()).await;
        assert_eq!(got[0], 201, "{trailer:?}");
        assert!(got[1..].iter().all(|status| *status == 400), "{trailer:?} {got:?}");
        assert_eq!(sender.app.rows("orders") - before, 1, "{trailer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_has_one_meaning() {
    let mut sender = sender().await;
    let http = |line: &str| format!("{line} HTTP/1.1");
    let post = http(&format!("POST {CREATE}"));
    for (line, headers, expected) in [
        (post.clone(), "X: a\r\n Transfer-Encoding: chunked\r\n", REJECTED),
        (post.clone(), "X: a\r\n\tb\r\n", REJECTED),
        (post.clone(), "X: a\rTransfer-Encoding: chunked\r\n", REJECTED),
        (post.clone(), "X: a\0b\r\n", REJECTED),
        (post.clone(), "X\0: a\r\n", REJECTED),
        (post.clone(), "X y: a\r\n", REJECTED),
        (post.clone(), ": a\r\n", REJECTED),
        (post.clone(), "no colon\r\n", REJECTED),
        (post.clone(), "Host: other\r\n", REJECTED),
        (format!("POST  {CREATE} HTTP/1.1"), "", REJECTED),
        (format!("POST\t{CREATE}\tHTTP/1.1"), "", REJECTED),
        (format!(" POST {CREATE} HTTP/1.1"), "", REJECTED),
        (format!("POST {CREATE} HTTP/1.1 HTTP/1.1"), "", REJECTED),
        (format!("POST {CREATE} HTTP/1.2"), "", REJECTED),
        (format!("POST {CREATE} HTTP/2.0"), "", REJECTED),
        (format!("POST {CREATE} http/1.1"), "", REJECTED),
        (format!("POST {CREATE}"), "", REJECTED),
        (format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{post}"), "", REJECTED),
        (format!("{post}\r\n X: a"), "", REJECTED),
        // Empty lines before a request are ignored (RFC 9112, section 2.2).
        (format!("\r\n\r\n{post}"), "", BOTH),
        // The service has no virtual hosts: only the path counts.
        (http(&format!("POST http://elsewhere.example.com{CREATE}")), "", BOTH),
        (http("POST elsewhere.example.com:80"), "", &[404, 201]),
        (http("POST *"), "", &[404, 201]),
        (http(&format!("GET {CREATE}")), "X-HTTP-Method-Override: POST\r\n", &[405, 201]),
        (http(&format!("POST {CREATE}/../create")), "", &[404, 201]),
        (http(&format!("POST {CREATE}%00")), "", &[405, 201]),
        (
            post.clone(),
            "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\
             HTTP2-Settings: AAMAAABkAAQAAP__\r\n",
            LAST,
        ),
        (format!("POST {CREATE} HTTP/1.0"), "", LAST),
        (format!("POST {CREATE} HTTP/1.0"), "Connection: keep-alive\r\n", BOTH),
    ] {
        let body = sender.body();
        let length = format!("{headers}Content-Length: {}\r\n", body.len());
        let bytes = sender.head(&line, &length) + &body + &sender.plain();
        sender.expect(&format!("{line} {headers}"), bytes, expected).await;
    }
    let body = sender.body();
    let no_chunks = sender
        .head(&format!("POST {CREATE} HTTP/1.0"), "Transfer-Encoding: chunked\r\n")
        + &chunked(&body)
        + &sender.plain();
    sender.expect("HTTP/1.0 has no chunks", no_chunks, REJECTED).await;
    let plain = sender.plain();
    sender.expect("HTTP/0.9", format!("GET /openapi.json\r\n{plain}"), REJECTED).await;
    let plain = sender.plain().replace("Host: t\r\n", "");
    sender.expect("no host", plain, REJECTED).await;
}

/// RFC 9112, section 2.2 lets a recipient accept a lone LF as the end of a line. The service does
/// so in every line of a head, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn lone_line_feed_ends_lines_of_head_only() {
    let mut sender = sender().await;
    let body = sender.body();
    let head = sender.post(&format!("Content-Length: {}\r\n", body.len()));
    let second = sender.plain();
    sender.expect("every line", head.replace("\r\n", "\n") + &body + &second, BOTH).await;
    let body = sender.body();
    let hidden = format!("X: a\nTransfer-Encoding: chunked\r\nContent-Length: {}\r\n", body.len());
    let bytes = sender.post(&hidden) + &chunked(&body) + &sender.plain();
    sender.expect("a header after a line feed", bytes, REJECTED).await;
}

/// The outer request is rejected or needs no body. The order is part of its body.
#[tokio::test(flavor = "multi_thread")]
async fn order_inside_another_body_is_not_created() {
    let mut sender = sender().await;
    let form = "Content-Type: multipart/form-data; boundary=b";
    let key = "Authorization: Bearer ";
    let json = JSON.trim_end();
    let gzip = format!("{json}\r\nContent-Encoding: gzip");
    let (json_order, form_order) =
        (&format!("POST {CREATE}"), &format!("POST {CREATE_WITH_DOCUMENTS}"));
    let cases: [(&str, _, Statuses); 13] = [
        (json_order, (key, "X: "), &[401]),
        (json_order, ("Bearer nok_", "Bearer nok_f"), &[401]),
        (form_order, (key, "X: "), &[401]),
        (form_order, (json, form), REJECTED),
        ("POST /nowhere", ("", ""), &[404]),
        (&format!("PUT {CREATE}"), ("", ""), &[405]),
        (&format!("GET {CREATE}"), ("", ""), &[405]),
        ("GET /openapi.json", ("", ""), &[200]),
        ("HEAD /docs", ("", ""), &[200]),
        (json_order, (json, "Content-Type: text/plain"), &[415]),
        (json_order, (json, &gzip), &[415]),
        (form_order, (json, "Content-Encoding: br"), &[415]),
        (json_order, ("", ""), REJECTED),
    ];
    for (line, change, expected) in cases {
        for in_chunks in [false, true] {
            let hidden = sender.plain();
            let (length, body) = if in_chunks {
                ("Transfer-Encoding: chunked\r\n".to_owned(), chunked(&hidden))
            } else {
                (format!("Content-Length: {}\r\n", hidden.len()), hidden)
            };
            let head = sender.head(&format!("{line} HTTP/1.1"), &length);
            let head =
                if change.0.is_empty() { head } else { head.replacen(change.0, change.1, 1) };
            let case = format!("{head}, in chunks: {in_chunks}");
            sender.expect(&case, head + &body, expected).await;
        }
    }
}

/// The service knows no other protocol and opens no tunnel, so the bytes after are not a request.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_after_upgrade_or_connect_are_ignored() {
    let mut sender = sender().await;
    let body = sender.body();
    let upgrade =
        format!("Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: {}\r\n", body.len());
    let bytes = sender.post(&upgrade) + &body + &sender.plain();
    sender.expect("an upgrade with a body", bytes, REJECTED).await;
    let bytes = sender.head("CONNECT elsewhere.example.com:80 HTTP/1.1", "") + &sender.plain();
    sender.expect("a tunnel", bytes, &[404]).await;
    let bytes = sender
        .head("GET /openapi.json HTTP/1.1", "Upgrade: websocket\r\nConnection: upgrade\r\n")
        + &sender.plain();
    sender.expect("an upgrade", bytes, &[200]).await;
    let plain = sender.plain();
    sender.expect("a plain request", plain, ONE).await;
}

/// actix decodes the next head before it encodes an answer, which then has the form of the next.
/// The service cuts such an answer off.
#[tokio::test(flavor = "multi_thread")]
async fn head_behind_get_takes_no_body_away() {
    let sender = sender().await;
    let one = |method, path| sender.head(&format!("{method} {path} HTTP/1.1"), "");
    for path in ["/openapi.json", "/docs", "/nowhere", "/api/order", "/api/order/7"] {
        for (first, second) in [("GET", "HEAD"), ("HEAD", "GET")] {
            let requests = one(first, path) + &one(second, path);
            let answer = exchange(sender.app.address, requests.into_bytes(), true).await;
            let heads = answer.matches("HTTP/1.1 ").count();
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let length = answer.split_once("content-length: ").map_or(0, |(_, rest)| {
                rest.split("\r\n").next().unwrap().parse::<usize>().unwrap()
            });
            let fits = if first == "GET" { body.len() <= length } else { body.is_empty() };
            assert!(heads <= 1 && fits, "{first} {second} {path}: {heads} {} {length}", body.len());
        }
        let twice = one("GET", path).repeat(2).into_bytes();
        let twice = exchange(sender.app.address, twice, true).await;
        assert_eq!(twice.matches("HTTP/1.1 ").count(), 2, "{path}");
    }
}

/// A request that closes its connection is the last one on it (RFC 9112, sections 9.3 and 9.6).
#[tokio::test(flavor = "multi_thread")]
async fn request_behind_a_closing_one_is_not_carried_out() {
    let mut sender = sender().await;
    for (version, option) in [
        ("HTTP/1.1", "Connection: close\r\n"),
        ("HTTP/1.1", "Connection: TE, Close\r\n"),
        ("HTTP/1.0", ""),
    ] {
        let body = sender.body();
        let length = format!("Content-Length: {}\r\n{option}", body.len());
        let last = sender.head(&format!("POST {CREATE} {version}"), &length) + &body;
        let behind = sender.plain();
        sender.expect(&format!("{version} {option}"), last + &behind, LAST).await;
    }
}

/// Java's `HttpClient` offers `h2c` with every request (RFC 9110, section 7.8; RFC 9112, section 9.6).
#[tokio::test(flavor = "multi_thread")]
async fn answer_to_an_offered_upgrade_says_close() {
    let mut sender = sender().await;
    let ops = sender.app.ops_address;
    let body = sender.body();
    let length = format!("Content-Length: {}\r\n", body.len());
    for offer in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n",
        "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n",
        "Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n",
        "Connection: upgrade\r\n",
    ] {
        let get = |path: &str| sender.head(&format!("GET {path} HTTP/1.1"), offer);
        let lengthy = sender.head("POST /api/webhooks HTTP/1.1", &(length.clone() + offer));
        for (address, request, status) in [
            (sender.app.address, sender.post(&(length.clone() + offer)) + &body, "201 409"),
            (sender.app.address, lengthy + &body, "403"),
            (sender.app.address, get("/docs"), "200"),
            (sender.app.address, get("/nowhere"), "404"),
            (sender.app.address, get(CREATE), "405"),
            (sender.app.address, sender.head("HEAD /docs HTTP/1.1", offer), "200"),
            (ops, get("/healthz"), "200"),
            (ops, get("/nowhere"), "404"),
        ] {
            let answer = exchange(address, request.clone().into_bytes(), false).await;
            let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
            assert!(status.contains(&head[9..12]), "{request} {head}");
            let connections: Vec<_> =
                head.lines().filter(|line| line.starts_with("connection:")).collect();
            assert_eq!(connections, ["connection: close"], "{request}");
        }
    }
    let behind = sender.head("GET /docs HTTP/1.1", "")
        + &sender.head("GET /docs HTTP/1.1", "Connection: upgrade\r\nUpgrade: h2c\r\n");
    let answer = exchange(sender.app.address, behind.into_bytes(), true).await;
    assert!(!answer.to_lowercase().contains("connection: upgrade"), "{answer}");
}
