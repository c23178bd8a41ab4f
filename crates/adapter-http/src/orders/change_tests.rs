use std::sync::{Arc, Mutex};

use actix_web::{http::Method, test::TestRequest};
use contract_tests::samples::{minimal_request, new_order, stored};
use domain::{
    api_key::{Owner, Party, Scope},
    order::{
        Actor, OrderCommand, OrderId, OrderRequest, OrderStatus, Refusal, SigningServiceId,
        StoredOrder, change::Amendment,
    },
    ports::{Changed, MaybeErased, NewOrder, OrderUpdate, WriteError},
    precondition::OrderPrecondition,
};
use serde_json::{Value, json};

use crate::test_support::{NOW, OWNER, Ports, TestApi};

const CLOSED: [&str; 2] = ["SIGNED", "COMPLETED"];
const SERVICE: Owner = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };

/// Returns mocks with a key of service 42, or of client 1, and order 7 in a status.
fn ports(of_service: bool, status: &'static str) -> (Ports, Arc<Mutex<Vec<OrderUpdate>>>) {
    let mut ports = if of_service {
        Ports::with_key(|key| {
            key.for_service = Some(SigningServiceId(42));
            key.scopes = Scope::OF_SERVICES.into_iter().collect();
        })
    } else {
        Ports::new()
    };
    let found = move |id| {
        let status = OrderStatus::from_stored(status.to_owned()).unwrap();
        let order = stored(id, &new_order("REFI-1", NOW));
        (id == OrderId(7)).then_some(StoredOrder { status, ..order })
    };
    ports.reader.expect_order().returning(move |_, id| Ok(found(id).map(MaybeErased::Whole)));
    ports
        .reader
        .expect_listed()
        .returning(move |_, id| Ok(found(id).map(|order| MaybeErased::Whole(order.into()))));
    let updates = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&updates);
    ports.orders.expect_update().returning(move |update| {
        let before = stored(update.id, &new_order("REFI-1", NOW));
        let is_expected =
            update.expected.as_ref().is_none_or(|seen| seen.contains(&before.updated_at));
        let new_status = update.status.clone().unwrap_or(OrderStatus::NEW);
        let cancels = new_status == OrderStatus::CANCELLED;
        let is_open = status != "CANCELLED" && !(cancels && CLOSED.contains(&status));
        if update.id != OrderId(7) || !is_expected || !is_open || new_status.as_str() == status {
            return Ok(None);
        }
        seen.lock().unwrap().push(update.clone());
        let notary_id = update.notary_id.unwrap_or(before.notary_id);
        Ok(Some(StoredOrder { status: new_status, notary_id, ..before }.into()))
    });
    (ports, updates)
}

fn patch(body: &Value) -> TestRequest {
    TestApi::post("/api/order/7").method(Method::PATCH).set_json(body)
}

fn cancel() -> TestRequest {
    TestApi::post("/api/order/7/cancel")
}

#[actix_web::test]
async fn service_changes_an_order_and_gets_its_record() {
    let (ports, updates) = ports(true, "NEW");
    let api = ports.api();
    let body = json!({ "order_status": "ASSIGNED", "notary_id": 5 });

    let answer = api.send(patch(&body)).await;

    assert_eq!(answer.status, 200);
    assert_eq!(
        (&answer.body["order_status"], &answer.body["notary_id"]),
        (&json!("ASSIGNED"), &json!(5))
    );
    assert_eq!(
        (&answer.body["order_id"], &answer.body["documents_uploaded"]),
        (&json!(7), &json!(0))
    );
    assert!(answer.body.get("history").is_none() && answer.body.get("details").is_none());
    assert!(answer.header("etag").starts_with('"'));
    let updates = updates.lock().unwrap();
    assert_eq!((updates[0].owner, updates[0].actor), (SERVICE, Actor::Service));
}

#[actix_web::test]
async fn only_the_expected_version_is_changed() {
    let (ports, updates) = ports(true, "NEW");
    let api = ports.api();
    let tag = api.send(TestApi::get("/api/order/7")).await.header("etag").to_owned();
    let body = json!({ "order_status": "ASSIGNED" });
    for stale in ["\"b2\"", "b2", ""] {
        for request in [patch(&body), cancel()] {
            let request = request.insert_header(("if-match", stale));
            api.send(request).await.problem(412, "precondition_failed");
        }
    }
    assert!(updates.lock().unwrap().is_empty());
    for current in [tag.clone(), "*".to_owned(), format!("\"b2\", {tag}"), format!("W/{tag}")] {
        let answer = api.send(patch(&body).insert_header(("if-match", current))).await;
        assert_eq!(answer.status, 200);
    }
}

#[actix_web::test]
async fn violations_are_named_by_pointers() {
    let (ports, _) = ports(true, "NEW");
    let body = json!({ "order_status": "A\nB", "notary_id": "5", "status": "NEW" });
    let answer = ports.api().send(patch(&body)).await;
    let fields = answer.body["errors"].as_array().unwrap().iter();
    let fields: Vec<_> = fields.map(|error| (&error["pointer"], &error["code"])).collect();
    let expected = [
        ("/notary_id", "wrong_type"),
        ("/order_status", "invalid_characters"),
        ("/status", "unknown_member"),
    ]
    .map(|(pointer, code)| (json!(pointer), json!(code)));
    let expected: Vec<_> = expected.iter().map(|(pointer, code)| (pointer, code)).collect();
    assert_eq!(fields, expected);
}

#[actix_web::test]
async fn client_cancels_and_does_not_change() {
    let (ports, updates) = ports(false, "ASSIGNED");
    let api = ports.api();
    api.send(patch(&json!({ "order_status": "SIGNED" }))).await.problem(403, "forbidden");
    for request in [cancel(), cancel().set_json(json!({ "reason": "ill" }))] {
        let answer = api.send(request).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["order_status"]),
            (200, &json!("CANCELLED"))
        );
    }
    let updates = updates.lock().unwrap();
    let reasons: Vec<_> = updates.iter().map(|update| update.reason.as_deref()).collect();
    assert_eq!(reasons, [None, Some("ill")]);
    assert!(updates.iter().all(|update| update.actor == Actor::Client));
}

#[actix_web::test]
async fn closed_orders_are_conflicts() {
    let (cancelled, _) = ports(true, "CANCELLED");
    let api = cancelled.api();
    api.send(patch(&json!({ "order_status": "NEW" }))).await.problem(409, "order_cancelled");
    assert_eq!(api.send(patch(&json!({ "order_status": "CANCELLED" }))).await.status, 200);
    assert_eq!(api.send(cancel()).await.status, 200);
    for status in ["SIGNED", "COMPLETED"] {
        let (ports, _) = ports(true, status);
        let api = ports.api();
        api.send(cancel()).await.problem(409, "order_closed");
        let body = json!({ "order_status": "CANCELLED" });
        api.send(patch(&body)).await.problem(409, "order_closed");
    }
}

#[actix_web::test]
async fn empty_body_of_any_type_is_none() {
    let (ports, _) = ports(false, "ASSIGNED");
    let api = ports.api();
    for (name, value) in [
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-type", "application/json"),
        ("content-type", "text/plain"),
        ("content-type", ""),
        ("content-encoding", "gzip"),
        ("content-length", "0"),
        ("transfer-encoding", "chunked"),
    ] {
        let answer = api.send(cancel().insert_header((name, value))).await;
        assert_eq!(answer.status, 200, "{name}: {value}");
    }
    let texts = [" ", "\r\n", "\u{feff}", "null", " \"\"", r#"" ""#];
    for (text, media_type) in texts.iter().zip(["application/json", "text/plain"].iter().cycle()) {
        let request = cancel().insert_header(("content-type", *media_type));
        assert_eq!(api.send(request.set_payload(*text)).await.status, 200, "{text:?}");
    }
    for reason in [json!(null), json!(""), json!(" \t")] {
        let answer = api.send(cancel().set_json(json!({ "reason": reason }))).await;
        assert_eq!(answer.status, 200, "{reason}");
    }
    for length in ["5", ""] {
        let request = cancel().insert_header(("content-type", "text/plain"));
        let request = request.insert_header(("content-length", length)).set_payload("a=b&c");
        api.send(request).await.problem(415, "unsupported_media_type");
    }
}

#[actix_web::test]
async fn unknown_order_is_not_found() {
    let (ports, _) = ports(true, "NEW");
    let api = ports.api();
    for request in [
        TestApi::post("/api/order/8").method(Method::PATCH).set_json(json!({})),
        TestApi::post("/api/order/8/cancel"),
        TestApi::post("/api/order/x/cancel"),
    ] {
        api.send(request).await.problem(404, "not_found");
    }
}

fn put(body: &Value) -> TestRequest {
    TestApi::post("/api/order/7").method(Method::PUT).set_json(body)
}

/// Returns the request of the order.
fn request() -> Value {
    let mut request = minimal_request();
    request["signingDetailsFormData"]["fileNumber"] = json!("REFI-1");
    request
}

/// Amendments of an order, and who asked for them.
type Amendments = Arc<Mutex<Vec<(Option<Owner>, Amendment)>>>;

/// Has the store answer amendments of order 7 with what a call returns. Returns the amendments.
fn amended(
    ports: &mut Ports,
    answer: impl Fn() -> Result<(), WriteError> + Send + Sync + 'static,
) -> Amendments {
    let amendments = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&amendments);
    ports.orders.expect_change().returning(move |request| {
        let OrderCommand::Amend(amendment) = &request.command else { panic!("{request:?}") };
        seen.lock().unwrap().push((request.owner, amendment.clone()));
        let new = NewOrder { order: amendment.order.clone(), ..new_order("REFI-1", NOW) };
        answer().map(|()| Changed::Amended(Box::new(stored(request.order, &new).into())))
    });
    amendments
}

#[actix_web::test]
async fn client_replaces_the_details_and_gets_the_record() {
    let (mut ports, _) = ports(false, "ASSIGNED");
    let amendments = amended(&mut ports, || Ok(()));
    let api = ports.api();
    let mut body = request();
    body["signingDetailsFormData"]["signerName"] = json!("Jane Roe");
    let tag = api.send(TestApi::get("/api/order/7")).await.header("etag").to_owned();

    let answer = api.send(put(&body).insert_header(("if-match", tag))).await;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["signer_name"], "Jane Roe");
    assert!(answer.body.get("history").is_none() && answer.body.get("details").is_none());
    assert!(answer.header("etag").starts_with('"'));
    let amendments = amendments.lock().unwrap();
    let (owner, Amendment { precondition, order, .. }) = &amendments[0];
    let expected = OrderPrecondition::expecting(vec![NOW]);
    assert_eq!((owner, precondition), (&Some(OWNER), &expected));
    let read = serde_json::to_value(OrderRequest::of(order)).unwrap();
    assert_eq!(read["signingDetailsFormData"]["signerName"], "Jane Roe");
}

#[actix_web::test]
async fn replaced_details_follow_the_rules_of_creating() {
    let (mut ports, _) = ports(false, "NEW");
    let amendments = amended(&mut ports, || Ok(()));
    let api = ports.api();
    let mut body = request();
    body["signingDetailsFormData"]["fileNumber"] = json!("REFI-2");
    body["signingDetailsFormData"]["state"] = json!("Texas");
    body["signingServiceId"] = json!(43);
    body["documents"] = json!([{ "name": "deed.pdf" }]);
    let answer = api.send(put(&body)).await;
    let expected = [
        ("/signingDetailsFormData/state", "invalid_format"),
        ("/documents", "misplaced_member"),
        ("/signingDetailsFormData/fileNumber", "immutable"),
        ("/signingServiceId", "immutable"),
    ];
    assert_eq!(answer.errors(), expected);
    for body in ["[]", "null", "{"] {
        let request = TestApi::post("/api/order/7").method(Method::PUT);
        let request = request.insert_header(("content-type", "application/json"));
        api.send(request.set_payload(body)).await.problem(400, "malformed_request");
    }
    let form = TestApi::post("/api/order/7").method(Method::PUT).set_payload("a=b");
    api.send(form).await.problem(415, "unsupported_media_type");
    assert_eq!(*amendments.lock().unwrap(), []);
}

#[actix_web::test]
async fn service_and_foreign_orders_are_not_replaced() {
    let (service, _) = ports(true, "NEW");
    service.api().send(put(&request())).await.problem(403, "forbidden");
    let (client, _) = ports(false, "NEW");
    let api = client.api();
    for body in [request(), json!({})] {
        for path in ["/api/order/8", "/api/order/x"] {
            let request = TestApi::post(path).method(Method::PUT).set_json(&body);
            api.send(request).await.problem(404, "not_found");
        }
    }
}

#[actix_web::test]
async fn refused_replacements_have_their_problems() {
    for (error, status, code) in [
        ((|| Refusal::Changed.into()) as fn() -> WriteError, 412, "precondition_failed"),
        (|| Refusal::Cancelled.into(), 409, "order_cancelled"),
        (|| Refusal::Over.into(), 409, "order_closed"),
        (|| Refusal::Erased.into(), 410, "erased"),
        (|| Refusal::NoSuchOrder.into(), 404, "not_found"),
        (|| WriteError::Unavailable("down".into()), 503, "unavailable"),
    ] {
        let (mut ports, _) = ports(false, "NEW");
        amended(&mut ports, move || Err(error()));
        ports.api().send(put(&request())).await.problem(status, code);
    }
}
