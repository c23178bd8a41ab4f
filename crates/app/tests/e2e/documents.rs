//! Creates orders with documents.

use contract_tests::documents;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::{
    harness::{
        CREATE_WITH_DOCUMENTS, FORM, TestApp, created, deed, errors, file, form, form_with_deed,
        order, problem, raw_order_parts, with_documents,
    },
    raw::{exchange, statuses},
};

/// The service receives documents in blocks of this size.
const BLOCK: usize = 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_whole_at_any_length_and_do_not_take_bytes_of_the_next_request() {
    let app = TestApp::start().await;
    let (mut requests, mut sent) = (Vec::new(), Vec::new());
    for (number, lengths) in [
        [BLOCK - 1, BLOCK, BLOCK + 1, 20],
        [2 * BLOCK - 9, 3 * BLOCK + 4_095, 300_000, 5 * BLOCK],
        [BLOCK - 8, BLOCK - 7, BLOCK - 6, BLOCK - 5],
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = raw_order_parts(&format!("F-{number}")).into_bytes();
        for length in lengths {
            // Many lines look like the beginning of a delimiter.
            let content = b"%PDF-1.7\n".iter().chain(b"\r\n--\r\n-".iter().cycle());
            let content: Vec<u8> = content.copied().take(length).collect();
            let head = b"--b\r\nContent-Disposition: form-data; name=\"documents\"; \
                filename=\"deed.pdf\"\r\n\r\n";
            body.extend([&head[..], &content, b"\r\n"].concat());
            sent.push(content);
        }
        body.extend_from_slice(b"--b--\r\n");
        let mut headers = format!("{FORM}Content-Length: {}\r\n", body.len());
        if number == 2 {
            headers += "Connection: close\r\n";
        }
        requests.extend(app.head(CREATE_WITH_DOCUMENTS, &headers).into_bytes());
        requests.extend(body);
    }
    // actix does not read the rest of a large body whose client has ended its side.
    let answers = exchange(app.address, requests, false).await;
    assert_eq!(statuses(&answers), [201, 201, 201]);
    // One after the other, on a connection that stays open.
    for length in [3 * BLOCK + 5, 2_500_000] {
        let mut content: Vec<u8> = (0..=250).cycle().take(length).collect();
        content[..9].copy_from_slice(b"%PDF-1.7\n");
        let form = form(&order(&format!("F-{length}")));
        created(app.create_with(with_documents(form, 1, &content)).await).await;
        sent.push(content);
    }
    let mut stored = app.documents();
    stored.sort();
    sent.sort();
    assert!(stored == sent);
    app.assert_spool_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_served_at_no_path() {
    let app = TestApp::start().await;
    created(app.order_with_deed("F-1").await).await;
    let key = app.wiring.objects().into_keys().next().unwrap();
    for path in [
        key.clone(),
        format!("documents/{key}"),
        format!("data/documents/{key}"),
        format!("orders/{key}"),
        "deed.pdf".to_owned(),
    ] {
        for path in [
            format!("/{path}"),
            format!("/docs/{path}"),
            format!("/docs/../{path}"),
            format!("/api/order/1/{path}"),
        ] {
            problem(app.get(&path).await, 404, "not_found").await;
            assert_eq!(app.ops(&path).await.0, 404, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_sanitized_and_stored_as_sent() {
    let app = TestApp::start().await;
    let long = format!("{}.pdf", "x".repeat(500));
    let sent = [
        "../../Deed of \"Trust\".pdf",
        "договор №5.PDF",
        "..\\..\\boot.ini.pdf",
        "a;name=evil.pdf",
        &long,
    ];
    let mut form = form(&order("F-1"));
    for name in sent {
        form = form.part("documents", file(name, deed()));
    }
    created(app.create_with(form).await).await;
    let stored = app.stored_order(domain::order::OrderId(1)).await.unwrap();
    let names: Vec<_> = stored.documents.iter().map(|document| document.name.clone()).collect();
    assert_eq!(
        names[..4],
        ["Deed_of__Trust_.pdf", "_________5.PDF", "boot.ini.pdf", "a_name_evil.pdf"]
    );
    assert_eq!(names[4], format!("{}.pdf", "x".repeat(116)));
    let as_sent: Vec<_> =
        stored.documents.iter().map(|document| document.name_as_sent.as_str()).collect();
    assert_eq!(as_sent, sent);
    assert!(app.wiring.objects().keys().all(|key| key.rsplit('/').next().unwrap().len() == 32));
}

#[tokio::test(flavor = "multi_thread")]
async fn extension_and_content_must_agree() {
    let app = TestApp::start().await;
    let png = documents::bytes("signature-page.png");
    for (name, content) in [
        ("program.exe", deed()),
        ("noextension", deed()),
        ("deed.pdf.exe", deed()),
        ("deed.pdf", png.clone()),
        ("page.png", deed()),
        ("scan.jpg", png),
        ("sheet.doc", documents::bytes("fee-sheet.xls")),
        ("sheet.docx", documents::bytes("fee-sheet.xlsx")),
        ("plain.docx", documents::bytes("plain.zip")),
        ("letter.doc", documents::bytes("signing-instructions.docx")),
        ("empty.pdf", Vec::new()),
        ("text.pdf", b"just text".to_vec()),
    ] {
        let part = file(name, content).mime_str("application/pdf").unwrap();
        let response = app.create_with(form_with_deed("F-1").part("documents", part)).await;
        let body = problem(response, 400, "unsupported_document").await;
        assert_eq!(body["errors"][0]["pointer"], "/documents/1", "{name}");
    }
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fields_and_documents_are_reported_together() {
    let app = TestApp::start().await;
    let mut order = order("F-1");
    order["signingDetailsFormData"]["state"] = json!("Texas");
    order["signingServiceId"] = json!("");
    let form = form(&order)
        .part("documents", file("a.exe", "MZ"))
        .part("documents", file("b.pdf", ""))
        .part("documents", file("c.pdf", deed()));
    let body = problem(app.create_with(form).await, 400, "validation_failed").await;
    let expected = [
        ("/signingDetailsFormData/state", "invalid_format"),
        ("/signingServiceId", "required"),
        ("/documents/0", "unsupported_extension"),
        ("/documents/1", "empty_document"),
    ];
    assert_eq!(errors(&body), expected);
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_to_twenty_documents_are_accepted() {
    let app = TestApp::start().await;
    problem(app.create_with(form(&order("F-0"))).await, 400, "no_documents").await;
    let with = |count: usize| with_documents(form(&order("F-1")), count, &deed());
    problem(app.create_with(with(21)).await, 400, "too_many_documents").await;
    app.assert_untouched();
    let with_empty_input = with(20).part("documents", file("", ""));
    assert_eq!(created(app.create_with(with_empty_input).await).await["documents_uploaded"], 20);
    assert_eq!(app.documents().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn document_over_ten_mebibytes_is_rejected() {
    let app = TestApp::start().await;
    let sized = |size: usize| {
        let mut content = deed();
        content.resize(size, b' ');
        content
    };
    let limit = 10 * 1024 * 1024;
    let too_large = form(&order("F-1")).part("documents", file("large one.pdf", sized(limit + 1)));
    let body = problem(app.create_with(too_large).await, 413, "document_too_large").await;
    assert!(body["detail"].as_str().unwrap().contains("large one.pdf"));
    app.assert_untouched();
    let largest = form(&order("F-1")).part("documents", file("largest.pdf", sized(limit)));
    created(app.create_with(largest).await).await;
    assert_eq!(app.documents()[0].len(), limit);
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_order_leaves_no_object() {
    let app = TestApp::start().await;
    created(app.order("F-1").await).await;
    let rejected = app.order_with_deed("F-1").await;
    assert_eq!(rejected.headers()["retry-after"], "60");
    problem(rejected, 409, "duplicate_order").await;
    assert_eq!((app.documents().len(), app.rows("uploads"), app.rows("documents")), (0, 0, 0));
    app.assert_spool_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn text_parts_may_be_browser_blobs() {
    let app = TestApp::start().await;
    let blob = |value: &Value| {
        Part::text(value.to_string()).file_name("blob").mime_str("application/json").unwrap()
    };
    let blobs = || {
        let order = order("F-1");
        let members = order.as_object().unwrap().iter();
        let add =
            |form: Form, (name, value): (&String, &Value)| form.part(name.clone(), blob(value));
        with_documents(members.fold(Form::new(), add), 1, &deed())
    };
    // An unknown part with a file name may be an upload, so it is rejected.
    let unknown = blobs().part("notes", blob(&json!({})));
    problem(app.create_with(unknown).await, 400, "malformed_request").await;
    created(app.create_with(blobs()).await).await;
}
