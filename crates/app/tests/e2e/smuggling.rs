//! Requests whose end, or whose lines, two parsers may see in different places. Each is refused, or
//! read in exactly one way; and an order that hides in the body of another request is never placed.

use crate::harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp, answers, order};

/// Statuses of the answers to a request and, where that is not the end, to what follows it on the
/// connection.
type Answers = &'static [u16];

const REFUSED: Answers = &[400];
const ONE: Answers = &[201];
const BOTH: Answers = &[201, 201];

struct Sender {
    app: TestApp,
    number: usize,
}

impl Sender {
    /// A body that places an order, if it is taken for one.
    fn body(&mut self) -> String {
        self.number += 1;
        order(&format!("F-{}", self.number)).to_string()
    }

    fn head(&self, line: &str, more: &str) -> String {
        format!(
            "{line}\r\nHost: t\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{more}\r\n",
            self.app.key
        )
    }

    /// A request that nobody misunderstands, and the last one on its connection.
    fn plain(&mut self) -> String {
        let body = self.body();
        self.head(
            &format!("POST {CREATE} HTTP/1.1"),
            &format!("Content-Length: {}\r\nConnection: close\r\n", body.len()),
        ) + &body
    }

    /// Sends bytes, and sees that there are as many orders more as were acknowledged.
    async fn expect(&self, what: &str, bytes: impl Into<Vec<u8>>, expected: Answers) {
        let before = self.app.rows("orders");
        let got = answers(self.app.address(), bytes.into()).await;
        assert_eq!(got, expected, "{what}");
        let acknowledged = got.iter().filter(|status| **status == 201).count();
        assert_eq!(
            self.app.rows("orders") - before,
            i64::try_from(acknowledged).unwrap(),
            "{what}"
        );
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
async fn a_body_has_one_length() {
    let mut sender = sender().await;
    let post = format!("POST {CREATE} HTTP/1.1");
    for (headers, in_chunks, expected) in [
        ("Content-Length: LENGTH\r\nTransfer-Encoding: chunked\r\n", true, REFUSED),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", true, REFUSED),
        ("Content-Length: LENGTH\r\nTransfer-Encoding: identity\r\n", false, REFUSED),
        ("Content-Length: LENGTH\r\nContent-Length: LENGTH\r\n", false, REFUSED),
        ("Content-Length: 0\r\nContent-Length: LENGTH\r\n", false, REFUSED),
        ("Content-Length: LENGTH, LENGTH\r\n", false, REFUSED),
        ("Content-Length: +LENGTH\r\n", false, REFUSED),
        ("Content-Length: -1\r\n", false, REFUSED),
        ("Content-Length: LENGTH 0\r\n", false, REFUSED),
        ("Content-Length: 0xff\r\n", false, REFUSED),
        ("Content-Length: 1e3\r\n", false, REFUSED),
        ("Content-Length: \r\n", false, REFUSED),
        ("Content-Length: 18446744073709551616\r\n", false, REFUSED),
        ("Content-Length : LENGTH\r\n", false, REFUSED),
        ("Content-Length: LENGTH\t \r\n", false, BOTH),
        ("Content-Length: 0LENGTH\r\n", false, BOTH),
        ("Transfer-Encoding: chunked\r\n", true, BOTH),
        ("transfer-encoding:CHUNKED\r\n", true, BOTH),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", true, REFUSED),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", true, REFUSED),
        ("Transfer-Encoding: chunked, chunked\r\n", true, REFUSED),
        ("Transfer-Encoding: gzip, chunked\r\n", true, REFUSED),
        ("Transfer-Encoding: chunked, identity\r\n", true, REFUSED),
        ("Transfer-Encoding: identity\r\n", true, REFUSED),
        ("Transfer-Encoding: xchunked\r\n", true, REFUSED),
        ("Transfer-Encoding: chunked;q=1\r\n", true, REFUSED),
        ("Transfer-Encoding: \u{b}chunked\r\n", true, REFUSED),
        ("Transfer-Encoding : chunked\r\n", true, REFUSED),
        ("Transfer-Encoding\r\n : chunked\r\n", true, REFUSED),
        ("Transfer-Encoding:\r\n chunked\r\n", true, REFUSED),
        // Without a length there is no body, and what follows is no request.
        ("", false, &[400, 400]),
    ] {
        let body = sender.body();
        let headers = headers.replace("LENGTH", &body.len().to_string());
        let bytes = sender.head(&post, &headers)
            + &if in_chunks { chunked(&body) } else { body }
            + &sender.plain();
        sender.expect(&headers, bytes, expected).await;
    }
}

/// `SIZE` stands for the length of the body, `BODY` for the body.
#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_has_one_length() {
    let mut sender = sender().await;
    let head = sender.head(&format!("POST {CREATE} HTTP/1.1"), "Transfer-Encoding: chunked\r\n");
    for (chunks, expected) in [
        ("SIZE\r\nBODY\r\n0\r\n\r\n", BOTH),
        ("000SIZE\r\nBODY\r\n0\r\n\r\n", BOTH),
        ("SIZE;name=value\r\nBODY\r\n0\r\n\r\n", BOTH),
        ("SIZE\r\nBODY\r\n0\r\nContent-Length: 5\r\n\r\n", BOTH),
        ("SIZE;name\nBODY\r\n0\r\n\r\n", REFUSED),
        ("SIZE\nBODY\r\n0\r\n\r\n", REFUSED),
        ("SIZE\rBODY\r\n0\r\n\r\n", REFUSED),
        ("SIZE\r\nBODY\n0\r\n\r\n", REFUSED),
        ("SIZE\r\nBODY0\r\n\r\n", REFUSED),
        ("0xSIZE\r\nBODY\r\n0\r\n\r\n", REFUSED),
        ("+SIZE\r\nBODY\r\n0\r\n\r\n", REFUSED),
        ("-1\r\nBODY\r\n0\r\n\r\n", REFUSED),
        (" SIZE\r\nBODY\r\n0\r\n\r\n", REFUSED),
        ("10000000000000SIZE\r\nBODY\r\n0\r\n\r\n", REFUSED),
        ("1\r\nBODY\r\n0\r\n\r\n", REFUSED),
        ("\r\nBODY\r\n0\r\n\r\n", REFUSED),
    ] {
        let body = sender.body();
        let bytes = head.clone()
            + &chunks.replace("SIZE", &format!("{:x}", body.len())).replace("BODY", &body)
            + &sender.plain();
        sender.expect(chunks, bytes, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_has_one_meaning() {
    let mut sender = sender().await;
    let http = |line: &str| format!("{line} HTTP/1.1");
    let post = http(&format!("POST {CREATE}"));
    for (line, headers, expected) in [
        (post.clone(), "X: a\r\n Transfer-Encoding: chunked\r\n", REFUSED),
        (post.clone(), "X: a\r\n\tb\r\n", REFUSED),
        (post.clone(), "X: a\rTransfer-Encoding: chunked\r\n", REFUSED),
        (post.clone(), "X: a\0b\r\n", REFUSED),
        (post.clone(), "X\0: a\r\n", REFUSED),
        (post.clone(), "X y: a\r\n", REFUSED),
        (post.clone(), ": a\r\n", REFUSED),
        (post.clone(), "no colon\r\n", REFUSED),
        (post.clone(), "Host: other\r\n", REFUSED),
        (format!("POST  {CREATE} HTTP/1.1"), "", REFUSED),
        (format!("POST\t{CREATE}\tHTTP/1.1"), "", REFUSED),
        (format!(" POST {CREATE} HTTP/1.1"), "", REFUSED),
        (format!("POST {CREATE} HTTP/1.1 HTTP/1.1"), "", REFUSED),
        (format!("POST {CREATE} HTTP/1.2"), "", REFUSED),
        (format!("POST {CREATE} HTTP/2.0"), "", REFUSED),
        (format!("POST {CREATE} http/1.1"), "", REFUSED),
        (format!("POST {CREATE}"), "", REFUSED),
        (format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{post}"), "", REFUSED),
        (format!("{post}\r\n X: a"), "", REFUSED),
        // Empty lines before a request are ignored (RFC 9112 section 2.2).
        (format!("\r\n\r\n{post}"), "", BOTH),
        // The service has no virtual hosts: whatever host is named, it is this one, and the path
        // decides.
        (http(&format!("POST http://elsewhere.example.com{CREATE}")), "", BOTH),
        (http("POST elsewhere.example.com:80"), "", &[404, 201]),
        (http("POST *"), "", &[404, 201]),
        (http(&format!("GET {CREATE}")), "X-HTTP-Method-Override: POST\r\n", &[405, 201]),
        (http(&format!("POST {CREATE}/../create")), "", &[404, 201]),
        (http(&format!("POST {CREATE}%00")), "", &[404, 201]),
        (
            post.clone(),
            "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
            BOTH,
        ),
        (format!("POST {CREATE} HTTP/1.0"), "", BOTH),
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
    sender.expect("HTTP/1.0 knows no chunks", no_chunks, REFUSED).await;
    let plain = sender.plain();
    sender.expect("HTTP/0.9", format!("GET /openapi.json\r\n{plain}"), REFUSED).await;
    let plain = sender.plain().replace("Host: t\r\n", "");
    sender.expect("no host", plain, REFUSED).await;
}

/// RFC 9112 section 2.2 lets a recipient take a lone LF for the end of a line. This one does so in
/// every line of a head, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn lines_that_end_in_a_lone_line_feed_are_read_in_one_way() {
    let mut sender = sender().await;
    let body = sender.body();
    let head = sender
        .head(&format!("POST {CREATE} HTTP/1.1"), &format!("Content-Length: {}\r\n", body.len()));
    let second = sender.plain();
    sender.expect("every line", head.replace("\r\n", "\n") + &body + &second, BOTH).await;
    let body = sender.body();
    let hidden = format!("X: a\nTransfer-Encoding: chunked\r\nContent-Length: {}\r\n", body.len());
    let bytes = sender.head(&format!("POST {CREATE} HTTP/1.1"), &hidden)
        + &chunked(&body)
        + &sender.plain();
    sender.expect("a header behind a line feed", bytes, REFUSED).await;
}

/// The outer request is refused, whatever for, or has no use for a body. The order within is a part
/// of that body.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_in_the_body_of_another_request_is_not_placed() {
    let mut sender = sender().await;
    let form = "Content-Type: multipart/form-data; boundary=b";
    let unauthorized: Answers = &[401];
    for (line, change, expected) in [
        (format!("POST {CREATE}"), ("Authorization: Bearer ", "X: "), unauthorized),
        (
            format!("POST {CREATE}"),
            ("Authorization: Bearer nok_", "Authorization: Bearer nok_f"),
            &[401],
        ),
        (format!("POST {CREATE_WITH_DOCUMENTS}"), ("Authorization: Bearer ", "X: "), &[401]),
        (
            format!("POST {CREATE_WITH_DOCUMENTS}"),
            ("Content-Type: application/json", form),
            REFUSED,
        ),
        ("POST /nowhere".to_owned(), ("", ""), &[404]),
        (format!("PUT {CREATE}"), ("", ""), &[405]),
        (format!("GET {CREATE}"), ("", ""), &[405]),
        ("GET /openapi.json".to_owned(), ("", ""), &[200]),
        ("HEAD /docs".to_owned(), ("", ""), &[200]),
        (
            format!("POST {CREATE}"),
            ("Content-Type: application/json", "Content-Type: text/plain"),
            &[415],
        ),
        (
            format!("POST {CREATE}"),
            (
                "Content-Type: application/json",
                "Content-Type: application/json\r\nContent-Encoding: gzip",
            ),
            &[415],
        ),
        (
            format!("POST {CREATE_WITH_DOCUMENTS}"),
            ("Content-Type: application/json", "Content-Encoding: br"),
            &[415],
        ),
        (format!("POST {CREATE}"), ("", ""), REFUSED),
    ] {
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
            sender
                .expect(&format!("{head}, in chunks: {in_chunks}"), head.clone() + &body, expected)
                .await;
        }
    }
}

/// A protocol to change to, which the service does not know, and a tunnel, which it does not dig:
/// what follows is no request.
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_an_upgrade_or_a_connect_is_not_executed() {
    let mut sender = sender().await;
    let body = sender.body();
    let upgrade =
        format!("Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: {}\r\n", body.len());
    let bytes = sender.head(&format!("POST {CREATE} HTTP/1.1"), &upgrade) + &body + &sender.plain();
    sender.expect("an upgrade with a body, and more", bytes, REFUSED).await;
    let bytes = sender.head("CONNECT elsewhere.example.com:80 HTTP/1.1", "") + &sender.plain();
    sender.expect("a tunnel", bytes, &[404]).await;
    let bytes = sender
        .head("GET /openapi.json HTTP/1.1", "Upgrade: websocket\r\nConnection: upgrade\r\n")
        + &sender.plain();
    sender.expect("an upgrade", bytes, &[200]).await;
    let plain = sender.plain();
    sender.expect("a request as any other", plain, ONE).await;
}
