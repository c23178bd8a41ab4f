use actix_web::{http::Method, test::TestRequest};
use domain::{
    ports::UrlRefused,
    webhook::{EndpointId, endpoint_request::EndpointChange},
};
use serde_json::{Value, json};

use crate::{
    test_support::{NOW, Ports, TestAnswer, TestApi},
    webhooks::test_endpoint::{OWNER, disabled, endpoint},
};

const PATH: &str = "/api/webhooks/3";

fn patch(body: &Value) -> TestRequest {
    TestApi::post(PATH).method(Method::PATCH).set_json(body)
}

/// Returns the body of a problem without its request id.
fn without_id(answer: &TestAnswer) -> Value {
    let mut body = answer.problem(404, "not_found").clone();
    body["request_id"].take();
    body
}

#[actix_web::test]
async fn webhook_is_read() {
    let mut ports = Ports::new();
    ports.endpoints.expect_endpoint().returning(|owner, id| {
        assert_eq!((owner, id), (OWNER, EndpointId(3)));
        Ok(Some(endpoint(3)))
    });
    let api = ports.api();

    let answer = api.send(TestApi::get(PATH)).await;
    let tag = answer.header("etag").to_owned();
    let unchanged = api.send(TestApi::get(PATH).insert_header(("if-none-match", tag))).await;

    assert_eq!((answer.status.as_u16(), &answer.body["id"]), (200, &json!(3)));
    assert!(answer.body.get("secret").is_none());
    assert_eq!(unchanged.status, 304);
}

#[actix_web::test]
async fn webhook_is_changed() {
    let mut ports = Ports::new();
    ports.endpoints.expect_change().once().returning(|owner, id, change, at| {
        let expected = EndpointChange { is_enabled: Some(false), ..EndpointChange::default() };
        assert_eq!((owner, id, change, at), (OWNER, EndpointId(3), &expected, NOW));
        Ok(Some(disabled(3)))
    });

    let answer = ports.api().send(patch(&json!({ "status": "disabled" }))).await;

    assert_eq!((answer.status.as_u16(), &answer.body["status"]), (200, &json!("disabled")));
    assert_eq!(answer.header("cache-control"), "no-store");
}

#[actix_web::test]
async fn invalid_change_is_rejected() {
    let mut ports = Ports::new();
    ports.endpoints.expect_endpoint().returning(|_, _| Ok(Some(endpoint(3))));
    ports.sender.expect_check().returning(|_, _| Err(UrlRefused("it is private".to_owned())));
    let api = ports.api();
    for (body, pointer) in [
        (json!({ "status": "paused" }), "/status"),
        (json!({ "events": [] }), "/events"),
        (json!({ "url": "https://10.0.0.1" }), "/url"),
        (json!([]), ""),
    ] {
        let answer = api.send(patch(&body)).await;
        let problem = answer.problem(400, "validation_failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
}

#[actix_web::test]
async fn webhook_is_deleted() {
    let mut ports = Ports::new();
    ports.endpoints.expect_remove().once().returning(|owner, id| {
        assert_eq!((owner, id), (OWNER, EndpointId(3)));
        Ok(true)
    });

    let answer = ports.api().send(TestApi::post(PATH).method(Method::DELETE)).await;

    assert_eq!((answer.status.as_u16(), answer.bytes.unwrap().len()), (204, 0));
}

#[actix_web::test]
async fn new_secret_is_shown() {
    let mut ports = Ports::new();
    ports.secrets.expect_seal().returning(|_, _| vec![1]);
    ports.endpoints.expect_rotate_secret().once().returning(|owner, id, _, at| {
        assert_eq!((owner, id, at), (OWNER, EndpointId(3), NOW));
        Ok(true)
    });

    let answer = ports.api().send(TestApi::post(&format!("{PATH}/rotate-secret"))).await;

    assert_eq!((answer.status.as_u16(), &answer.body["id"]), (200, &json!(3)));
    assert!(answer.body["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(answer.header("cache-control"), "no-store");
}

#[actix_web::test]
async fn every_webhook_that_is_not_the_clients_is_the_same_404() {
    let mut ports = Ports::new();
    ports.secrets.expect_seal().returning(|_, _| vec![1]);
    ports.endpoints.expect_endpoint().returning(|_, _| Ok(None));
    ports.endpoints.expect_change().returning(|_, _, _, _| Ok(None));
    ports.endpoints.expect_remove().returning(|_, _| Ok(false));
    ports.endpoints.expect_rotate_secret().returning(|_, _, _, _| Ok(false));
    ports.deliveries.expect_add_test().returning(|_, _, _, _| Ok(None));
    ports.deliveries.expect_replay().returning(|_, _, _, _| Ok(false));
    let api = ports.api();
    let missing = without_id(&api.send(TestApi::get(PATH)).await);
    for id in ["0", "-1", "+3", "03", "three", "9223372036854775808"] {
        let answer = api.send(TestApi::get(&format!("/api/webhooks/{id}"))).await;
        assert_eq!(without_id(&answer), missing, "{id}");
    }
    for request in [
        patch(&json!({})),
        patch(&json!({ "url": "https://hooks.example.com" })),
        TestApi::post(PATH).method(Method::DELETE),
        TestApi::post(&format!("{PATH}/rotate-secret")),
        TestApi::post(&format!("{PATH}/test")),
        TestApi::get(&format!("{PATH}/deliveries")),
        TestApi::post(&format!("{PATH}/deliveries/5/replay")),
        TestApi::post(&format!("{PATH}/deliveries/five/replay")),
        TestApi::post(&format!("{PATH}/replay"))
            .set_json(json!({ "since": "2026-11-21T12:00:00Z" })),
    ] {
        assert_eq!(without_id(&api.send(request).await), missing);
    }
}
