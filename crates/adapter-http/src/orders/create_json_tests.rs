use contract_tests::samples::minimal_request;
use domain::{
    order::OrderId,
    ports::{StoreError, WriteError},
};
use serde_json::Value;

use super::*;
use crate::test_support::{Ports, TestAnswer, TestApi};

/// Posts an order on mocks of the ports.
async fn post(ports: Ports, order: &Value) -> TestAnswer {
    ports.api().send(TestApi::post(PATH).set_json(order)).await
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
async fn unresponsive_key_store_is_unavailable() {
    let mut ports = Ports::without_key();
    ports.keys.expect_find().returning(|_| Err(StoreError::Unavailable("down".into())));

    post(ports, &minimal_request()).await.problem(503, "unavailable");
}

#[actix_web::test]
async fn panic_in_port_is_internal_error() {
    let mut ports = Ports::new();
    ports.orders.expect_create().returning(|_, _| panic!("a bug"));

    post(ports, &minimal_request()).await.problem(500, "internal");
}

#[tokio::test(start_paused = true)]
async fn body_waits_five_seconds_for_a_permit() {
    let started = tokio::time::Instant::now();

    let answer = post(Ports { bodies: 0, ..Ports::new() }, &minimal_request()).await;

    answer.problem(503, "unavailable");
    assert_eq!((answer.header("retry-after"), started.elapsed().as_secs()), ("5", 5));
}

#[actix_web::test]
async fn too_large_order_names_the_operation_for_documents() {
    let mut order = minimal_request();
    order["documents"] = "x".repeat(300 * 1024).into();

    let answer = post(Ports::new(), &order).await;

    let problem = answer.problem(413, "payload_too_large");
    assert!(problem["detail"].to_string().contains("create-with-documents"), "{problem}");
}

#[actix_web::test]
async fn created_order_has_an_address() {
    let mut ports = Ports::new();
    ports.orders.expect_create().returning(|_, _| Ok(OrderId(7)));

    let answer = post(ports, &minimal_request()).await;

    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("location"), "/api/order/7");
}

/// Nothing is stored: a call without an expectation fails.
#[actix_web::test]
async fn new_order_matches_no_version() {
    let api = Ports::new().api();
    for tag in ["*", "\"a\""] {
        let request = TestApi::post(PATH).set_json(minimal_request());
        let answer = api.send(request.insert_header(("if-match", tag))).await;
        answer.problem(412, "precondition_failed");
    }
}

#[actix_web::test]
async fn documents_in_json_are_rejected() {
    let mut order = minimal_request();
    order["documents"] = serde_json::json!([{ "name": "deed.pdf" }]);

    let answer = post(Ports::new(), &order).await;

    answer.problem(400, "validation_failed");
    assert_eq!(answer.errors(), [("/documents", "misplaced_member")]);
}
