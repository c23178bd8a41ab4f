use actix_web::test::TestRequest;
use domain::{
    ports::UrlRefused,
    webhook::{Endpoint, MAX_ENDPOINTS},
};
use serde_json::{Value, json};

use crate::{
    body::json::MAX_BODY,
    test_support::{NOW, Ports, TestApi},
    webhooks::{
        path::WEBHOOKS,
        test_endpoint::{OWNER, disabled, endpoint},
    },
};

/// Ports that accept every URL.
fn ports() -> Ports {
    let mut ports = Ports::new();
    ports.sender.expect_check().returning(|_, _| Ok(()));
    ports.secrets.expect_seal().returning(|_, _| vec![1]);
    ports
}

fn post(body: &Value) -> TestRequest {
    TestApi::post(WEBHOOKS).set_json(body)
}

#[actix_web::test]
async fn webhook_is_created_and_its_secret_shown() {
    let mut ports = ports();
    ports.endpoints.expect_add().once().returning(|new, max| {
        assert_eq!((new.owner, new.created_at, max), (OWNER, NOW, MAX_ENDPOINTS));
        let (url, events) = (new.url.clone(), new.events.clone());
        let description = new.description.clone();
        Ok(Some(Endpoint { url, events, description, ..endpoint(3) }))
    });
    let body = json!({ "url": "https://hooks.example.com/orders", "description": "Escrow desk" });

    let answer = ports.api().send(post(&body)).await;

    assert_eq!((answer.status.as_u16(), answer.header("location")), (201, "/api/webhooks/3"));
    assert_eq!(answer.header("cache-control"), "no-store");
    let secret = answer.body["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
    assert_eq!(
        answer.body,
        json!({
            "id": 3,
            "url": "https://hooks.example.com/orders",
            "events": ["order.created", "order.documents_added", "order.updated", "order.cancelled", "order.changed"],
            "description": "Escrow desk",
            "status": "enabled",
            "disabled_by": null,
            "disabled_at": null,
            "failing_since": null,
            "created_at": "2026-11-21T12:00:00.000000Z",
            "secret": secret,
        })
    );
}

#[actix_web::test]
async fn all_violations_are_reported_at_once() {
    let body = json!({ "events": ["order.deleted"], "description": 1 });

    let answer = Ports::new().api().send(post(&body)).await;

    let expected =
        [("/description", "wrong_type"), ("/events/0", "not_allowed"), ("/url", "required")];
    assert_eq!(answer.errors(), expected);
}

#[actix_web::test]
async fn url_that_may_not_be_called_is_rejected_with_the_reason() {
    let mut ports = Ports::new();
    let reason = "its address is private; the operator can open networks with --webhook-allow";
    ports.sender.expect_check().returning(move |_, _| Err(UrlRefused(reason.to_owned())));

    let answer = ports.api().send(post(&json!({ "url": "https://10.0.0.1/" }))).await;

    assert_eq!(answer.errors(), [("/url", "not_allowed")]);
    assert_eq!(answer.body["errors"][0]["detail"], reason);
}

#[actix_web::test]
async fn byte_order_mark_before_json_is_ignored() {
    let request = TestApi::post(WEBHOOKS)
        .insert_header(("content-type", "application/json"))
        .set_payload("\u{feff}{\"url\": 1}");
    assert_eq!(Ports::new().api().send(request).await.errors(), [("/url", "wrong_type")]);
}

#[actix_web::test]
async fn body_that_cannot_be_read_is_rejected() {
    let json = |body: Vec<u8>| {
        TestApi::post(WEBHOOKS)
            .insert_header(("content-type", "application/json"))
            .set_payload(body)
    };
    let large = vec![b' '; usize::try_from(MAX_BODY).unwrap() + 1];
    for (request, status, code) in [
        (json(b"{".to_vec()), 400, "malformed_request"),
        (json(b"{\"url\":\"\xff\"}".to_vec()), 400, "malformed_request"),
        (json(br#"{"url":"https://a.example","url":1}"#.to_vec()), 400, "malformed_request"),
        (json(large), 413, "payload_too_large"),
        (TestApi::post(WEBHOOKS).set_form([("url", "a")]), 415, "unsupported_media_type"),
    ] {
        Ports::new().api().send(request).await.problem(status, code);
    }
}

#[actix_web::test]
async fn list_has_all_webhooks_without_secrets() {
    let mut ports = Ports::new();
    ports.endpoints.expect_of_owner().once().returning(|owner| {
        assert_eq!(owner, OWNER);
        Ok(vec![endpoint(3), disabled(4)])
    });

    let answer = ports.api().send(TestApi::get(WEBHOOKS)).await;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("cache-control"), "private, no-cache");
    let list = &answer.body;
    assert_eq!((&list["object"], &list["url"]), (&json!("list"), &json!(WEBHOOKS)));
    assert_eq!((&list["has_more"], &list["data"][0]["id"]), (&json!(false), &json!(3)));
    let [status, by] = ["status", "disabled_by"].map(|name| &list["data"][1][name]);
    assert_eq!((status, by), (&json!("disabled"), &json!("failures")));
    assert_eq!(list["data"][1]["failing_since"], "2026-11-16T12:00:00.000000Z");
    assert!(!list.to_string().contains("secret"), "{list}");
}

#[actix_web::test]
async fn test_keys_manage_webhooks_of_their_own() {
    let mut ports = Ports::with_key(|key| key.is_test = true);
    ports.endpoints.expect_of_owner().once().returning(|owner| {
        assert!(owner.is_test);
        Ok(Vec::new())
    });

    let answer = ports.api().send(TestApi::get(WEBHOOKS)).await;

    assert_eq!(answer.body["data"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn problem_of_a_full_service_does_not_speak_of_orders() {
    let answer = Ports { bodies: 0, ..Ports::new() }.api().send(post(&json!({}))).await;

    let detail = answer.problem(503, "unavailable")["detail"].as_str().unwrap();
    assert!(detail.contains("was not carried out") && !detail.contains("order"), "{detail}");
}
