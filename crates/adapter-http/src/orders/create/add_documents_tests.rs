use std::sync::Arc;

use contract_tests::{
    documents,
    fakes::FakeScanner,
    samples::{document, new_order, stored},
};
use domain::{
    api_key::Scope,
    idempotency::{AddedRange, Answered, KeyUse},
    order::{OrderId, StoredOrder},
    orders::scan_documents::ScanDocuments,
    ports::{Kept, WriteError},
};
use serde_json::json;

use crate::test_support::{Answer, NOW, Ports, TestApi, api_key};

const PATH: &str = "/api/order/7/documents";

fn part(disposition: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

fn deed() -> Vec<u8> {
    let disposition = "name=\"documents\"; filename=\"deed.pdf\"";
    part(disposition, &documents::bytes("deed-of-trust.pdf"))
}

async fn post(ports: Ports, form: &[Vec<u8>]) -> Answer {
    ports.api().send(request(form)).await
}

fn request(parts: &[Vec<u8>]) -> actix_web::test::TestRequest {
    TestApi::post(PATH)
        .insert_header(("content-type", "multipart/form-data; boundary=b"))
        .set_payload([parts.concat(), b"--b--\r\n".to_vec()].concat())
}

/// Returns ports of a client with the order 7 and two documents.
fn with_order() -> Ports {
    let mut ports = Ports::new();
    ports.reader.expect_order().returning(|_, id| {
        let documents = vec![document(), document()];
        let order = stored(id, &new_order("REFI-1", NOW));
        Ok(Some(Kept::Whole(StoredOrder { documents, ..order })))
    });
    ports
}

fn storing() -> Ports {
    let mut ports = with_order();
    ports.uploads.expect_record().returning(|_, _| Ok(()));
    ports.blobs.expect_put().returning(|_, _| Ok(()));
    ports
}

#[actix_web::test]
async fn documents_are_added_behind_the_others() {
    let mut ports = storing();
    ports.orders.expect_add_documents().once().returning(|new| {
        assert_eq!((new.order_id, new.documents.len(), new.max_documents), (OrderId(7), 2, 100));
        Ok(AddedRange { first_position: 2, count: 2 })
    });
    let api = ports.api();

    let answer = api.send(request(&[deed(), deed()])).await;

    assert_eq!((answer.status.as_u16(), &answer.body["order_id"]), (201, &json!(7)));
    assert_eq!(answer.body["documents_uploaded"], 4);
    let documents = answer.body["documents"].as_array().unwrap();
    let paths: Vec<_> = documents.iter().map(|it| it["url"].as_str().unwrap()).collect();
    assert_eq!(paths, [format!("{PATH}/2"), format!("{PATH}/3")]);
    assert!(api.has_metric("notary_orders_documents_stored_total 2"));
}

#[actix_web::test]
async fn other_parts_are_rejected() {
    for other in [
        part("name=\"signingServiceId\"", b"42"),
        part("name=\"note\"", b"hello"),
        part("name=\"files\"; filename=\"deed.pdf\"", b"%PDF-1.7"),
    ] {
        let answer = post(with_order(), &[deed(), other]).await;
        answer.problem(400, "malformed_request");
    }
}

#[actix_web::test]
async fn form_needs_supported_documents() {
    post(with_order(), &[]).await.problem(400, "no_documents");
    let bad = part("name=\"documents\"; filename=\"deed.pdf\"", b"no PDF");
    let answer = post(with_order(), &[deed(), bad]).await;
    assert_eq!(answer.problem(400, "unsupported_document")["errors"][0]["pointer"], "/documents/1");
}

#[actix_web::test]
async fn infected_documents_are_not_added() {
    let mut ports = with_order();
    ports.scan = Some(ScanDocuments { scanner: Arc::<FakeScanner>::default(), required: true });
    let malware = [b"%PDF-1.7 ", FakeScanner::MALWARE].concat();
    let infected = part("name=\"documents\"; filename=\"deed.pdf\"", &malware);
    let answer = post(ports, &[deed(), infected]).await;
    assert_eq!(answer.problem(400, "infected_document")["errors"][0]["pointer"], "/documents/1");
}

#[actix_web::test]
async fn order_is_checked_before_the_documents_are_read() {
    for (found, status, code) in [(None, 404, "not_found"), (Some(Kept::Erased), 410, "erased")] {
        let mut ports = Ports::new();
        ports.reader.expect_order().return_once(|_, _| Ok(found));
        let request = TestApi::post(PATH).insert_header(("content-type", "text/plain"));
        ports.api().send(request).await.problem(status, code);
    }
}

#[actix_web::test]
async fn full_order_takes_no_more() {
    let mut ports = storing();
    ports.orders.expect_add_documents().returning(|_| Err(WriteError::TooMany { stored: 100 }));
    ports.uploads.expect_condemn().returning(|_| Ok(Vec::new()));

    let answer = post(ports, &[deed()]).await;

    let problem = answer.problem(400, "too_many_documents");
    assert!(problem["detail"].as_str().unwrap().contains("at most 100"), "{problem}");
}

#[actix_web::test]
async fn key_without_the_scope_is_rejected() {
    let mut ports = Ports::without_key();
    ports.keys.expect_find().returning(|_| {
        let mut key = api_key();
        key.key.scopes = [Scope::OrdersRead].into_iter().collect();
        Ok(Some(key))
    });

    let answer = post(ports, &[deed()]).await;

    answer.problem(403, "forbidden");
    assert!(answer.header("www-authenticate").contains(r#"scope="orders:create""#));
}

#[actix_web::test]
async fn repeat_under_same_key_gets_first_answer() {
    let mut ports = storing();
    ports.idempotency.expect_claim().returning(|_, _, _| Ok(()));
    ports.orders.expect_add_documents().once().returning(|new| {
        let fingerprint = new.idempotent_request.as_ref().unwrap().attempt.fingerprint;
        let added = Some(AddedRange { first_position: 1, count: 1 });
        let answered = Answered { fingerprint, order_id: OrderId(7), added };
        Err(WriteError::KeyInUse(KeyUse::Answered(answered)))
    });
    ports.uploads.expect_condemn().returning(|_| Ok(Vec::new()));

    let request = request(&[deed()]).insert_header(("idempotency-key", "8e03978e"));
    let answer = ports.api().send(request).await;

    assert_eq!((answer.status.as_u16(), &answer.body["documents_uploaded"]), (201, &json!(2)));
    assert_eq!(answer.body["documents"][0]["position"], 1);
    assert_eq!(answer.header("idempotency-replayed"), "true");
}

#[actix_web::test]
async fn key_of_another_request_is_rejected() {
    let mut ports = with_order();
    let answered = Answered {
        fingerprint: domain::idempotency::Fingerprint([0; 32]),
        order_id: OrderId(7),
        added: None,
    };
    ports
        .idempotency
        .expect_claim()
        .returning(move |_, _, _| Err(WriteError::KeyInUse(KeyUse::Answered(answered))));

    let request = request(&[deed()]).insert_header(("idempotency-key", "8e03978e"));
    ports.api().send(request).await.problem(422, "idempotency_key_reused");
}
