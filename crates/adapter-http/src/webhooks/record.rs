//! The records of webhooks and of their deliveries, which `docs/openapi.json` describes.

use domain::webhook::{
    AttemptOutcome, AttemptRecord, Endpoint, EventType, WebhookDelivery, WebhookStatus,
};
use serde_json::{Value, json};

use crate::respond::instants::timestamp;

/// The status of a webhook that gets events.
pub(crate) const ENABLED: &str = "enabled";
/// The status of a webhook whose events wait.
pub(crate) const DISABLED: &str = "disabled";

/// Returns the record of a webhook, without its secret.
pub(super) fn webhook(endpoint: &Endpoint) -> Value {
    json!({
        "id": endpoint.id.0,
        "url": endpoint.url,
        "events": endpoint.events.iter().copied().map(EventType::as_str).collect::<Vec<_>>(),
        "description": endpoint.description,
        "status": if endpoint.disabled.is_none() { ENABLED } else { DISABLED },
        "disabled_by": endpoint.disabled.map(|(_, by)| by.as_str()),
        "disabled_at": endpoint.disabled.map(|(at, _)| timestamp(at)),
        "failing_since": endpoint.failing_since.map(timestamp),
        "created_at": timestamp(endpoint.created_at),
    })
}

/// Returns the record of a delivery to an endpoint.
pub(super) fn delivery(delivery: &WebhookDelivery, endpoint: &Endpoint) -> Value {
    let due_at = match delivery.status {
        WebhookStatus::Pending { due_at } => Some(due_at),
        WebhookStatus::Delivered | WebhookStatus::Failed => None,
    };
    json!({
        "id": delivery.id.0,
        "message_id": delivery.message_id(),
        "event": delivery.event.as_str(),
        "order_id": delivery.order_id.map(|id| id.0),
        "status": delivery.status.as_str(),
        "attempts": delivery.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "next_attempt_at": due_at.filter(|_| endpoint.disabled.is_none()).map(timestamp),
        "created_at": timestamp(delivery.created_at),
    })
}

fn attempt(AttemptRecord { at, outcome }: &AttemptRecord) -> Value {
    let (status_code, error) = match outcome {
        AttemptOutcome::Status(status) => (Some(status), None),
        AttemptOutcome::Error(error) => (None, Some(error)),
    };
    json!({ "at": timestamp(*at), "status_code": status_code, "error": error })
}
