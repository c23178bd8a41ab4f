//! The records of webhooks and of their deliveries.

use domain::webhook::{
    AttemptOutcome, AttemptRecord, Endpoint, EndpointId, EventType, WebhookDelivery,
    WebhookDeliveryId, WebhookStatus, secret::WebhookSecret,
};
use serde::Serialize;

use crate::respond::instants::timestamp;

/// A webhook: an endpoint that gets the events of orders.
#[derive(Serialize)]
pub(crate) struct WebhookRecord<'a> {
    /// Identifier of the webhook.
    id: i64,
    /// Where its events are sent.
    url: &'a str,
    /// The events that it gets.
    events: Vec<&'static str>,
    /// What the client notes about it.
    description: Option<&'a str>,
    /// `enabled`, or `disabled`: then its events wait.
    status: &'static str,
    /// Why it is disabled: `request` (a client or an operator did it), `gone` (its receiver
    /// answered 410) or `failures` (no attempt succeeded for five days).
    disabled_by: Option<&'static str>,
    /// When it was disabled: RFC 3339 in UTC, with microseconds.
    disabled_at: Option<String>,
    /// The first failed attempt since the last success: RFC 3339 in UTC, with microseconds.
    failing_since: Option<String>,
    /// When it was created: RFC 3339 in UTC, with microseconds.
    created_at: String,
}

/// The status of a webhook that gets events.
pub(crate) const ENABLED: &str = "enabled";
/// The status of a webhook whose events wait.
pub(crate) const DISABLED: &str = "disabled";

impl<'a> WebhookRecord<'a> {
    /// Returns the record of a webhook.
    pub(super) fn new(endpoint: &'a Endpoint) -> Self {
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
        }
    }
}

/// A new webhook with its secret, which no other answer has.
#[derive(Serialize)]
pub(super) struct NewWebhookRecord<'a> {
    #[serde(flatten)]
    webhook: WebhookRecord<'a>,
    secret: String,
}

impl<'a> NewWebhookRecord<'a> {
    /// Returns the record of a new webhook.
    pub(super) fn new(endpoint: &'a Endpoint, secret: &WebhookSecret) -> Self {
        Self { webhook: WebhookRecord::new(endpoint), secret: secret.to_text() }
    }
}

/// The new secret of a webhook.
#[derive(Serialize)]
pub(crate) struct SecretRecord {
    /// Identifier of the webhook.
    id: i64,
    /// The secret that signs its events: `whsec_` and 32 random bytes in base64. It is shown this
    /// once.
    secret: String,
}

impl SecretRecord {
    /// Returns the record of a secret.
    pub(super) fn new(EndpointId(id): EndpointId, secret: &WebhookSecret) -> Self {
        Self { id, secret: secret.to_text() }
    }
}

/// A delivery of an event to a webhook.
#[derive(Serialize)]
pub(crate) struct DeliveryRecord<'a> {
    /// Identifier of the delivery.
    id: i64,
    /// The `webhook-id` of every attempt.
    message_id: String,
    /// Type of the event.
    event: &'static str,
    /// The order of the event; null for a test.
    order_id: Option<i64>,
    /// `pending`, `delivered`, or `failed` for good.
    status: &'static str,
    /// The attempts, the oldest first. After replays, the latest ones.
    attempts: Vec<AttemptEntry<'a>>,
    /// When the next attempt is due: RFC 3339 in UTC, with microseconds. Null if there is none, or
    /// while the webhook is disabled.
    next_attempt_at: Option<String>,
    /// When the event happened: RFC 3339 in UTC, with microseconds.
    created_at: String,
}

impl<'a> DeliveryRecord<'a> {
    /// Returns the record of a delivery to an endpoint.
    pub(super) fn new(delivery: &'a WebhookDelivery, endpoint: &Endpoint) -> Self {
        let due_at = match delivery.status {
            WebhookStatus::Pending { due_at } if endpoint.disabled.is_none() => Some(due_at),
            WebhookStatus::Pending { .. } | WebhookStatus::Delivered | WebhookStatus::Failed => {
                None
            }
        };
        Self {
            id: delivery.id.0,
            message_id: delivery.message_id(),
            event: delivery.event.as_str(),
            order_id: delivery.order_id.map(|id| id.0),
            status: delivery.status.as_str(),
            attempts: delivery.attempts.iter().map(AttemptEntry::new).collect(),
            next_attempt_at: due_at.map(timestamp),
            created_at: timestamp(delivery.created_at),
        }
    }
}

/// An attempt of a delivery: its status code, or its error.
#[derive(Serialize)]
pub(crate) struct AttemptEntry<'a> {
    /// When it ended: RFC 3339 in UTC, with microseconds.
    at: String,
    /// Status of the answer; null if there was none.
    status_code: Option<u16>,
    /// Why there was no answer, such as `timed_out`; null if there was one.
    error: Option<&'a str>,
}

impl<'a> AttemptEntry<'a> {
    fn new(AttemptRecord { at, outcome }: &'a AttemptRecord) -> Self {
        let (status_code, error) = match outcome {
            AttemptOutcome::Status(status) => (Some(*status), None),
            AttemptOutcome::Error(error) => (None, Some(error.as_str())),
        };
        Self { at: timestamp(*at), status_code, error }
    }
}

/// A delivery that will be attempted soon.
#[derive(Serialize)]
pub(crate) struct AcceptedRecord {
    /// Identifier of the delivery.
    delivery_id: i64,
}

impl AcceptedRecord {
    /// Returns the record of a delivery.
    pub(super) fn new(WebhookDeliveryId(delivery_id): WebhookDeliveryId) -> Self {
        Self { delivery_id }
    }
}
