use actix_web::{http::Method, test::TestRequest};
use contract_tests::samples::{minimal_request, new_order, stored};
use domain::{
    access::AccessKind,
    api_key::{Rate, Scope},
    idempotency::{Answered, KeyUse},
    order::{OrderChange, OrderCommand, OrderId, OrderStatus, SigningServiceId, StoredOrder},
    ports::{Changed, HistoryEntry, HistoryId, ListedOrder, MaybeErased, Page, WriteError},
    precondition::{OrderPrecondition, Versions},
};
use serde_json::json;

use crate::test_support::{NOW, Ports, TestApi, form};

const PATH: &str = "/api/order?file_number=REFI-1";

fn put(path: &str) -> TestRequest {
    TestApi::post(path).method(Method::PUT).set_json(minimal_request())
}

/// Returns mocks in which the newest order with the file number is 7, or there is none.
fn ports(status: Option<&'static str>) -> Ports {
    let mut ports = Ports::new();
    let found = move || {
        let status = OrderStatus::from_stored(status?.to_owned()).unwrap();
        let order = stored(OrderId(7), &new_order("REFI-1", NOW));
        Some(ListedOrder::from(StoredOrder { status, ..order }))
    };
    ports.reader.expect_newest().returning(move |_, file_number| {
        assert_eq!(file_number, "REFI-1");
        Ok(found().map(|order| (order.stored.id, order.stored.status)))
    });
    ports.reader.expect_listed().returning(move |_, _| Ok(found().map(MaybeErased::Whole)));
    ports
}

#[actix_web::test]
async fn order_is_created_with_its_address() {
    for status in [None, Some("CANCELLED")] {
        let mut ports = ports(status);
        let after = status.map(|_| OrderId(7));
        ports.orders.expect_create().once().returning(move |new, _| {
            assert_eq!(new.only_after, Some(after));
            Ok(OrderId(9))
        });
        let api = Ports { rate: Rate { per_second: 9, burst: 9 }, ..ports }.api();
        let answer = api.send(put(PATH)).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (201, "/api/order/9"));
        assert_eq!(answer.body["order_id"], 9);
        assert!(answer.body.get("documents_uploaded").is_none(), "{}", answer.body);
        assert_eq!(answer.header("ratelimit-policy").split(';').next(), Some("\"orders\""));
        assert_eq!(api.accesses().await, [], "the order tells of its creation");
    }
}

#[actix_web::test]
async fn newest_order_is_changed_and_leaves_an_access() {
    let mut ports = ports(Some("ASSIGNED"));
    ports.orders.expect_change().once().returning(|request| {
        let OrderCommand::Amend(amendment) = &request.command else { panic!("{request:?}") };
        assert_eq!(amendment.precondition, OrderPrecondition::expecting(vec![NOW]));
        assert_eq!(request.access.as_ref().unwrap().facts.order, Some(OrderId(7)));
        let order = stored(request.order, &new_order("REFI-1", NOW));
        Ok(Changed::Amended(Box::new(order.into())))
    });
    ports
        .reader
        .expect_order()
        .returning(|_, id| Ok(Some(MaybeErased::Whole(stored(id, &new_order("REFI-1", NOW))))));
    let api = ports.api();
    let tag = api.send(TestApi::get("/api/order/7")).await.header("etag").to_owned();
    let answer = api.send(put(PATH).insert_header(("if-match", tag.clone()))).await;
    assert_eq!((answer.status.as_u16(), answer.header("etag")), (200, &*tag));
    assert_eq!(answer.body["order_id"], 7);
    assert!(answer.headers.get("location").is_none());
    let accesses = api.accesses().await;
    let facts = accesses.iter().map(|access| (access.facts.kind, access.facts.order));
    let expected = [(AccessKind::Read, Some(OrderId(7))), (AccessKind::Change, Some(OrderId(7)))];
    assert!(facts.eq(expected), "{accesses:?}");
}

#[actix_web::test]
async fn parameter_is_needed_once_and_alone() {
    let api = Ports::new().api();
    for (path, errors) in [
        ("/api/order", &[("file_number", "required")][..]),
        ("/api/order?file_number=", &[("file_number", "blank")]),
        ("/api/order?file_number=%20", &[("file_number", "blank")]),
        ("/api/order?file_number=A&file_number=A", &[("file_number", "repeated")]),
        ("/api/order?file_number=A%00", &[("file_number", "invalid_characters")]),
        ("/api/order?limit=1", &[("limit", "unknown_parameter"), ("file_number", "required")]),
        ("/api/order?file_number=A&x=1", &[("x", "unknown_parameter")]),
    ] {
        assert_eq!(api.send(put(path)).await.errors(), errors, "{path}");
    }
}

#[actix_web::test]
async fn request_that_expects_a_version_creates_nothing() {
    let api = ports(None).api();
    for tag in ["*", "\"a\"", ""] {
        let request = put(PATH).insert_header(("if-match", tag));
        api.send(request).await.problem(412, "precondition_failed");
    }
}

#[actix_web::test]
async fn request_that_only_creates_excludes_every_version() {
    let mut ports = ports(Some("NEW"));
    ports.orders.expect_change().once().returning(|request| {
        let OrderCommand::Amend(amendment) = &request.command else { panic!("{request:?}") };
        assert_eq!(amendment.precondition.excluded, Versions::Any);
        Err(domain::order::Refusal::Changed.into())
    });
    let request = put(PATH).insert_header(("if-none-match", "*"));
    ports.api().send(request).await.problem(412, "precondition_failed");
}

#[actix_web::test]
async fn repeats_are_marked() {
    for changed_at in [None, Some(NOW)] {
        let mut ports = ports(Some("NEW"));
        ports.orders.expect_change().returning(move |request| {
            let attempt = &request.idempotent_request.as_ref().unwrap().attempt;
            let (fingerprint, order_id) = (attempt.fingerprint, OrderId(7));
            let answered = Answered { fingerprint, order_id, added: None, changed_at };
            Err(WriteError::KeyInUse(KeyUse::Answered(answered)))
        });
        let found = |id| Some(MaybeErased::Whole(stored(id, &new_order("REFI-1", NOW))));
        ports.reader.expect_history().returning(move |_, _, _| {
            let change = OrderChange::created(NOW);
            let items = vec![HistoryEntry { id: HistoryId::CREATED, change }];
            let page = Page { items, has_older: false, has_newer: false, stopped_at: None };
            Ok(Some(MaybeErased::Whole(Some(page))))
        });
        ports.reader.expect_with_documents().returning(move |_, id| Ok(found(id)));
        let api = ports.api();
        let answer = api.send(put(PATH).insert_header(("idempotency-key", "a"))).await;
        let status = if changed_at.is_some() { 200 } else { 201 };
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.header("idempotency-replayed"), "true");
        assert_eq!(answer.headers.contains_key("etag"), changed_at.is_some());
    }
}

#[actix_web::test]
async fn form_and_other_json_are_refused() {
    let api = ports(None).api();
    let form = form(PATH, &[]).method(Method::PUT);
    api.send(form).await.problem(415, "unsupported_media_type");
    let request = TestApi::post(PATH).method(Method::PUT);
    api.send(request.set_json(json!([]))).await.problem(400, "malformed_request");
    let request = put(PATH).insert_header(("idempotency-key", ""));
    api.send(request).await.problem(400, "malformed_request");
}

#[actix_web::test]
async fn keys_without_the_scope_are_refused() {
    let read_only = Ports::with_key(|key| key.scopes = [Scope::OrdersRead].into_iter().collect());
    let of_service = Ports::with_key(|key| {
        key.for_service = Some(SigningServiceId(42));
        key.scopes = Scope::OF_SERVICES.into_iter().collect();
    });
    for ports in [read_only, of_service] {
        ports.api().send(put(PATH)).await.problem(403, "forbidden");
    }
}
