use actix_web::{http::Method, test::TestRequest};
use domain::{
    access::AccessKind,
    ports::{Replayed, UrlRefused},
    webhook::{
        EndpointId, EndpointPrecondition, WebhookDeliveryId, endpoint_request::EndpointChange,
    },
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
    ports.endpoints.expect_change().once().returning(|owner, id, change, _, at| {
        let expected = EndpointChange { is_enabled: Some(false), ..EndpointChange::default() };
        assert_eq!((owner, id, change, at), (OWNER, EndpointId(3), &expected, NOW));
        Ok(Some(disabled(3)))
    });

    let answer = ports.api().send(patch(&json!({ "status": "disabled" }))).await;

    assert_eq!((answer.status.as_u16(), &answer.body["status"]), (200, &json!("disabled")));
    assert_eq!(answer.header("cache-control"), "no-store");
}

/// The store compares the version in the transaction that changes.
#[actix_web::test]
async fn webhook_of_another_version_is_not_changed() {
    let mut ports = Ports::new();
    ports.secrets.expect_seal().returning(|_, _| vec![1]);
    ports.endpoints.expect_endpoint().returning(|_, _| Ok(Some(endpoint(3))));
    let changed = |precondition: &EndpointPrecondition| endpoint(3).permits(precondition);
    ports
        .endpoints
        .expect_change()
        .returning(move |_, _, _, precondition, _| Ok(changed(precondition).then(|| endpoint(3))));
    ports.endpoints.expect_remove().returning(move |_, _, it| Ok(changed(it)));
    ports.endpoints.expect_rotate_secret().returning(move |_, _, _, it, _| Ok(changed(it)));
    ports
        .deliveries
        .expect_add_test()
        .returning(move |_, _, _, it, _| Ok(changed(it).then_some(WebhookDeliveryId(1))));
    ports.deliveries.expect_replay().returning(move |_, _, _, it, _| Ok(changed(it)));
    ports.deliveries.expect_replay_batch().returning(move |_, _, _, it, _| {
        Ok(if changed(it) { Replayed::All } else { Replayed::Refused })
    });
    let api = ports.api();
    let tag = api.send(TestApi::get(PATH)).await.header("etag").to_owned();
    let requests = || {
        [
            patch(&json!({ "status": "disabled" })),
            TestApi::post(PATH).method(Method::DELETE),
            TestApi::post(&format!("{PATH}/rotate-secret")),
            TestApi::post(&format!("{PATH}/test")),
            TestApi::post(&format!("{PATH}/deliveries/5/replay")),
            TestApi::post(&format!("{PATH}/replay"))
                .set_json(json!({ "since": "2026-11-21T12:00:00Z" })),
        ]
    };
    let long_ago = "Sat, 01 Jan 2000 00:00:00 GMT".to_owned();
    for header in [
        ("if-match", "\"b2\"".to_owned()),
        ("if-none-match", "*".to_owned()),
        ("if-none-match", tag.clone()),
        ("if-unmodified-since", long_ago),
    ] {
        for request in requests() {
            let answer = api.send(request.insert_header(header.clone())).await;
            answer.problem(412, "precondition_failed");
        }
    }
    // A failed attempt changes the checksum of the answer alone.
    let failing = format!("\"{}{}\"", &tag[1..17], "0".repeat(16));
    for tag in [tag.clone(), format!("W/{tag}"), failing] {
        for request in requests() {
            let answer = api.send(request.insert_header(("if-match", tag.clone()))).await;
            assert!(answer.status.is_success(), "{tag}");
        }
    }
    let new = json!({ "url": "https://hooks.example.com" });
    let creation = TestApi::post("/api/webhooks").set_json(new);
    let answer = api.send(creation.insert_header(("if-match", "*"))).await;
    answer.problem(412, "precondition_failed");
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
        (json!({ "enabled": false }), "/enabled"),
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
    ports.endpoints.expect_remove().once().returning(|owner, id, _| {
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
    ports.endpoints.expect_rotate_secret().once().returning(|owner, id, _, _, at| {
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
    ports.endpoints.expect_change().returning(|_, _, _, _, _| Ok(None));
    ports.endpoints.expect_remove().returning(|_, _, _| Ok(false));
    ports.endpoints.expect_rotate_secret().returning(|_, _, _, _, _| Ok(false));
    ports.deliveries.expect_add_test().returning(|_, _, _, _, _| Ok(None));
    ports.deliveries.expect_replay().returning(|_, _, _, _, _| Ok(false));
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

/// Also one that is refused. Its subject is the webhook of its path.
#[actix_web::test]
async fn each_change_of_a_webhook_leaves_an_access() {
    let (post, patch, delete) = (Method::POST, Method::PATCH, Method::DELETE);
    for (method, path, kind, subject) in [
        (&post, "/api/webhooks", AccessKind::CreateWebhook, None),
        (&patch, PATH, AccessKind::ChangeWebhook, Some(3)),
        (&delete, PATH, AccessKind::DeleteWebhook, Some(3)),
        (&post, "/api/webhooks/3/rotate-secret", AccessKind::RotateWebhook, Some(3)),
    ] {
        let api = Ports::with_key(|key| key.scopes = [].into_iter().collect()).api();
        let request = TestApi::post(path).method(method.clone()).set_json(json!({}));
        api.send(request).await.problem(403, "forbidden");
        let accesses = api.accesses().await;
        let [access] = &*accesses else { panic!("{method} {path}: {accesses:?}") };
        let (facts, outcome) = (&access.facts, &*access.outcome);
        assert_eq!((facts.kind, facts.subject, outcome), (kind, subject, "forbidden"), "{path}");
    }
}
