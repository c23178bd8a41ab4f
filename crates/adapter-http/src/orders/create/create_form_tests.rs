use std::sync::Arc;

use actix_web::test::TestRequest;
use contract_tests::{documents, fakes::FakeScanner, samples::minimal_request};
use domain::{
    order::OrderId,
    orders::scan_documents::ScanDocuments,
    ports::{StoreError, WriteError},
};

use super::*;
use crate::test_support::{Answer, Ports, TestApi};

/// Builds a form of the minimal order and one document.
fn form(file_name: &str, content: &[u8]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, value) in minimal_request().as_object().unwrap() {
        let disposition = format!("form-data; name=\"{name}\"");
        add_part(&mut form, &disposition, value.to_string().as_bytes());
    }
    let disposition = format!("form-data; name=\"documents\"; filename=\"{file_name}\"");
    add_part(&mut form, &disposition, content);
    form.extend_from_slice(b"--b--\r\n");
    form
}

fn add_part(form: &mut Vec<u8>, disposition: &str, content: &[u8]) {
    form.extend_from_slice(format!("--b\r\nContent-Disposition: {disposition}\r\n\r\n").as_bytes());
    form.extend_from_slice(content);
    form.extend_from_slice(b"\r\n");
}

fn deed() -> Vec<u8> {
    form("deed.pdf", &documents::bytes("deed-of-trust.pdf"))
}

fn request(form: Vec<u8>) -> TestRequest {
    TestApi::post(PATH)
        .insert_header(("content-type", "multipart/form-data; boundary=b"))
        .set_payload(form)
}

async fn post(ports: Ports, form: Vec<u8>) -> Answer {
    ports.api().send(request(form)).await
}

async fn post_with_key(ports: Ports, form: Vec<u8>) -> Answer {
    let request = request(form).insert_header(("idempotency-key", "8e03978e"));
    ports.api().send(request).await
}

#[actix_web::test]
async fn order_is_created_with_its_documents() {
    let mut ports = Ports::new();
    ports.uploads.expect_record().once().returning(|_, _| Ok(()));
    ports.blobs.expect_put().once().returning(|_, _| Ok(()));
    ports.orders.expect_create().once().returning(|new, _| {
        assert_eq!(new.documents[0].name, "deed.pdf");
        Ok(OrderId(7))
    });

    let answer = post(ports, deed()).await;

    assert_eq!(answer.status, 201);
    assert_eq!(answer.body["order_id"], 7);
    assert_eq!(answer.body["documents_uploaded"], 1);
}

#[actix_web::test]
async fn document_with_other_content_is_unsupported() {
    let answer = post(Ports::new(), form("deed.pdf", b"no PDF")).await;

    let problem = answer.problem(400, "unsupported_document");
    assert_eq!(problem["errors"][0]["pointer"], "/documents/0");
    assert_eq!(problem["errors"][0]["code"], "content_mismatch");
}

#[actix_web::test]
async fn encrypted_document_has_its_own_code() {
    let encrypted = documents::bytes("signing-instructions-encrypted.docx");
    let answer = post(Ports::new(), form("instructions.docx", &encrypted)).await;

    let problem = answer.problem(400, "encrypted_document");
    assert_eq!(problem["errors"][0]["pointer"], "/documents/0");
    assert_eq!(problem["errors"][0]["code"], "encrypted_document");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("remove its password"));
}

/// Nothing of it is stored: the mocks of the stores expect no call.
#[actix_web::test]
async fn infected_document_is_rejected() {
    let mut ports = Ports::new();
    ports.scan = Some(ScanDocuments { scanner: Arc::<FakeScanner>::default(), required: false });

    let answer =
        post(ports, form("deed.pdf", &[b"%PDF-1.7 ", FakeScanner::MALWARE].concat())).await;

    let problem = answer.problem(400, "infected_document");
    assert_eq!(problem["errors"][0]["pointer"], "/documents/0");
    assert_eq!(problem["errors"][0]["code"], "infected_document");
}

#[actix_web::test]
async fn document_that_is_too_large_to_scan_is_rejected() {
    let mut ports = Ports::new();
    ports.scan = Some(ScanDocuments { scanner: Arc::<FakeScanner>::default(), required: true });
    let mut document = b"%PDF-1.7 ".to_vec();
    document.resize(usize::try_from(FakeScanner::MAX_BYTES).unwrap() + 1, b' ');

    let answer = post(ports, form("deed.pdf", &document)).await;

    let problem = answer.problem(400, "unsupported_document");
    assert_eq!(problem["errors"][0]["code"], "too_large_to_scan");
}

#[actix_web::test]
async fn required_scanner_that_is_down_is_unavailable() {
    let mut ports = Ports::new();
    ports.scan = Some(scanner_that_is_down(true));

    let answer = post(ports, deed()).await;

    answer.problem(503, "unavailable");
    assert_eq!(answer.header("retry-after"), "5");
}

#[actix_web::test]
async fn documents_stored_without_a_scan_are_counted() {
    let mut ports = Ports::new();
    ports.scan = Some(scanner_that_is_down(false));
    ports.uploads.expect_record().once().returning(|_, _| Ok(()));
    ports.blobs.expect_put().once().returning(|_, _| Ok(()));
    ports.orders.expect_create().once().returning(|_, _| Ok(OrderId(7)));
    let api = ports.api();

    let answer = api.send(request(deed())).await;

    assert_eq!(answer.status, 201);
    assert!(api.has_metric("notary_orders_documents_unscanned_total 1"));
}

fn scanner_that_is_down(required: bool) -> ScanDocuments {
    let scanner = FakeScanner::default();
    scanner.set_down(true);
    ScanDocuments { scanner: Arc::new(scanner), required }
}

#[actix_web::test]
async fn unresponsive_blob_store_is_unavailable() {
    let mut ports = Ports::new();
    ports.uploads.expect_record().returning(|_, _| Ok(()));
    ports.blobs.expect_put().returning(|_, _| Err(StoreError::Unavailable("down".into())));

    post(ports, deed()).await.problem(503, "unavailable");
}

#[actix_web::test]
async fn panic_in_port_is_internal_error() {
    let mut ports = Ports::new();
    ports.uploads.expect_record().returning(|_, _| panic!("a bug"));

    post(ports, deed()).await.problem(500, "internal");
}

#[actix_web::test]
async fn rejected_form_releases_its_key() {
    let mut ports = Ports::new();
    ports.idempotency.expect_claim().once().returning(|_, _, _| Ok(()));
    ports.idempotency.expect_release().once().returning(|_| Ok(()));

    post_with_key(ports, b"--b--\r\n".to_vec()).await.problem(400, "validation_failed");
}

#[actix_web::test]
async fn unresponsive_ledger_is_unavailable() {
    let mut ports = Ports::new();
    ports
        .idempotency
        .expect_claim()
        .returning(|_, _, _| Err(WriteError::Unavailable("down".into())));
    ports.idempotency.expect_release().returning(|_| Ok(()));

    post_with_key(ports, deed()).await.problem(503, "unavailable");
}

#[tokio::test(start_paused = true)]
async fn upload_waits_five_seconds_for_a_permit() {
    let mut ports = Ports::new();
    ports.bodies = 0;
    ports.idempotency.expect_claim().once().returning(|_, _, _| Ok(()));
    ports.idempotency.expect_release().once().returning(|_| Ok(()));
    let started = tokio::time::Instant::now();

    let answer = post_with_key(ports, deed()).await;

    answer.problem(503, "unavailable");
    assert_eq!((answer.header("retry-after"), started.elapsed().as_secs()), ("5", 5));
}

#[actix_web::test]
async fn upload_beyond_the_disk_is_unavailable() {
    let answer = post(Ports { spool_bytes: 100, ..Ports::new() }, deed()).await;

    answer.problem(503, "unavailable");
    assert_eq!(answer.header("retry-after"), "5");
}
