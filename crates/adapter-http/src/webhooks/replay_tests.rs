use domain::{
    ports::Replayed,
    webhook::{EndpointId, WebhookDeliveryId},
};
use serde_json::{Value, json};
use time::{Duration, macros::datetime};

use crate::{
    test_support::{NOW, Ports, TestApi},
    webhooks::test_endpoint::{OWNER, disabled, endpoint},
};

#[actix_web::test]
async fn test_is_accepted() {
    let mut ports = Ports::new();
    ports.deliveries.expect_add_test().once().returning(|owner, id, _, _, at| {
        assert_eq!((owner, id, at), (OWNER, EndpointId(3), NOW));
        Ok(Some(WebhookDeliveryId(12)))
    });

    let answer = ports.api().send(TestApi::post("/api/webhooks/3/test")).await;

    assert_eq!((answer.status.as_u16(), answer.body), (202, json!({ "delivery_id": 12 })));
}

/// An option that the service does not know would be lost.
#[actix_web::test]
async fn requests_that_need_no_members_refuse_any() {
    // The mocks have no expectations: nothing is done.
    let api = Ports::new().api();
    for path in ["rotate-secret", "test", "deliveries/12/replay"] {
        let path = format!("/api/webhooks/3/{path}");
        let answer = api.send(TestApi::post(&path).set_json(json!({ "a": null, "b": 1 }))).await;
        assert_eq!(answer.errors(), [("/a", "unknown_member"), ("/b", "unknown_member")]);
        let answer = api.send(TestApi::post(&path).set_json(json!(["a"]))).await;
        assert_eq!(answer.errors(), [("", "wrong_type")]);
    }
}

#[actix_web::test]
async fn body_without_members_is_no_reason_to_send_no_test() {
    for (kind, body) in [
        ("application/json", ""),
        ("application/json", "{}"),
        ("application/json", "null"),
        ("application/x-www-form-urlencoded", "{}"),
        ("text/plain", "anything"),
    ] {
        let mut ports = Ports::new();
        ports
            .deliveries
            .expect_add_test()
            .once()
            .returning(|_, _, _, _, _| Ok(Some(WebhookDeliveryId(12))));
        let request = TestApi::post("/api/webhooks/3/test").insert_header(("content-type", kind));
        let answer = ports.api().send(request.set_payload(body)).await;
        assert_eq!(answer.status, 202, "{kind} {body}");
    }
}

#[actix_web::test]
async fn test_of_a_disabled_webhook_is_a_conflict() {
    let mut ports = Ports::new();
    ports.deliveries.expect_add_test().returning(|_, _, _, _, _| Ok(None));
    ports.endpoints.expect_endpoint().returning(|_, _| Ok(Some(disabled(3))));

    let answer = ports.api().send(TestApi::post("/api/webhooks/3/test")).await;

    answer.problem(409, "webhook_disabled");
}

#[actix_web::test]
async fn delivery_is_replayed() {
    let mut ports = Ports::new();
    ports.deliveries.expect_replay().once().returning(|owner, endpoint, id, _, at| {
        assert_eq!((owner, endpoint, id), (OWNER, EndpointId(3), WebhookDeliveryId(12)));
        assert_eq!(at, NOW);
        Ok(true)
    });

    let answer = ports.api().send(TestApi::post("/api/webhooks/3/deliveries/12/replay")).await;

    assert_eq!((answer.status.as_u16(), answer.body), (202, json!({ "delivery_id": 12 })));
}

#[actix_web::test]
async fn deliveries_of_a_time_are_replayed() {
    for (until, expected) in [
        (json!("2026-11-21T12:00:00+01:00"), datetime!(2026-11-21 11:00 UTC)),
        (Value::Null, NOW + Duration::MICROSECOND),
    ] {
        let mut ports = Ports::new();
        ports.endpoints.expect_endpoint().returning(|_, _| Ok(Some(endpoint(3))));
        ports.deliveries.expect_replay_batch().once().returning(move |owner, id, batch, _, _| {
            assert_eq!((owner, id), (OWNER, EndpointId(3)));
            assert_eq!((batch.since, batch.until), (datetime!(2026-11-20 9:00 UTC), expected));
            Ok(Replayed::All)
        });
        let body = json!({ "since": "2026-11-20T09:00:00Z", "until": until });

        let answer = ports.api().send(TestApi::post("/api/webhooks/3/replay").set_json(body)).await;

        assert_eq!((answer.status.as_u16(), answer.bytes.unwrap().len()), (202, 0));
    }
}

#[actix_web::test]
async fn every_violation_of_a_time_is_named() {
    for (body, expected) in [
        (json!({}), vec![("/since", "required")]),
        (
            json!({ "since": null, "until": 1 }),
            vec![("/since", "required"), ("/until", "wrong_type")],
        ),
        (
            json!({ "since": "today", "until": "" }),
            vec![("/since", "invalid_format"), ("/until", "blank")],
        ),
        (
            json!({ "since": "2026-11-21T12:00:00Z", "until": "2026-11-21T12:00:00Z" }),
            vec![("/until", "end_not_after_start")],
        ),
        (
            json!({ "since": "2026-11-21T12:00:00Z", "to": "2026-11-22T12:00:00Z" }),
            vec![("/to", "unknown_member")],
        ),
        (json!("2026-11-21T12:00:00Z"), vec![("", "wrong_type")]),
    ] {
        let request = TestApi::post("/api/webhooks/3/replay").set_json(&body);
        let answer = Ports::new().api().send(request).await;
        assert_eq!(answer.errors(), expected, "{body}");
    }
}

#[actix_web::test]
async fn second_replay_at_a_time_is_a_conflict() {
    let mut ports = Ports::new();
    ports.endpoints.expect_endpoint().returning(|_, _| Ok(Some(endpoint(3))));
    ports.deliveries.expect_replay_batch().once().returning(|_, _, _, _, _| Ok(Replayed::All));
    let api = ports.api();
    let request = || {
        let body = json!({ "since": "2026-11-20T09:00:00Z" });
        TestApi::post("/api/webhooks/3/replay").set_json(body)
    };

    let first = api.api.replays.begin(EndpointId(3)).unwrap();
    let second = api.send(request()).await;
    drop(first);

    second.problem(409, "replay_in_progress");
    assert_eq!(second.header("retry-after"), "1");
    assert_eq!(api.send(request()).await.status, 202);
}
