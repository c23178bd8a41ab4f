//! Rows of webhook endpoints and their deliveries.

use std::collections::BTreeSet;

use diesel::prelude::*;
use domain::{
    api_key::{ApiKeyId, ClientId, Owner, Party},
    order::{OrderId, SigningServiceId},
    ports::{
        NewEndpoint, NewWebhookDelivery, Page, SealedSecrets, Settlement, UnreadableRow,
        WebhookAttempted, WebhookLease, WebhookStats,
    },
    webhook::{
        AttemptOutcome, AttemptRecord, DisabledBy, Endpoint, EndpointId, EventChange, EventType,
        PER_ENDPOINT, WebhookDelivery, WebhookDeliveryId, WebhookStatus,
        endpoint_request::EndpointChange,
    },
};
use time::OffsetDateTime;

use crate::{
    Unreadable, Utc,
    schema::{webhook_deliveries, webhook_endpoints},
};

fn stored_events(events: &BTreeSet<EventType>) -> String {
    events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(" ")
}

/// Returns how a party is stored: a client, or minus the number of a signing service.
pub fn stored_party(party: Party) -> i64 {
    match party {
        Party::Client(client) => client.0,
        Party::Service(service) => -service.0,
    }
}

/// Returns the party that is stored.
pub fn party_of(stored: i64) -> Party {
    if stored < 0 {
        Party::Service(SigningServiceId(stored.saturating_neg()))
    } else {
        Party::Client(ClientId(stored))
    }
}

/// Returns how what an event tells besides its order is stored.
pub fn stored_change(change: &EventChange) -> String {
    // Texts and numbers become JSON without an error.
    serde_json::to_string(change).unwrap_or_default()
}

/// Reads what an event tells besides its order.
///
/// # Errors
/// It is not the JSON of a change.
pub fn read_change(stored: Option<&str>) -> Result<Option<EventChange>, serde_json::Error> {
    stored.map(serde_json::from_str).transpose()
}

/// An endpoint to add.
#[derive(Insertable)]
#[diesel(table_name = webhook_endpoints)]
pub struct NewEndpointRow {
    party: i64,
    is_test: bool,
    api_key_id: Option<i64>,
    url: String,
    events: String,
    description: Option<String>,
    secret: Vec<u8>,
    created_at: Utc,
}

impl From<&NewEndpoint> for NewEndpointRow {
    fn from(new: &NewEndpoint) -> Self {
        Self {
            party: stored_party(new.owner.party),
            is_test: new.owner.is_test,
            api_key_id: new.key.map(|key| key.0),
            url: new.url.clone(),
            events: stored_events(&new.events),
            description: new.description.clone(),
            secret: new.secret.clone(),
            created_at: Utc(new.created_at),
        }
    }
}

/// An endpoint without its secrets.
#[derive(Queryable, Selectable)]
#[diesel(table_name = webhook_endpoints)]
pub struct EndpointRow {
    id: i64,
    party: i64,
    is_test: bool,
    api_key_id: Option<i64>,
    url: String,
    events: String,
    description: Option<String>,
    created_at: Utc,
    failed_at: Option<Utc>,
    disabled_at: Option<Utc>,
    disabled_by: Option<String>,
}

impl EndpointRow {
    /// Returns the endpoint. Events that only another version of the service knows are left out, and a
    /// reason to disable it that this one does not know is a request.
    pub fn into_endpoint(self) -> Endpoint {
        let events = self.events.split_ascii_whitespace().filter_map(EventType::from_name);
        let disabled_by = self.disabled_by.as_deref().and_then(DisabledBy::from_name);
        let disabled_by = disabled_by.unwrap_or(DisabledBy::Request);
        Endpoint {
            id: EndpointId(self.id),
            owner: Owner { party: party_of(self.party), is_test: self.is_test },
            key: self.api_key_id.map(ApiKeyId),
            events: events.collect(),
            url: self.url,
            description: self.description,
            created_at: self.created_at.0,
            disabled: self.disabled_at.map(|at| (at.0, disabled_by)),
            failing_since: self.failed_at.map(|at| at.0),
        }
    }

    /// Returns what this version of the service does not know of it; `None` if it knows everything.
    pub fn fault(&self) -> Option<UnreadableRow> {
        let is_unknown = |name: &&str| EventType::from_name(name).is_none();
        let is_known = |name: &str| DisabledBy::from_name(name).is_some();
        let fault = |column: &str| Unreadable::new("webhook_endpoints", &self.id, &column);
        if self.events.split_ascii_whitespace().any(|name| is_unknown(&name)) {
            Some(fault("events").named())
        } else if self.disabled_by.as_deref().is_some_and(|name| !is_known(name)) {
            Some(fault("disabled_by").named())
        } else {
            None
        }
    }
}

/// The columns of an endpoint to change; those that are `None` stay.
#[derive(AsChangeset)]
#[diesel(table_name = webhook_endpoints)]
#[expect(clippy::option_option, reason = "diesel sets a column to NULL for `Some(None)`")]
pub struct EndpointChangeRow {
    url: String,
    events: Option<String>,
    description: Option<Option<String>>,
    succeeded_at: Option<Option<Utc>>,
    failed_at: Option<Option<Utc>>,
    warned_at: Option<Option<Utc>>,
    disabled_at: Option<Option<Utc>>,
    disabled_by: Option<Option<String>>,
    told_at: Option<Option<Utc>>,
}

impl EndpointChangeRow {
    /// Returns the change of an endpoint at an instant.
    pub fn new(before: &Endpoint, change: EndpointChange, at: OffsetDateTime) -> Self {
        let (disabled_at, disabled_by) = match (change.is_enabled, before.disabled) {
            (Some(true), Some(_)) => (Some(None), Some(None)),
            (Some(false), None) => {
                (Some(Some(Utc(at))), Some(Some(DisabledBy::Request.as_str().to_owned())))
            }
            _ => (None, None),
        };
        let url = change.url.unwrap_or_else(|| before.url.clone());
        // `Some(None)`: the endpoint has not been tried.
        let attempts = (url != before.url || disabled_at == Some(None)).then_some(None);
        Self {
            url,
            events: change.events.as_ref().map(stored_events),
            description: change.description,
            succeeded_at: attempts,
            failed_at: attempts,
            warned_at: attempts,
            told_at: attempts,
            disabled_at,
            disabled_by,
        }
    }
}

/// The columns of an endpoint that a lease needs.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = webhook_endpoints)]
pub struct TargetRow {
    /// The identifier.
    pub id: i64,
    /// The party of the endpoint.
    pub party: i64,
    /// Since when it has waited for a delivery.
    pub due_at: Option<Utc>,
    url: String,
    secret: Vec<u8>,
    previous_secret: Option<Vec<u8>>,
    previous_until: Option<Utc>,
    succeeded_at: Option<Utc>,
}

impl TargetRow {
    /// Returns whether the last attempt succeeded in time.
    pub fn is_proven(&self) -> bool {
        self.succeeded_at.is_some()
    }

    /// Returns how many deliveries may be leased at a time.
    pub fn attempts(&self) -> usize {
        if self.is_proven() { PER_ENDPOINT } else { 1 }
    }
}

/// A webhook delivery to add.
#[derive(Insertable)]
#[diesel(table_name = webhook_deliveries)]
pub struct NewWebhookRow {
    /// The endpoint.
    pub endpoint_id: i64,
    order_id: Option<i64>,
    event: &'static str,
    change: Option<String>,
    message_key: String,
    created_at: Utc,
    due_at: Utc,
}

impl NewWebhookRow {
    /// Returns the row of a webhook for an event at an instant.
    pub fn new(new: NewWebhookDelivery, order_id: Option<i64>, at: Utc, due_at: Utc) -> Self {
        let NewWebhookDelivery { endpoint, event, change, message_key } = new;
        let (endpoint_id, event) = (endpoint.0, event.as_str());
        let change = change.as_ref().map(stored_change);
        Self { endpoint_id, order_id, event, change, message_key, created_at: at, due_at }
    }
}

/// A webhook delivery without its lease.
#[derive(Queryable, Selectable)]
#[diesel(table_name = webhook_deliveries)]
pub struct WebhookDeliveryRow {
    /// The identifier.
    pub id: i64,
    /// The endpoint.
    pub endpoint_id: i64,
    order_id: Option<i64>,
    created_at: Utc,
    due_at: Utc,
    delivered_at: Option<Utc>,
    failed_at: Option<Utc>,
    failures: i32,
    event: String,
    change: Option<String>,
    message_key: String,
    attempts: String,
}

impl WebhookDeliveryRow {
    /// Returns the delivery.
    pub fn into_delivery(self) -> Result<WebhookDelivery, Unreadable> {
        let unreadable = |column: &str| Unreadable::new("webhook_deliveries", &self.id, &column);
        Ok(WebhookDelivery {
            id: WebhookDeliveryId(self.id),
            endpoint: EndpointId(self.endpoint_id),
            event: EventType::from_name(&self.event).ok_or_else(|| unreadable("event"))?,
            change: read_change(self.change.as_deref()).map_err(|_| unreadable("change"))?,
            order_id: self.order_id.map(OrderId),
            created_at: self.created_at.0,
            status: if self.delivered_at.is_some() {
                WebhookStatus::Delivered
            } else if self.failed_at.is_some() {
                WebhookStatus::Failed
            } else {
                WebhookStatus::Pending { due_at: self.due_at.0 }
            },
            failures: u32::try_from(self.failures).unwrap_or_default(),
            // Only clients look at them.
            attempts: read_attempts(&self.attempts).unwrap_or_default(),
            message_key: self.message_key,
        })
    }

    /// Returns the lease of the delivery.
    pub fn into_lease(self, token: i64, target: TargetRow) -> Result<WebhookLease, Unreadable> {
        Ok(WebhookLease {
            delivery: self.into_delivery()?,
            token,
            party: party_of(target.party),
            is_proven: target.is_proven(),
            url: target.url,
            secrets: SealedSecrets {
                current: target.secret,
                previous: target
                    .previous_secret
                    .zip(target.previous_until)
                    .map(|(secret, until)| (secret, until.0)),
            },
        })
    }
}

/// Leaves out the deliveries of a page that cannot be read.
pub fn readable_page(page: Page<WebhookDeliveryRow>) -> Page<WebhookDelivery> {
    let Page { items, has_older, has_newer, stopped_at } = page;
    let items = items.into_iter().filter_map(|row| row.into_delivery().ok()).collect();
    Page { items, has_older, has_newer, stopped_at }
}

/// The number of deliveries that wait for enabled endpoints, the oldest due of those that were not
/// tried, and the numbers of deliveries that failed for good and of disabled endpoints.
pub const WEBHOOK_STATS: &str = "SELECT count(*), \
        min(d.due_at) FILTER (WHERE failures = 0 AND e.failed_at IS NULL), \
        (SELECT count(*) FROM webhook_deliveries WHERE failed_at IS NOT NULL), \
        (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL) \
    FROM webhook_deliveries AS d JOIN webhook_endpoints AS e ON e.id = d.endpoint_id \
    WHERE d.delivered_at IS NULL AND d.failed_at IS NULL AND e.disabled_at IS NULL";

/// Returns the meaning of a row of [`WEBHOOK_STATS`].
pub fn webhook_stats(row: (i64, Option<Utc>, i64, i64)) -> WebhookStats {
    let (pending, untried, failed, disabled) = row;
    WebhookStats {
        pending: pending.unsigned_abs(),
        failed: failed.unsigned_abs(),
        oldest_untried_at: untried.map(|at| at.0),
        disabled_endpoints: disabled.unsigned_abs(),
    }
}

fn read_attempts(text: &str) -> Option<Vec<AttemptRecord>> {
    let attempts: Vec<(i64, AttemptOutcome)> = serde_json::from_str(text).ok()?;
    attempts
        .into_iter()
        .map(|(micros, outcome)| {
            let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).ok()?;
            Some(AttemptRecord { at, outcome })
        })
        .collect()
}

fn stored_attempts(attempts: &[AttemptRecord]) -> String {
    let micros =
        |at: OffsetDateTime| i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX);
    let attempts: Vec<_> =
        attempts.iter().map(|attempt| (micros(attempt.at), &attempt.outcome)).collect();
    // Numbers and texts become JSON without an error.
    serde_json::to_string(&attempts).unwrap_or_else(|_| "[]".to_owned())
}

/// The columns that an attempt changes, besides the lease and the number of failures.
#[derive(AsChangeset)]
#[diesel(table_name = webhook_deliveries)]
pub struct WebhookAttempt {
    /// The next attempt; `None` leaves it as it is.
    pub due_at: Option<Utc>,
    /// The instant of the success.
    pub delivered_at: Option<Utc>,
    /// The instant at which the delivery failed for good.
    pub failed_at: Option<Utc>,
    /// The attempts.
    pub attempts: String,
}

impl WebhookAttempt {
    /// Returns the change, and by how many failures it counts.
    pub fn of(attempted: &WebhookAttempted) -> (Self, i32) {
        let (due_at, delivered_at, failed_at, failures) = match &attempted.settlement {
            Settlement::Done | Settlement::Obsolete => (None, Some(Utc(attempted.at)), None, 0),
            Settlement::RetryAt { due_at, .. } | Settlement::Unknown { due_at, .. } => {
                (Some(Utc(*due_at)), None, None, 1)
            }
            Settlement::Postpone { due_at, .. } | Settlement::OverLimit { due_at, .. } => {
                (Some(Utc(*due_at)), None, None, 0)
            }
            Settlement::Fail { at, .. } => (None, None, Some(Utc(*at)), 1),
        };
        let attempts = stored_attempts(&attempted.attempts);
        (Self { due_at, delivered_at, failed_at, attempts }, failures)
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn attempts_are_read_as_they_were_stored() {
        let attempts = [
            (datetime!(2026-12-01 20:30:00.123456 UTC), AttemptOutcome::Status(503)),
            (datetime!(1969-12-01 20:30 UTC), AttemptOutcome::Error("timed_out".to_owned())),
        ]
        .map(|(at, outcome)| AttemptRecord { at, outcome });
        let stored = stored_attempts(&attempts);
        assert_eq!(stored, r#"[[1796157000123456,503],[-2604600000000,"timed_out"]]"#);
        assert_eq!(read_attempts(&stored).unwrap(), attempts);
        assert_eq!(read_attempts("[[1]]"), None);
    }
}
