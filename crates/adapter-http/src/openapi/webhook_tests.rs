//! Checks the description of what the service sends.

use std::collections::BTreeSet;

use contract_tests::samples::{new_order, stored};
use domain::{
    order::OrderId,
    webhook::{EndpointId, EventType, order_body, test_body},
};
use serde_json::{Value, json};

use super::tests::{document, resolve};
use crate::test_support::NOW;

#[test]
fn every_event_has_a_body_and_headers() {
    let document = document();
    let events = document["webhooks"].as_object().unwrap();
    let types: Vec<_> = events.keys().map(String::as_str).collect();
    assert_eq!(types, ["order.created", "order.documents_added", "webhook.test"]);
    for (name, event) in events {
        let event = &event["post"];
        let headers: Vec<_> =
            event["parameters"].as_array().unwrap().iter().map(|header| &header["name"]).collect();
        assert_eq!(headers, ["webhook-id", "webhook-timestamp", "webhook-signature"], "{name}");
        let schema = &event["requestBody"]["content"]["application/json"]["schema"];
        let body = resolve(&document, schema);
        assert_eq!(body["properties"]["type"]["enum"], json!([name]), "{name}");
        let statuses: Vec<_> = event["responses"].as_object().unwrap().keys().collect();
        assert_eq!(statuses, ["2XX", "410", "default"], "{name}");
    }
}

#[test]
fn bodies_of_events_match_their_schemas() {
    let document = document();
    let order = stored(OrderId(7), &new_order("REFI-1", NOW));
    for (event, body) in [
        (EventType::OrderCreated, order_body(EventType::OrderCreated, NOW, &order)),
        (EventType::DocumentsAdded, order_body(EventType::DocumentsAdded, NOW, &order)),
        (EventType::Test, test_body(NOW, EndpointId(3))),
    ] {
        let post = &document["webhooks"][event.as_str()]["post"];
        let mut whole = post["requestBody"]["content"]["application/json"]["schema"].clone();
        whole["components"] = document["components"].clone();
        let validator = jsonschema::options().should_validate_formats(true).build(&whole).unwrap();
        let body: Value = serde_json::from_str(&body.unwrap()).unwrap();
        let faults: Vec<_> = validator.iter_errors(&body).map(|it| it.to_string()).collect();
        assert!(faults.is_empty(), "{event:?}: {faults:?}");
        // No member is missing from the schema.
        let known = |schema: &Value| -> BTreeSet<String> {
            resolve(&document, schema)["properties"].as_object().unwrap().keys().cloned().collect()
        };
        let members = |value: &Value| -> BTreeSet<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(members(&body), known(&whole), "{event:?}");
        let data = &resolve(&document, &whole)["properties"]["data"];
        assert_eq!(members(&body["data"]), known(data), "{event:?}");
    }
}
