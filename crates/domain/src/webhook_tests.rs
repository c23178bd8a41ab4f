use proptest::prelude::*;
use time::macros::datetime;

use super::*;
use crate::{
    api_key::ClientId,
    delivery::FARTHEST_DUE,
    ports::MockEntropy,
    test_support::{document, endpoint, stored_order, webhook_delivery},
};

const START: OffsetDateTime = datetime!(2026-12-01 20:30 UTC);

fn entropy_of(random: [u8; 4]) -> impl Entropy {
    let mut entropy = MockEntropy::new();
    entropy.expect_fill().returning(move |bytes| bytes.copy_from_slice(&random));
    entropy
}

#[test]
fn names_are_stable() {
    let events = [EventType::OrderCreated, EventType::DocumentsAdded, EventType::Test];
    let names = ["order.created", "order.documents_added", "webhook.test"];
    assert_eq!(events.map(EventType::as_str), names);
    assert_eq!(names.map(EventType::from_name), events.map(Some));
    let reasons = [DisabledBy::Request, DisabledBy::Gone, DisabledBy::Failures];
    assert_eq!(reasons.map(DisabledBy::as_str).map(DisabledBy::from_name), reasons.map(Some));
    assert_eq!((EventType::from_name("order"), DisabledBy::from_name("")), (None, None));
}

#[test]
fn body_is_the_order_as_the_event_left_it() {
    let mut order = stored_order(START);
    let later = START + Duration::HOUR;
    order.documents = vec![document("a", START), document("b", later), document("c", later)];
    order.status = crate::order::OrderStatus::from_stored("ASSIGNED".to_owned()).unwrap();
    assert_eq!(
        order_body(EventType::OrderCreated, None, START, &order).unwrap(),
        r#"{"type":"order.created","timestamp":"2026-12-01T20:30:00.000000Z","data":{"order_id":1,"#
            .to_owned()
            + r#""file_number":"REFI-1","order_status":"NEW","signing_service_id":42,"#
            + r#""client_company_id":null,"documents_uploaded":1,"is_test":false,"#
            + r#""created_at":"2026-12-01T20:30:00.000000Z"}}"#
    );
    let added = order_body(EventType::DocumentsAdded, None, later, &order).unwrap();
    let added: serde_json::Value = serde_json::from_str(&added).unwrap();
    assert_eq!(added["timestamp"], "2026-12-01T21:30:00.000000Z");
    assert_eq!(added["data"]["documents_uploaded"], 3);
    assert_eq!(added["data"]["order_status"], "ASSIGNED");
    assert_eq!(
        test_body(START, EndpointId(4)).unwrap(),
        r#"{"type":"webhook.test","timestamp":"2026-12-01T20:30:00.000000Z","data":{"webhook_id":4}}"#
    );
}

#[test]
fn document_that_a_slower_clock_added_is_not_of_the_creation() {
    let mut order = stored_order(START);
    order.documents = vec![document("a", START), document("b", START - Duration::SECOND)];
    let body = order_body(EventType::OrderCreated, None, START, &order).unwrap();
    assert!(body.contains(r#""documents_uploaded":1,"#), "{body}");
}

#[test]
fn body_has_no_personal_data() {
    let body = order_body(EventType::OrderCreated, None, START, &stored_order(START)).unwrap();
    for text in ["Jane", "555", "example.com", "Main St", "Dallas"] {
        assert!(!body.contains(text), "{text}");
    }
}

#[test]
fn endpoint_gets_chosen_events_of_its_client_and_mode() {
    let order = stored_order(START);
    let endpoint = Endpoint { events: [EventType::OrderCreated].into(), ..endpoint(EndpointId(1)) };
    assert!(endpoint.gets(EventType::OrderCreated, &order));
    assert!(!endpoint.gets(EventType::DocumentsAdded, &order));
    let test = StoredOrder { is_test: true, ..order.clone() };
    assert!(!endpoint.gets(EventType::OrderCreated, &test));
    let foreign = StoredOrder { client: ClientId(2), ..order };
    assert!(!endpoint.gets(EventType::OrderCreated, &foreign));
}

#[test]
fn delivery_fails_for_good_after_ten_attempts() {
    let entropy = entropy_of([0; 4]);
    for (failures, retried) in [(0, true), (8, true), (9, false), (u32::MAX, false)] {
        let delivery = WebhookDelivery { failures, ..webhook_delivery(START) };
        let next = delivery.next_attempt(START, Some(Duration::DAY), &entropy);
        assert_eq!(next.is_some(), retried, "{failures}");
    }
}

proptest! {
    #[test]
    fn delay_is_the_step_more_or_less_a_fifth(failures in 0_u32..9, random: [u8; 4]) {
        let delivery = WebhookDelivery { failures, ..webhook_delivery(START) };
        let step = DELAYS[failures as usize];
        let next = delivery.next_attempt(START, None, &entropy_of(random)).unwrap();
        let delay = next - START;
        prop_assert!(delay >= step * 0.8 - Duration::MICROSECOND && delay <= step * 1.2 + Duration::MICROSECOND);
    }

    #[test]
    fn receiver_may_ask_for_more_time_up_to_the_next_delay_but_one(
        failures in 0_u32..9,
        seconds in 0_i64..200_000,
        random: [u8; 4],
    ) {
        let delivery = WebhookDelivery { failures, ..webhook_delivery(START) };
        let asked = Duration::seconds(seconds);
        let wait = |retry_after| {
            delivery.next_attempt(START, retry_after, &entropy_of(random)).unwrap() - START
        };
        let longest = DELAYS[8.min(failures as usize + 1)];
        prop_assert_eq!(wait(Some(asked)), wait(None).max(asked.min(longest)));
        prop_assert!(wait(Some(asked)) <= FARTHEST_DUE);
    }
}
