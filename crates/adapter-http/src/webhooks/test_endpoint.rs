//! A webhook for the tests of the handlers.

use domain::{
    order::OrderId,
    webhook::{
        AttemptOutcome, AttemptRecord, DisabledBy, Endpoint, EndpointId, EventType,
        WebhookDelivery, WebhookDeliveryId, WebhookStatus,
    },
};
use time::Duration;

use crate::test_support::NOW;
pub(super) use crate::test_support::OWNER;

/// Returns an enabled webhook of the key of the tests.
pub(super) fn endpoint(id: i64) -> Endpoint {
    Endpoint {
        id: EndpointId(id),
        owner: OWNER,
        key: None,
        url: "https://hooks.example.com/orders".to_owned(),
        events: EventType::OF_ORDERS.into(),
        description: None,
        created_at: NOW,
        disabled: None,
        failing_since: None,
    }
}

/// Returns a webhook that an unreachable receiver has disabled.
pub(super) fn disabled(id: i64) -> Endpoint {
    Endpoint {
        disabled: Some((NOW, DisabledBy::Failures)),
        failing_since: Some(NOW - Duration::days(5)),
        ..endpoint(id)
    }
}

/// Returns a pending delivery with two failed attempts.
pub(super) fn delivery(id: i64) -> WebhookDelivery {
    let outcomes = [AttemptOutcome::Status(502), AttemptOutcome::Error("timed_out".to_owned())];
    WebhookDelivery {
        change: None,
        id: WebhookDeliveryId(id),
        endpoint: EndpointId(3),
        event: EventType::OrderCreated,
        order_id: Some(OrderId(7)),
        message_key: "0a1b".to_owned(),
        created_at: NOW,
        status: WebhookStatus::Pending { due_at: NOW + Duration::minutes(5) },
        failures: 2,
        attempts: outcomes.map(|outcome| AttemptRecord { at: NOW, outcome }).into(),
    }
}
