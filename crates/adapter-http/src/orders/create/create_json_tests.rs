use std::sync::Arc;

use contract_tests::samples::{minimal_request, new_order, stored};
use domain::{
    idempotency::{Answered, KeyUse},
    order::{OrderId, SigningServiceId},
    ports::{Kept, StoreError, WriteError},
};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use time::Duration;
use tokio::sync::Semaphore;

use super::*;
use crate::test_support::{Answer, NOW, Ports, TestApi, api_key};

/// Posts an order on mocks of the ports.
async fn post(ports: Ports, order: &Value) -> Answer {
    ports.api().send(TestApi::post(PATH).set_json(order)).await
}

#[actix_web::test]
async fn valid_order_is_created() {
    let mut ports = Ports::new();
    ports.orders.expect_create().once().returning(|_, _| Ok(OrderId(7)));

    let answer = post(ports, &minimal_request()).await;

    assert_eq!(answer.status, 201);
    assert_eq!(answer.body["order_id"], 7);
    assert_eq!(answer.body["file_number"], "REFI-1");
}

#[actix_web::test]
async fn invalid_fields_are_named_by_pointers() {
    let mut order = minimal_request();
    order["signingDetailsFormData"]["state"] = json!("Texas");
    order["requestedBy"] = json!({});

    let answer = post(Ports::new(), &order).await;

    let errors = answer.problem(400, "validation_failed")["errors"].as_array().unwrap();
    let errors: Vec<_> = errors.iter().map(|error| (&error["pointer"], &error["code"])).collect();
    assert_eq!(
        errors,
        [
            (&json!("/signingDetailsFormData/state"), &json!("invalid_format")),
            (&json!("/requestedBy/userId"), &json!("required")),
        ]
    );
}

#[actix_web::test]
async fn duplicate_file_number_is_a_conflict() {
    let mut ports = Ports::new();
    ports
        .orders
        .expect_create()
        .returning(|_, _| Err(WriteError::Duplicate { created_at: NOW - Duration::seconds(18) }));

    let answer = post(ports, &minimal_request()).await;

    answer.problem(409, "duplicate_order");
    assert_eq!(answer.header("retry-after"), "42");
}

#[actix_web::test]
async fn unresponsive_store_is_unavailable() {
    let mut ports = Ports::new();
    ports.orders.expect_create().returning(|_, _| Err(WriteError::Unavailable("down".into())));

    let answer = post(ports, &minimal_request()).await;

    answer.problem(503, "unavailable");
    assert_eq!(answer.header("retry-after"), "5");
}

#[actix_web::test]
async fn order_over_concurrency_limit_is_unavailable() {
    let ports = Ports { concurrency: 0, ..Ports::new() };

    let answer = post(ports, &minimal_request()).await;

    answer.problem(503, "unavailable");
    assert_eq!(answer.header("retry-after"), "1");
}

#[actix_web::test]
async fn order_of_disconnected_client_is_created_and_counted() {
    let hold = Arc::new(Semaphore::new(0));
    let mut ports = Ports { hold: Some(Arc::clone(&hold)), ..Ports::new() };
    ports.orders.expect_create().once().returning(|_, _| Ok(OrderId(7)));
    let api = ports.api();
    let order = || TestApi::post(PATH).set_json(minimal_request());
    let mut sending = Box::pin(api.send(order()));
    assert!((&mut sending).now_or_never().is_none());

    drop(sending);
    // It keeps its permit of the concurrency limit.
    api.send(order()).await.problem(503, "unavailable");
    hold.add_permits(1);
    api.finish().await;

    assert!(api.has_metric(r#"notary_orders_orders_created_total{operation="json"} 1"#));
}

#[actix_web::test]
async fn unknown_key_is_unauthorized() {
    let mut ports = Ports::without_key();
    ports.keys.expect_find().once().returning(|_| Ok(None));

    let answer = post(ports, &minimal_request()).await;

    answer.problem(401, "unauthorized");
    assert!(answer.header("www-authenticate").contains("invalid_token"));
}

#[actix_web::test]
async fn unresponsive_key_store_is_unavailable() {
    let mut ports = Ports::without_key();
    ports.keys.expect_find().returning(|_| Err(StoreError::Unavailable("down".into())));

    post(ports, &minimal_request()).await.problem(503, "unavailable");
}

#[actix_web::test]
async fn key_of_other_signing_service_is_forbidden() {
    let mut ports = Ports::without_key();
    ports.keys.expect_find().returning(|_| {
        let mut key = api_key();
        key.key.signing_service = Some(SigningServiceId(7));
        Ok(Some(key))
    });

    let answer = post(ports, &minimal_request()).await;

    answer.problem(403, "forbidden");
    assert!(answer.header("www-authenticate").contains("insufficient_scope"));
}

#[actix_web::test]
async fn repeat_under_same_key_gets_first_order() {
    let mut ports = Ports::new();
    ports.orders.expect_create().once().returning(|new, _| {
        let fingerprint = new.idempotent_request.as_ref().unwrap().attempt.fingerprint;
        Err(WriteError::KeyInUse(KeyUse::Answered(Answered {
            fingerprint,
            order_id: OrderId(7),
            added: None,
        })))
    });
    ports
        .reader
        .expect_order()
        .once()
        .returning(|_, id| Ok(Some(Kept::Whole(stored(id, &new_order("REFI-1", NOW))))));
    let request = TestApi::post(PATH)
        .insert_header(("idempotency-key", "8e03978e"))
        .set_json(minimal_request());

    let answer = ports.api().send(request).await;

    assert_eq!((answer.status.as_u16(), &answer.body["order_id"]), (201, &json!(7)));
    assert_eq!(answer.header("idempotency-replayed"), "true");
}

#[actix_web::test]
async fn panic_in_port_is_internal_error() {
    let mut ports = Ports::new();
    ports.orders.expect_create().returning(|_, _| panic!("a bug"));

    post(ports, &minimal_request()).await.problem(500, "internal");
}

#[actix_web::test]
async fn unsupported_content_type_is_rejected() {
    let request = TestApi::post(PATH).insert_header(("content-type", "text/plain"));

    Ports::new().api().send(request).await.problem(415, "unsupported_media_type");
}

#[tokio::test(start_paused = true)]
async fn body_waits_five_seconds_for_a_permit() {
    let started = tokio::time::Instant::now();

    let answer = post(Ports { bodies: 0, ..Ports::new() }, &minimal_request()).await;

    answer.problem(503, "unavailable");
    assert_eq!((answer.header("retry-after"), started.elapsed().as_secs()), ("5", 5));
}
