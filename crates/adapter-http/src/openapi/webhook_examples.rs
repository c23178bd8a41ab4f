//! Examples of webhooks: requests, answers and events.

use serde_json::{Value, json};

/// The text `this is an example, not a secret`.
const SECRET: &str = "whsec_dGhpcyBpcyBhbiBleGFtcGxlLCBub3QgYSBzZWNyZXQ=";

/// Returns a request that creates a webhook.
pub(super) fn request() -> Value {
    json!({
        "url": "https://hooks.title.example.com/orders",
        "events": ["order.created"],
        "description": "Escrow desk"
    })
}

/// Returns a request that changes a webhook.
pub(super) fn change() -> Value {
    json!({
        "url": "https://hooks.title.example.com/orders",
        "events": ["order.created", "order.documents_added"],
        "description": "Escrow desk",
        "status": "enabled"
    })
}

/// Returns a request that replays the events of a time.
pub(super) fn range() -> Value {
    json!({ "since": "2026-11-21T12:00:00Z", "until": "2026-11-21T13:00:00Z" })
}

/// Returns the record of a webhook.
pub(super) fn webhook() -> Value {
    let mut webhook = request();
    webhook["id"] = json!(3);
    webhook["status"] = json!("enabled");
    webhook["created_at"] = json!("2026-11-21T12:00:00.000000Z");
    for name in ["disabled_by", "disabled_at", "failing_since"] {
        webhook[name] = Value::Null;
    }
    webhook
}

/// Returns the record of a new webhook.
pub(super) fn created() -> Value {
    let mut webhook = webhook();
    webhook["secret"] = json!(SECRET);
    webhook
}

/// Returns the answer with a new secret.
pub(super) fn secret() -> Value {
    json!({ "id": 3, "secret": SECRET })
}

/// Returns the record of a delivery.
pub(super) fn delivery() -> Value {
    json!({
        "id": 12,
        "message_id": "msg_9f86d081884c7d659a2feaa0c55ad015",
        "event": "order.created",
        "order_id": 1,
        "status": "pending",
        "attempts": [attempt()],
        "next_attempt_at": "2026-11-21T12:05:05.400000Z",
        "created_at": "2026-11-21T12:00:00.000000Z"
    })
}

/// Returns an attempt of a delivery.
pub(super) fn attempt() -> Value {
    json!({ "at": "2026-11-21T12:00:05.400000Z", "status_code": 502, "error": null })
}

/// Returns the answer to a delivery that will be attempted soon.
pub(super) fn accepted() -> Value {
    json!({ "delivery_id": 12 })
}

/// Returns the body of an event of an order.
pub(super) fn order_event(event: &str, documents: usize) -> Value {
    json!({
        "type": event,
        "timestamp": "2026-11-21T12:00:00.000000Z",
        "data": {
            "order_id": 1,
            "file_number": "REFI-1",
            "order_status": "NEW",
            "signing_service_id": 42,
            "client_company_id": 7,
            "documents_uploaded": documents,
            "is_test": false,
            "created_at": "2026-11-21T12:00:00.000000Z"
        }
    })
}

/// Returns the body of a test event.
pub(super) fn test_event() -> Value {
    json!({
        "type": "webhook.test",
        "timestamp": "2026-11-21T12:00:00.000000Z",
        "data": { "webhook_id": 3 }
    })
}
