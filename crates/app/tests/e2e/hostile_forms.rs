//! Multipart forms that nobody sends by accident.

use std::io::Write as _;

use crate::harness::{
    CREATE_WITH_DOCUMENTS, TestApp, created, deed, file, form, form_with_deed, order, problem,
    raw_order_parts,
};

const FORM: &str = "multipart/form-data; boundary=b";

/// A whole form with boundary `b`, whose document part has this disposition.
fn whole(disposition: &str) -> Vec<u8> {
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

fn plain() -> Vec<u8> {
    whole("form-data; name=\"documents\"; filename=\"deed.pdf\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_needs_one_boundary() {
    let app = TestApp::start().await;
    let long = format!("multipart/form-data; boundary={}", "b".repeat(71));
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=a; boundary=b",
        &long,
        "multipart/form-data; boundary=other",
    ] {
        app.raw_form(content_type, &plain()).await.assert_problem(400, "malformed_request");
    }
    app.raw_form(&format!("{FORM}\r\nContent-Type: {FORM}"), &plain())
        .await
        .assert_problem(400, "malformed_request");
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_form_is_malformed() {
    let app = TestApp::start().await;
    let whole = plain();
    let text = raw_order_parts("F-1");
    let part = |head: &str| format!("--b\r\n{head}\r\n\r\ntext\r\n--b--\r\n").into_bytes();
    let twice = format!(
        "{text}--b\r\nContent-Disposition: form-data; name=\"signingServiceId\"\r\n\r\n42\r\n--b--\r\n"
    );
    for body in [
        Vec::new(),
        b"nonsense".to_vec(),
        b"--b".to_vec(),
        b"--b\r\n".to_vec(),
        whole[..whole.len() - 7].to_vec(),
        whole[..whole.len() / 2].to_vec(),
        part("Content-Type: text/plain"),
        part("Content-Disposition: attachment; name=\"requestedBy\""),
        part("Content-Disposition: form-data"),
        part("Content-Disposition: form-data; name=\"a\"; name=\"b\""),
        part(
            "Content-Disposition: form-data; name=\"documents\"; filename=\"a.pdf\"; filename=\"b.pdf\"",
        ),
        part("Content-Disposition: form-data; name=\"documents\""),
        part("Content-Disposition: form-data; name=\"documents\"; filename=\"a\0.pdf\""),
        part("Content-Disposition: form-data; name=\"documents\"; filename*=UTF-8''a%00.pdf"),
        part("Content-Disposition: form-data; name=\"documents\"; filename*=UTF-8''a%FF.pdf"),
        part("Content-Disposition: form-data; name=\"deed\"; filename=\"deed.pdf\""),
        part(
            "Content-Disposition: form-data; name=\"requestedBy\"; filename=\"requested-by.json\"",
        ),
        part("Content-Disposition: form-data; name=\"documents\"; filename=\"a.pdf"),
        part(
            "Content-Disposition: form-data; name=\"a\"\r\nContent-Type: multipart/mixed; boundary=c",
        ),
        part(
            "Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"b\"",
        ),
        part("not a header"),
        part(&format!(
            "Content-Disposition: form-data; name=\"a\"\r\nX-Long: {}",
            "x".repeat(1024 * 1024)
        )),
        part(&format!(
            "Content-Disposition: form-data; name=\"a\"\r\n{}",
            "X-Many: x\r\n".repeat(1_000).trim_end()
        )),
        twice.into_bytes(),
        format!("{}--b--\r\n", text.replace("\"userId\"", "userId")).into_bytes(),
        [b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xFF\xFE\r\n--b--\r\n"
            .to_vec()]
        .concat(),
        "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n".repeat(5_000).into_bytes(),
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
async fn file_names_arrive_however_they_are_written() {
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
        let answer =
            app.raw_form(FORM, &whole(&format!("form-data; name=\"documents\"; {written}"))).await;
        assert_eq!(answer.status, 201, "{written}: {answer:?}");
        let id = domain::order::OrderId(answer.body["order_id"].as_i64().unwrap());
        let stored = app.storage().orders.find(id).await.unwrap().unwrap();
        assert_eq!(stored.documents[0].name_as_sent, as_sent);
        assert_eq!(stored.documents[0].size, deed().len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preamble_and_an_epilogue_are_no_part_of_the_form() {
    let app = TestApp::start().await;
    let body = [b"This is a form.\r\n".to_vec(), plain(), b"It ended.\r\n".to_vec()].concat();
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
async fn parts_and_forms_over_their_caps_are_refused() {
    let app = TestApp::start().await;
    let body = problem(
        app.create_with(form(&order("F-1")).text("notes", "x".repeat(300_000))).await,
        413,
        "payload_too_large",
    )
    .await;
    assert_eq!(body["detail"], "Part 5 of the form is larger than 262144 bytes.");
    let head = format!(
        "POST {CREATE_WITH_DOCUMENTS} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\nContent-Type: {FORM}\r\nContent-Length: 300000000\r\n\r\n--b\r\n",
        app.key
    );
    app.raw(head.into_bytes()).await.assert_problem(413, "payload_too_large");
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    let app = TestApp::start().await;
    let mut form =
        form(&order("F-1")).part("documents", file("large.pdf", vec![b'x'; 11 * 1024 * 1024]));
    for at in 0..8 {
        form = form.part("documents", file(&format!("{at}.pdf"), vec![b'x'; 9 * 1024 * 1024]));
    }
    problem(app.create_with(form).await, 413, "document_too_large").await;
    let form = crate::harness::form(&order("F-1"))
        .part("documents", file("large.pdf", vec![b'x'; 60 * 1024 * 1024]));
    let refused = app
        .client
        .post(app.url(CREATE_WITH_DOCUMENTS))
        .bearer_auth("nobody")
        .multipart(form)
        .send()
        .await
        .unwrap();
    problem(refused, 401, "unauthorized").await;
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_client_goes_away_leaves_nothing() {
    let app = TestApp::start().await;
    let body = plain();
    let head = format!(
        "POST {CREATE_WITH_DOCUMENTS} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\nContent-Type: {FORM}\r\nContent-Length: {}\r\n\r\n",
        app.key,
        body.len()
    );
    let mut stream = std::net::TcpStream::connect(app.address()).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body[..body.len() - 100]).unwrap();
    let spooling = || !app.spooled().is_empty();
    crate::harness::eventually(spooling).await;
    drop(stream);
    crate::harness::eventually(|| !spooling()).await;
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_length_that_a_part_states_of_itself_is_not_believed() {
    let app = TestApp::start().await;
    for (at, stated) in ["20", "1", "99999999", "-1", "nonsense"].into_iter().enumerate() {
        let mut body = raw_order_parts(&format!("F-{at}"))
            .replace(
                "name=\"signingServiceId\"",
                &format!("name=\"signingServiceId\"\r\nContent-Length: {stated}"),
            )
            .into_bytes();
        body.extend_from_slice(
            format!("--b\r\nContent-Length: {stated}\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"a.pdf\"\r\n\r\n").as_bytes(),
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
async fn a_file_input_in_which_nothing_was_chosen_is_no_document() {
    let app = TestApp::start().await;
    let body = format!(
        "{}--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--b--\r\n",
        raw_order_parts("F-1")
    );
    app.raw_form(FORM, body.as_bytes()).await.assert_problem(400, "no_documents");
}

/// A refused body that is chunked could go on for ever; the connection must not.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_chunked_body_is_answered_and_its_connection_closed() {
    let app = TestApp::start().await;
    let refusals = [(CREATE_WITH_DOCUMENTS, 401), ("/api/order/create", 401), ("/nowhere", 404)].map(|(path, status)| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        let address = app.address();
        tokio::task::spawn_blocking(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            let mut answer = String::new();
            std::io::Read::read_to_string(&mut stream, &mut answer).expect("the service closes the connection");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains("connection: close"), "{answer}");
        })
    });
    for refusal in refusals {
        refusal.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_form_keeps_the_connection_in_step() {
    let app = TestApp::start().await;
    let form = plain();
    let head = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\n", app.key)
    };
    let chunked = [
        format!(
            "{}Content-Type: {FORM}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n",
            head(CREATE_WITH_DOCUMENTS),
            form.len()
        )
        .into_bytes(),
        form,
        b"\r\n0\r\n\r\n".to_vec(),
    ]
    .concat();
    let json = order("F-2").to_string();
    let second = format!(
        "{}Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{json}",
        head("/api/order/create"),
        json.len()
    );
    let address = app.address();
    let answers = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(&[chunked, second.into_bytes()].concat()).unwrap();
        let mut answers = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answers).unwrap();
        answers
    });
    assert_eq!(answers.await.unwrap().matches("HTTP/1.1 201").count(), 2);
}
