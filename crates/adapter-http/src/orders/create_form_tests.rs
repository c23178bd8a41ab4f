use actix_web::test::TestRequest;
use contract_tests::{documents, samples::minimal_request};
use domain::ports::WriteError;

use super::*;
use crate::test_support::{Ports, TestAnswer, form, part};

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

async fn post(ports: Ports, order: TestRequest) -> TestAnswer {
    ports.api().send(order).await
}

async fn post_with_key(ports: Ports, order: TestRequest) -> TestAnswer {
    post(ports, order.insert_header(("idempotency-key", "8e03978e"))).await
}

#[actix_web::test]
async fn document_at_fault_is_named() {
    let encrypted = documents::bytes("signing-instructions-encrypted.docx");
    for (name, content, code, fault, detail) in [
        ("deed.pdf", &b"no PDF"[..], "unsupported_document", "content_mismatch", "content"),
        ("a.docx", &encrypted, "encrypted_document", "encrypted_document", "remove the protection"),
    ] {
        let answer = post(Ports::new(), order(name, content)).await;

        let error = &answer.problem(400, code)["errors"][0];
        assert_eq!((&error["pointer"], &error["code"]), (&"/documents/0".into(), &fault.into()));
        assert!(error["detail"].as_str().unwrap().contains(detail), "{error}");
    }
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
