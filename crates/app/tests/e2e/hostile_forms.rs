//! Malformed and unusual multipart forms.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use futures_util::future::join_all;

use crate::harness::{
    CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, eventually, file, form, form_with_deed,
    order, problem, raw_order_parts,
};

const FORM: &str = "multipart/form-data; boundary=b";

/// Returns a complete form with boundary `b` whose document part has this disposition.
fn form_with(disposition: &str) -> Vec<u8> {
    let mut body = raw_order_parts("F-1").into_bytes();
    body.extend_from_slice(
        format!(
            "--b\r\nContent-Disposition: {disposition}\r\nContent-Type: application/pdf\r\n\r\n"
        )
        .as_bytes(),
    );
    body.extend_from_slice(&deed());
    body.extend_from_slice(b"\r\n--b--\r\n");
    body
}

/// Returns a valid form with boundary `b`.
fn valid_form() -> Vec<u8> {
    form_with("form-data; name=\"documents\"; filename=\"deed.pdf\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn form_needs_exactly_one_boundary() {
    let app = TestApp::start().await;
    let long = format!("multipart/form-data; boundary={}", "b".repeat(71));
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=a; boundary=b",
        &long,
        "multipart/form-data; boundary=other",
    ] {
        app.raw_form(content_type, &valid_form()).await.assert_problem(400, "malformed_request");
    }
    app.raw_form(&format!("{FORM}\r\nContent-Type: {FORM}"), &valid_form())
        .await
        .assert_problem(400, "malformed_request");
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_form_is_malformed() {
    let app = TestApp::start().await;
    let valid = valid_form();
    let text = raw_order_parts("F-1");
    let part = |head: &str| format!("--b\r\n{head}\r\n\r\ntext\r\n--b--\r\n").into_bytes();
    let disposition =
        |parameters: &str| part(&format!("Content-Disposition: form-data{parameters}"));
    let field = "--b\r\nContent-Disposition: form-data; name=";
    let repeated_part = format!("{text}{field}\"signingServiceId\"\r\n\r\n42\r\n--b--\r\n");
    for body in [
        Vec::new(),
        b"nonsense".to_vec(),
        b"--b".to_vec(),
        b"--b\r\n".to_vec(),
        valid[..valid.len() - 7].to_vec(),
        valid[..valid.len() / 2].to_vec(),
        part("Content-Type: text/plain"),
        part("Content-Disposition: attachment; name=\"requestedBy\""),
        disposition(""),
        disposition("; name=\"a\"; name=\"b\""),
        disposition("; name=\"documents\"; filename=\"a.pdf\"; filename=\"b.pdf\""),
        disposition("; name=\"documents\""),
        disposition("; name=\"documents\"; filename=\"a\0.pdf\""),
        disposition("; name=\"documents\"; filename*=UTF-8''a%00.pdf"),
        disposition("; name=\"documents\"; filename*=UTF-8''a%FF.pdf"),
        disposition("; name=\"deed\"; filename=\"deed.pdf\""),
        disposition("; name=\"requestedBy\"; filename=\"requested-by.json\""),
        disposition("; name=\"documents\"; filename=\"a.pdf"),
        disposition("; name=\"a\"\r\nContent-Type: multipart/mixed; boundary=c"),
        disposition("; name=\"a\"\r\nContent-Disposition: form-data; name=\"b\""),
        part("not a header"),
        disposition(&format!("; name=\"a\"\r\nX-Long: {}", "x".repeat(1024 * 1024))),
        disposition(&format!("; name=\"a\"\r\n{}", "X-Many: x\r\n".repeat(1_000).trim_end())),
        repeated_part.into_bytes(),
        format!("{}--b--\r\n", text.replace("\"userId\"", "userId")).into_bytes(),
        b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xFF\xFE\r\n--b--\r\n".to_vec(),
        format!("{field}\"a\"\r\n\r\n\r\n").repeat(5_000).into_bytes(),
    ] {
        let answer = app.raw_form(FORM, &body).await;
        let beginning = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        assert_eq!(
            (answer.status, answer.body["code"].as_str()),
            (400, Some("malformed_request")),
            "{beginning}"
        );
    }
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn file_names_are_read_in_every_notation() {
    let app = TestApp::start_with(&["--duplicate-window-secs=0"]).await;
    for (written, as_sent) in [
        ("filename=\"a; name=evil.pdf\"", "a; name=evil.pdf"),
        ("filename=\"quoted \\\"deed\\\".pdf\"", "quoted \"deed\".pdf"),
        ("filename=\"C:\\Users\\jane\\deed.pdf\"", "C:\\Users\\jane\\deed.pdf"),
        ("filename=\"..\\..\\new deed.pdf\"", "..\\..\\new deed.pdf"),
        ("FileName=\"deed.pdf\"", "deed.pdf"),
        ("x=\"filename=\\\"no.pdf\"; filename=\"yes.pdf\"", "yes.pdf"),
        ("filename=\"договор.pdf\"", "договор.pdf"),
        ("x-filename=\"evil.exe\"; filename=\"deed.pdf\"", "deed.pdf"),
        ("filename=deed.pdf", "deed.pdf"),
        ("filename*=UTF-8''d%C3%A9ed.pdf", "déed.pdf"),
        ("filename=\"plain.pdf\"; filename*=UTF-8''d%C3%A9ed.pdf", "plain.pdf"),
    ] {
        let form = form_with(&format!("form-data; name=\"documents\"; {written}"));
        let answer = app.raw_form(FORM, &form).await;
        assert_eq!(answer.status, 201, "{written}: {answer:?}");
        let id = domain::order::OrderId(answer.body["order_id"].as_i64().unwrap());
        let stored = app.stored_order(id).await.unwrap();
        assert_eq!(stored.documents[0].name_as_sent, as_sent);
        assert_eq!(stored.documents[0].size, deed().len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preamble_and_epilogue_are_ignored() {
    let app = TestApp::start().await;
    let body = [b"This is a form.\r\n".to_vec(), valid_form(), b"It ended.\r\n".to_vec()].concat();
    assert_eq!(app.raw_form(FORM, &body).await.status, 201);
    assert_eq!(app.documents()[0], deed());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_text_parts_are_ignored() {
    let app = TestApp::start().await;
    let form = form_with_deed("F-1")
        .text("csrf", "x")
        .text("csrf", "y")
        .text("signingContactsFormdata", "{}");
    created(app.create_with(form).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_and_forms_over_their_limits_are_rejected() {
    let app = TestApp::start().await;
    let large_part = form(&order("F-1")).text("notes", "x".repeat(300_000));
    let body = problem(app.create_with(large_part).await, 413, "payload_too_large").await;
    assert_eq!(body["detail"], "Part 5 of the form is larger than 262144 bytes.");
    let headers = format!("Content-Type: {FORM}\r\nContent-Length: 300000000\r\n");
    let request = app.head(CREATE_WITH_DOCUMENTS, &headers) + "--b\r\n";
    app.raw(request.into_bytes()).await.assert_problem(413, "payload_too_large");
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn early_rejection_reaches_a_sending_client() {
    let app = TestApp::start().await;
    let document = |name: &str, mib: usize| file(name, vec![b'x'; mib * 1024 * 1024]);
    let mut too_large = form(&order("F-1")).part("documents", document("large.pdf", 11));
    for at in 0..8 {
        too_large = too_large.part("documents", document(&format!("{at}.pdf"), 9));
    }
    problem(app.create_with(too_large).await, 413, "document_too_large").await;
    let large = form(&order("F-1")).part("documents", document("large.pdf", 60));
    let request = app.client.post(app.url(CREATE_WITH_DOCUMENTS)).bearer_auth("unknown");
    problem(request.multipart(large).send().await.unwrap(), 401, "unauthorized").await;
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_upload_leaves_nothing() {
    let app = TestApp::start().await;
    // More than a block of the spool, so that some of it is on disk.
    let mut body = valid_form();
    body.truncate(body.len() - "\r\n--b--\r\n".len());
    body.resize(1024 * 1024, b' ');
    let headers = format!("Content-Type: {FORM}\r\nContent-Length: {}\r\n", body.len());
    let head = app.head(CREATE_WITH_DOCUMENTS, &headers);
    let mut stream = TcpStream::connect(app.address()).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body[..body.len() - 100]).unwrap();
    eventually(|| !app.spooled().is_empty()).await;
    drop(stream);
    eventually(|| app.spooled().is_empty()).await;
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn content_length_of_a_part_is_ignored() {
    let app = TestApp::start().await;
    for (at, stated) in ["20", "1", "99999999", "-1", "nonsense"].into_iter().enumerate() {
        let mut body = raw_order_parts(&format!("F-{at}"))
            .replace(
                "name=\"signingServiceId\"",
                &format!("name=\"signingServiceId\"\r\nContent-Length: {stated}"),
            )
            .into_bytes();
        let disposition = "Content-Disposition: form-data; name=\"documents\"; filename=\"a.pdf\"";
        body.extend_from_slice(
            format!("--b\r\nContent-Length: {stated}\r\n{disposition}\r\n\r\n").as_bytes(),
        );
        body.extend_from_slice(&deed());
        body.extend_from_slice(b"\r\n--b--\r\n");
        let answer = app.raw_form(FORM, &body).await;
        assert_eq!(
            (answer.status, answer.body["signing_service_id"].as_i64()),
            (201, Some(42)),
            "{stated}: {answer:?}"
        );
    }
    assert!(app.documents().iter().all(|document| *document == deed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_file_input_is_no_document() {
    let app = TestApp::start().await;
    let body = format!(
        "{}--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n\r\n--b--\r\n",
        raw_order_parts("F-1")
    );
    app.raw_form(FORM, body.as_bytes()).await.assert_problem(400, "no_documents");
}

/// A chunked body may never end, so the service must close the connection.
#[tokio::test(flavor = "multi_thread")]
async fn connection_closes_after_rejected_chunked_body() {
    let app = TestApp::start().await;
    let cases = [(CREATE_WITH_DOCUMENTS, 401), (CREATE, 401), ("/unknown", 404)];
    join_all(cases.map(async |(path, status)| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        );
        let answer = exchange(app.address(), request.into_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}"))
                && answer.contains("connection: close"),
            "{answer}"
        );
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_form_is_the_last_request_of_its_connection() {
    let app = TestApp::start().await;
    let form = valid_form();
    let headers = format!("Content-Type: {FORM}\r\nTransfer-Encoding: chunked\r\n");
    let json = order("F-2").to_string();
    let json_headers = format!(
        "Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n",
        json.len()
    );
    let requests = [
        app.head(CREATE_WITH_DOCUMENTS, &headers).into_bytes(),
        format!("{:x}\r\n", form.len()).into_bytes(),
        form,
        b"\r\n0\r\n\r\n".to_vec(),
        app.head(CREATE, &json_headers).into_bytes(),
        json.into_bytes(),
    ]
    .concat();
    let answer = exchange(app.address(), requests).await;
    let statuses = ["HTTP/1.1 201", "HTTP/1.1 400", "connection: close"];
    assert_eq!(statuses.map(|text| answer.matches(text).count()), [1, 1, 2], "{answer}");
    assert_eq!(app.rows("orders"), 1);
}

/// Sends bytes without closing the connection, and reads until the service closes it.
async fn exchange(address: SocketAddr, bytes: Vec<u8>) -> String {
    let exchange = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the service closes the connection");
        answer
    });
    exchange.await.unwrap()
}
