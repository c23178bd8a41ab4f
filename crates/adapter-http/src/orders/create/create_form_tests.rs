use std::sync::Arc;

use actix_web::test::TestRequest;
use contract_tests::{documents, fakes::FakeScanner, samples::minimal_request};
use domain::{
    order::OrderId,
    orders::scan_documents::ScanDocuments,
    ports::{ClaimError, StoreError},
};

use super::*;
use crate::test_support::{Answer, Ports, form, part};

/// Builds a form of the minimal order and one document.
fn order(file_name: &str, content: &[u8]) -> TestRequest {
    let mut parts = part(&format!("name=\"documents\"; filename=\"{file_name}\""), content);
    for (name, value) in minimal_request().as_object().unwrap() {
        parts.extend(part(&format!("name=\"{name}\""), value.to_string().as_bytes()));
    }
    form(PATH, &parts)
}

fn deed() -> TestRequest {
    order("deed.pdf", &documents::bytes("deed-of-trust.pdf"))
}

async fn post(ports: Ports, order: TestRequest) -> Answer {
    ports.api().send(order).await
}

async fn post_with_key(ports: Ports, order: TestRequest) -> Answer {
    post(ports, order.insert_header(("idempotency-key", "8e03978e"))).await
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
async fn document_at_fault_is_named() {
    let encrypted = documents::bytes("signing-instructions-encrypted.docx");
    for (name, content, code, fault, detail) in [
        ("deed.pdf", &b"no PDF"[..], "unsupported_document", "content_mismatch", "content"),
        ("a.docx", &encrypted, "encrypted_document", "encrypted_document", "remove its password"),
    ] {
        let answer = post(Ports::new(), order(name, content)).await;

        let error = &answer.problem(400, code)["errors"][0];
        assert_eq!((&error["pointer"], &error["code"]), (&"/documents/0".into(), &fault.into()));
        assert!(error["detail"].as_str().unwrap().contains(detail), "{error}");
    }
}

/// Nothing of it is stored: the mocks of the stores expect no call.
#[actix_web::test]
async fn infected_document_is_rejected() {
    let mut ports = Ports::new();
    ports.scan = Some(ScanDocuments { scanner: Arc::<FakeScanner>::default(), required: false });

    let answer =
        post(ports, order("deed.pdf", &[b"%PDF-1.7 ", FakeScanner::MALWARE].concat())).await;

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

    let answer = post(ports, order("deed.pdf", &document)).await;

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

    let answer = api.send(deed()).await;

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

    post_with_key(ports, form(PATH, b"")).await.problem(400, "validation_failed");
}

#[actix_web::test]
async fn unresponsive_ledger_is_unavailable() {
    let mut ports = Ports::new();
    ports
        .idempotency
        .expect_claim()
        .returning(|_, _, _| Err(ClaimError::Unavailable("down".into())));
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
