use domain::{
    order::OrderId,
    ports::{Cursor, DeliveryPageQuery, Page},
    webhook::{EndpointId, EventType, WebhookDelivery, WebhookDeliveryId, WebhookStatus},
};
use serde_json::json;

use crate::{
    test_support::{Ports, TestApi},
    webhooks::test_endpoint::{OWNER, delivery, disabled, endpoint},
};

const PATH: &str = "/api/webhooks/3/deliveries";

#[actix_web::test]
async fn page_has_deliveries_with_attempts_and_links() {
    let mut ports = Ports::new();
    ports.endpoints.expect_endpoint().returning(|_, _| Ok(Some(endpoint(3))));
    ports.deliveries.expect_page().once().returning(|owner, id, query| {
        let cursor = Cursor::OlderThan(WebhookDeliveryId(9));
        let expected = DeliveryPageQuery { limit: 2, cursor };
        assert_eq!((owner, id, query), (OWNER, EndpointId(3), &expected));
        let test = WebhookDelivery {
            event: EventType::Test,
            order_id: None::<OrderId>,
            status: WebhookStatus::Delivered,
            attempts: Vec::new(),
            ..delivery(5)
        };
        let deliveries = vec![delivery(8), test];
        Ok(Some(Page { items: deliveries, has_older: true, has_newer: true, stopped_at: None }))
    });

    let answer = ports.api().send(TestApi::get(&format!("{PATH}?limit=2&starting_after=9"))).await;

    assert_eq!((answer.status.as_u16(), &answer.body["has_more"]), (200, &json!(true)));
    assert_eq!(
        answer.body["data"][0],
        json!({
            "id": 8,
            "message_id": "msg_0a1b",
            "event": "order.created",
            "order_id": 7,
            "status": "pending",
            "attempts": [
                { "at": "2026-11-21T12:00:00.000000Z", "status_code": 502, "error": null },
                { "at": "2026-11-21T12:00:00.000000Z", "status_code": null, "error": "timed_out" },
            ],
            "next_attempt_at": "2026-11-21T12:05:00.000000Z",
            "created_at": "2026-11-21T12:00:00.000000Z",
        })
    );
    let test = &answer.body["data"][1];
    let values = ["event", "order_id", "status", "next_attempt_at"].map(|name| test[name].clone());
    assert_eq!(values, [json!("webhook.test"), json!(null), json!("delivered"), json!(null)]);
    assert_eq!(
        answer.header("link"),
        format!(
            "<{PATH}?limit=2&starting_after=5>; rel=\"next\", \
             <{PATH}?limit=2&ending_before=8>; rel=\"prev\""
        )
    );
}

#[actix_web::test]
async fn deliveries_of_a_disabled_webhook_have_no_next_attempt() {
    let mut ports = Ports::new();
    ports.endpoints.expect_endpoint().returning(|_, _| Ok(Some(disabled(3))));
    ports.deliveries.expect_page().returning(|_, _, _| {
        let deliveries = vec![delivery(8)];
        Ok(Some(Page { items: deliveries, has_older: false, has_newer: false, stopped_at: None }))
    });

    let answer = ports.api().send(TestApi::get(PATH)).await;

    let delivery = &answer.body["data"][0];
    assert_eq!(
        (&delivery["status"], &delivery["next_attempt_at"]),
        (&json!("pending"), &json!(null))
    );
    assert!(!answer.headers.contains_key("link"));
}

#[actix_web::test]
async fn cursor_of_no_delivery_is_rejected() {
    let mut ports = Ports::new();
    ports.endpoints.expect_endpoint().returning(|_, _| Ok(Some(endpoint(3))));
    ports.deliveries.expect_page().returning(|_, _, _| Ok(None));

    let answer = ports.api().send(TestApi::get(&format!("{PATH}?ending_before=9"))).await;

    assert_eq!(answer.errors(), [("ending_before", "unknown_delivery")]);
}
