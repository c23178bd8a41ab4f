//! Malformed and unusual multipart forms.

use std::{io::Write as _, net::TcpStream};

use crate::{
    harness::raw::{exchange, statuses},
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, FORM, TestApp, deed, eventually, file, form, order, problem,
        raw_order_parts,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    aborted_upload_leaves_nothing,
}

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
        disposition("; name=\"documents\""),
        disposition("; name=\"documents\"; filename=\"a\0.pdf\""),
        disposition("; name=\"deed\"; filename=\"deed.pdf\""),
        disposition("; name=\"requestedBy\"; filename=\"requested-by.json\""),
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
    for (written, as_sent, name) in [
        ("filename=\"a; name=evil.pdf\"", "a; name=evil.pdf", "a__name_evil.pdf"),
        ("filename=\"..\\..\\new deed.pdf\"", "..\\..\\new deed.pdf", "new_deed.pdf"),
        ("filename=\"../../Deed.PDF\"", "../../Deed.PDF", "Deed.PDF"),
        ("filename=\"договор.pdf\"", "договор.pdf", "_______.pdf"),
        ("x-filename=\"evil.exe\"; FileName=deed.pdf", "deed.pdf", "deed.pdf"),
        ("filename=\"a.pdf\"; filename*=UTF-8''d%C3%A9ed.pdf", "déed.pdf", "d_ed.pdf"),
    ] {
        let form = with_deed(&until_document(&format!("form-data; name=\"documents\"; {written}")));
        let answer = app.raw_form(FORM, &form).await;
        assert_eq!(answer.status, 201, "{written}: {answer:?}");
        let id = domain::order::OrderId(answer.body["order_id"].as_i64().unwrap());
        let stored = app.stored_order(id).await.unwrap().documents.remove(0);
        assert_eq!((&*stored.name_as_sent, &*stored.name), (as_sent, name));
        assert_eq!(stored.size, deed().len() as u64);
    }
    // Nothing of a name is in the key of an object.
    assert!(app.wiring.objects().keys().all(|key| key.rsplit('/').next().unwrap().len() == 32));
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

async fn aborted_upload_leaves_nothing(kind: Kind) {
    let app = kind.app().await;
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
