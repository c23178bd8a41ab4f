use actix_web::test::TestRequest;
use contract_tests::{
    documents,
    samples::{document, new_order, stored},
};
use domain::{
    idempotency::{Answered, Fingerprint, KeyUse},
    order::{OrderId, StoredOrder},
    ports::{MaybeErased, WriteError},
};

use crate::test_support::{NOW, Ports, TestAnswer, TestApi, form, part};

const PATH: &str = "/api/order/7/documents";

fn deed() -> Vec<u8> {
    let disposition = "name=\"documents\"; filename=\"deed.pdf\"";
    part(disposition, &documents::bytes("deed-of-trust.pdf"))
}

async fn post(ports: Ports, form: &[Vec<u8>]) -> TestAnswer {
    ports.api().send(request(form)).await
}

fn request(parts: &[Vec<u8>]) -> TestRequest {
    form(PATH, &parts.concat())
}

/// Returns ports of a client with the order 7 and two documents.
fn with_order() -> Ports {
    let mut ports = Ports::new();
    ports.reader.expect_with_documents().returning(|_, id| {
        let documents = vec![document(), document()];
        let order = stored(id, &new_order("REFI-1", NOW));
        Ok(Some(MaybeErased::Whole(StoredOrder { documents, ..order })))
    });
    ports
}

#[actix_web::test]
async fn form_needs_supported_documents() {
    post(with_order(), &[]).await.problem(400, "no_documents");
    let bad = part("name=\"documents\"; filename=\"deed.pdf\"", b"no PDF");
    let answer = post(with_order(), &[deed(), bad]).await;
    assert_eq!(answer.problem(400, "unsupported_document")["errors"][0]["pointer"], "/documents/1");
}

#[actix_web::test]
async fn order_is_checked_before_the_documents_are_read() {
    for (found, status, code) in
        [(None, 404, "not_found"), (Some(MaybeErased::Erased), 410, "erased")]
    {
        let mut ports = Ports::new();
        ports.reader.expect_with_documents().return_once(|_, _| Ok(found));
        let request = TestApi::post(PATH).insert_header(("content-type", "text/plain"));
        ports.api().send(request).await.problem(status, code);
    }
}

#[actix_web::test]
async fn key_of_another_request_is_rejected() {
    let mut ports = with_order();
    let answered = Answered {
        fingerprint: Fingerprint([0; 32]),
        order_id: OrderId(7),
        added: None,
        changed_at: None,
    };
    ports
        .idempotency
        .expect_claim()
        .returning(move |_, _, _| Err(WriteError::KeyInUse(KeyUse::Answered(answered))));

    let request = request(&[deed()]).insert_header(("idempotency-key", "8e03978e"));
    ports.api().send(request).await.problem(422, "idempotency_key_reused");
}

#[tokio::test(start_paused = true)]
async fn request_ends_when_its_order_is_erased() {
    let mut ports = Ports::new();
    let mut is_found = true;
    ports.reader.expect_with_documents().returning_st(move |_, id| {
        let order = MaybeErased::Whole(stored(id, &new_order("REFI-1", NOW)));
        Ok(Some(if std::mem::take(&mut is_found) { order } else { MaybeErased::Erased }))
    });
    // It would wait for longer.
    ports.bodies = 0;
    let started = tokio::time::Instant::now();

    post(ports, &[deed()]).await.problem(410, "erased");

    assert_eq!(started.elapsed().as_secs(), 1);
}
