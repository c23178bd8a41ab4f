//! Malformed and unusual multipart forms.

use std::{io::Write as _, net::TcpStream};

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, FORM, TestApp, created, deed, eventually, file, form,
        form_with_deed, order, problem, raw_order_parts,
    },
    raw::{exchange, statuses},
};

/// The disposition of a document.
const DEED: &str = "form-data; name=\"documents\"; filename=\"deed.pdf\"";

/// Returns a form with boundary `b` up to the content of its document, which has this disposition.
fn until_document(disposition: &str) -> String {
    let head = "Content-Type: application/pdf\r\nContent-Disposition: ";
    format!("{}--b\r\n{head}{disposition}\r\n\r\n", raw_order_parts("F-1"))
}

/// Returns a complete form from its beginning up to the content of its document.
fn with_deed(until_document: &str) -> Vec<u8> {
    [until_document.as_bytes(), &deed(), b"\r\n--b--\r\n"].concat()
}

fn valid_form() -> Vec<u8> {
    with_deed(&until_document(DEED))
}

#[tokio::test(flavor = "multi_thread")]
async fn form_needs_exactly_one_boundary() {
    let app = TestApp::start().await;
    let long = format!("; boundary={}", "b".repeat(71));
    let twice = format!("; boundary=b\r\n{}", FORM.trim_end());
    for boundary in
        ["", "; boundary=", "; boundary=a; boundary=b", &long, "; boundary=other", &twice]
    {
        let content_type = format!("Content-Type: multipart/form-data{boundary}\r\n");
        let answer = app.raw_form(&content_type, &valid_form()).await;
        answer.assert_problem(400, "malformed_request");
    }
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
        ("filename=\"plain.pdf\"; filename*=UTF-8''d%C3%A9ed.pdf", "déed.pdf"),
    ] {
        let form = with_deed(&until_document(&format!("form-data; name=\"documents\"; {written}")));
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
    let headers = format!("{FORM}Content-Length: 300000000\r\n");
    let request = app.head(CREATE_WITH_DOCUMENTS, &headers) + "--b\r\n";
    app.raw(request).await.assert_problem(413, "payload_too_large");
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
    problem(app.as_key("unknown").create_with(large).await, 401, "unauthorized").await;
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_upload_leaves_nothing() {
    let app = TestApp::start().await;
    // More than a block of the spool, so that some of it is on disk.
    let mut body = valid_form();
    body.truncate(body.len() - "\r\n--b--\r\n".len());
    body.resize(1024 * 1024, b' ');
    let headers = format!("{FORM}Content-Length: {}\r\n", body.len());
    let head = app.head(CREATE_WITH_DOCUMENTS, &headers);
    let mut stream = TcpStream::connect(app.address).unwrap();
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
        let length = format!("\r\nContent-Length: {stated}");
        let mut form = until_document(DEED).replace("F-1", &format!("F-{at}"));
        for part in ["; name=\"signingServiceId\"", "filename=\"deed.pdf\""] {
            form = form.replace(part, &format!("{part}{length}"));
        }
        let answer = app.raw_form(FORM, &with_deed(&form)).await;
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
    let service = TestApp::start().await;
    let app = service.as_key("");
    for (path, status) in [(CREATE_WITH_DOCUMENTS, 401), (CREATE, 401), ("/unknown", 404)] {
        let request = app.head(path, "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n";
        let answer = exchange(app.address, request.into_bytes(), false).await;
        assert!(answer.contains("connection: close"), "{answer}");
        assert_eq!(statuses(&answer), [status]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_form_is_the_last_request_of_its_connection() {
    let app = TestApp::start().await;
    let form = valid_form();
    let requests = [
        app.head(CREATE_WITH_DOCUMENTS, &format!("{FORM}Transfer-Encoding: chunked\r\n"))
            .into_bytes(),
        format!("{:x}\r\n", form.len()).into_bytes(),
        form,
        b"\r\n0\r\n\r\n".to_vec(),
        app.raw_order("F-2", "Connection: close\r\n").into_bytes(),
    ]
    .concat();
    let answer = exchange(app.address, requests, false).await;
    assert_eq!(statuses(&answer), [201, 400]);
    assert_eq!(answer.matches("connection: close").count(), 2, "{answer}");
    assert_eq!(app.rows("orders"), 1);
}
