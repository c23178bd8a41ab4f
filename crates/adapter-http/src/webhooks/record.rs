//! The records of webhooks and of their deliveries, which `docs/openapi.json` describes.

use domain::webhook::{
    AttemptOutcome, AttemptRecord, Endpoint, EventType, WebhookDelivery, WebhookStatus,
    secret::WebhookSecret,
};
use serde::Serialize;

use crate::respond::instants::timestamp;

/// The status of a webhook that gets events.
pub(crate) const ENABLED: &str = "enabled";
/// The status of a webhook whose events wait.
pub(crate) const DISABLED: &str = "disabled";

/// The record of a webhook.
#[derive(Serialize)]
pub(super) struct WebhookRecord<'a> {
    id: i64,
    url: &'a str,
    events: Vec<&'static str>,
    description: Option<&'a str>,
    status: &'static str,
    disabled_by: Option<&'static str>,
    disabled_at: Option<String>,
    failing_since: Option<String>,
    created_at: String,
    /// Only the answer to its creation has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl<'a> WebhookRecord<'a> {
    /// Returns the record of a webhook, without its secret.
    pub(super) fn of(endpoint: &'a Endpoint) -> Self {
        Self {
            id: endpoint.id.0,
            url: &endpoint.url,
            events: endpoint.events.iter().copied().map(EventType::as_str).collect(),
            description: endpoint.description.as_deref(),
            status: if endpoint.disabled.is_none() { ENABLED } else { DISABLED },
            disabled_by: endpoint.disabled.map(|(_, by)| by.as_str()),
            disabled_at: endpoint.disabled.map(|(at, _)| timestamp(at)),
            failing_since: endpoint.failing_since.map(timestamp),
            created_at: timestamp(endpoint.created_at),
            secret: None,
        }
    }

    /// Returns the record of a new webhook.
    pub(super) fn created(endpoint: &'a Endpoint, secret: &WebhookSecret) -> Self {
        Self { secret: Some(secret.to_text()), ..Self::of(endpoint) }
    }
}

/// The record of a delivery.
#[derive(Serialize)]
pub(super) struct DeliveryRecord<'a> {
    id: i64,
    message_id: String,
    event: &'static str,
    order_id: Option<i64>,
    status: &'static str,
    attempts: Vec<Attempt<'a>>,
    next_attempt_at: Option<String>,
    created_at: String,
}

impl<'a> DeliveryRecord<'a> {
    /// Returns the record of a delivery to an endpoint.
    pub(super) fn of(delivery: &'a WebhookDelivery, endpoint: &Endpoint) -> Self {
        let due_at = match delivery.status {
            WebhookStatus::Pending { due_at } => Some(due_at),
            WebhookStatus::Delivered | WebhookStatus::Failed => None,
        };
        Self {
            id: delivery.id.0,
            message_id: delivery.message_id(),
            event: delivery.event.as_str(),
            order_id: delivery.order_id.map(|id| id.0),
            status: delivery.status.as_str(),
            attempts: delivery.attempts.iter().map(Attempt::of).collect(),
            next_attempt_at: due_at.filter(|_| endpoint.disabled.is_none()).map(timestamp),
            created_at: timestamp(delivery.created_at),
        }
    }
}

#[derive(Serialize)]
struct Attempt<'a> {
    at: String,
    status_code: Option<u16>,
    error: Option<&'a str>,
}

impl<'a> Attempt<'a> {
    fn of(AttemptRecord { at, outcome }: &'a AttemptRecord) -> Self {
        let (status_code, error) = match outcome {
            AttemptOutcome::Status(status) => (Some(*status), None),
            AttemptOutcome::Error(error) => (None, Some(&**error)),
        };
        Self { at: timestamp(*at), status_code, error }
    }
}
