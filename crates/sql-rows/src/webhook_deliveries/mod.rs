//! Rows of webhooks.

use diesel::{
    dsl::{auto_type, exists},
    prelude::*,
    sql_types::{BigInt, Nullable},
};
use domain::{
    api_key::Owner,
    order::OrderId,
    ports::{NewWebhookDelivery, Page, Settlement, WebhookAttempted, WebhookLease, WebhookStats},
    webhook::{
        AttemptOutcome, AttemptRecord, EndpointId, EventType, WebhookDelivery, WebhookDeliveryId,
        WebhookStatus,
    },
};
use time::OffsetDateTime;

use crate::{
    Instant, Unreadable, Utc,
    events::{read_change, stored_change},
    instant::{farthest, farthest_due},
    party::{party_of, stored_party},
    schema::{orders, webhook_deliveries, webhook_endpoints},
    text::{Lossy, LossyNullable},
    webhook_endpoints::TargetRow,
};

pub mod lease;

/// Selects the webhooks of erased orders that a worker attempts: see [`HeldWebhook`].
#[auto_type(no_type_alias)]
pub fn attempted_webhooks_of_erased(at: Utc) -> _ {
    let waits: is_waiting = is_waiting();
    // Its webhook has nothing of the order, so no erasure waits for it.
    let erasure: &'static str = EventType::OrderErased.as_str();
    webhook_deliveries::table
        .inner_join(orders::table.on(orders::id.nullable().eq(webhook_deliveries::order_id)))
        .filter(orders::erased_at.is_not_null().and(waits))
        .filter(webhook_deliveries::leased_until.is_not_null())
        .filter(webhook_deliveries::due_at.gt(at))
        .filter(webhook_deliveries::event.ne(erasure))
}

/// Selects the webhooks of orders that wait, or have a body.
#[auto_type(no_type_alias)]
pub fn erasable_webhooks_of(orders: Vec<i64>) -> _ {
    let waits: is_waiting = is_waiting();
    webhook_deliveries::table
        .filter(webhook_deliveries::order_id.eq_any(orders))
        .filter(waits.or(webhook_deliveries::body.is_not_null()))
}

/// Selects webhooks by identifier, to remove their bodies: these name the file numbers of their orders.
#[auto_type(no_type_alias)]
pub fn webhooks_with_bodies(ids: Vec<i64>) -> _ {
    webhook_deliveries::table
        .filter(webhook_deliveries::id.eq_any(ids))
        .filter(webhook_deliveries::body.is_not_null())
}

/// Selects those of the webhooks that a worker attempts.
#[auto_type(no_type_alias)]
pub fn attempted_webhooks(ids: Vec<i64>) -> _ {
    let waits: is_waiting = is_waiting();
    webhook_deliveries::table
        .filter(webhook_deliveries::id.eq_any(ids).and(waits))
        .filter(webhook_deliveries::leased_until.is_not_null())
}

/// Keeps a leased webhook of an erased order from other workers until no lease of now can be held any
/// more. Its attempt is shorter.
#[derive(AsChangeset)]
#[diesel(table_name = webhook_deliveries)]
pub struct HeldWebhook {
    due_at: Utc,
}

impl HeldWebhook {
    /// Returns the change for an erasure at an instant.
    pub fn since(erasure: Utc) -> Self {
        Self { due_at: farthest(erasure) }
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
    body: Option<String>,
    created_at: Utc,
    due_at: Utc,
}

impl NewWebhookRow {
    /// Returns the row of a webhook for an event at an instant.
    pub fn new(new: NewWebhookDelivery, order_id: Option<i64>, at: Utc, due_at: Utc) -> Self {
        let NewWebhookDelivery { endpoint, event, change, message_key, body } = new;
        let (endpoint_id, event) = (endpoint.0, event.as_str());
        let change = change.as_ref().map(stored_change);
        Self { endpoint_id, order_id, event, change, message_key, body, created_at: at, due_at }
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
    #[diesel(deserialize_as = Lossy)]
    event: String,
    #[diesel(deserialize_as = LossyNullable)]
    change: Option<String>,
    #[diesel(deserialize_as = Lossy)]
    message_key: String,
    #[diesel(deserialize_as = Lossy)]
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
    pub fn into_lease(
        self,
        token: i64,
        body: Option<String>,
        target: TargetRow,
    ) -> Result<WebhookLease, Unreadable> {
        Ok(WebhookLease {
            delivery: self.into_delivery()?,
            body,
            token,
            party: party_of(target.party),
            is_proven: target.is_proven(),
            url: target.url,
            secrets: target.secrets.into_sealed(),
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
/// tried, the numbers of deliveries that failed for good and of disabled endpoints, and the latest attempt of those
/// that wait.
pub const WEBHOOK_STATS: &str = "SELECT count(*), \
        min(d.due_at) FILTER (WHERE failures = 0 AND e.failed_at IS NULL), \
        (SELECT count(*) FROM webhook_deliveries WHERE failed_at IS NOT NULL), \
        (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL), \
        max(d.due_at) \
    FROM webhook_deliveries AS d JOIN webhook_endpoints AS e ON e.id = d.endpoint_id \
    WHERE d.delivered_at IS NULL AND d.failed_at IS NULL AND e.disabled_at IS NULL";

/// The SQL types of [`WEBHOOK_STATS`].
pub type WebhookStatsTypes = (BigInt, Nullable<Instant>, BigInt, BigInt, Nullable<Instant>);

/// Returns the meaning of a row of [`WEBHOOK_STATS`].
pub fn webhook_stats(row: (i64, Option<Utc>, i64, i64, Option<Utc>)) -> WebhookStats {
    let (pending, untried, failed, disabled, latest) = row;
    WebhookStats {
        pending: pending.unsigned_abs(),
        failed: failed.unsigned_abs(),
        oldest_untried_at: untried.map(|at| at.0),
        latest_due_at: latest.map(|at| at.0),
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

/// The condition of a delivery that waits for an attempt.
#[auto_type(no_type_alias)]
pub fn waits() -> _ {
    let waits: is_waiting = is_waiting();
    waits
}

/// Like [`waits`], for other builders.
#[auto_type]
pub(crate) fn is_waiting() -> _ {
    webhook_deliveries::delivered_at.is_null().and(webhook_deliveries::failed_at.is_null())
}

/// The condition of a delivery of an event that this version of the service knows.
#[auto_type(no_type_alias)]
pub fn is_known() -> _ {
    let events: [&'static str; EventType::ALL.len()] = EventType::ALL.map(EventType::as_str);
    webhook_deliveries::event.eq_any(events)
}

/// Selects the deliveries of an endpoint that workers attempt.
#[auto_type(no_type_alias)]
pub fn leased_of(endpoint: i64, now: Utc) -> _ {
    let farthest: Utc = farthest(now);
    webhook_deliveries::table
        .filter(webhook_deliveries::endpoint_id.eq(endpoint))
        .filter(webhook_deliveries::leased_until.gt(now))
        .filter(webhook_deliveries::leased_until.le(farthest))
}

/// Selects the deliveries of an endpoint that are due, the longest due first.
#[auto_type(no_type_alias)]
pub fn due_of(endpoint: i64, now: Utc) -> _ {
    let events: [&'static str; EventType::ALL.len()] = EventType::ALL.map(EventType::as_str);
    let is_free: is_unleased = is_unleased(now);
    webhook_deliveries::table
        .filter(webhook_deliveries::endpoint_id.eq(endpoint))
        .filter(webhook_deliveries::delivered_at.is_null())
        .filter(webhook_deliveries::failed_at.is_null())
        .filter(webhook_deliveries::due_at.le(now))
        .filter(webhook_deliveries::event.eq_any(events))
        .filter(is_free)
        .order((webhook_deliveries::due_at, webhook_deliveries::id))
        .select(webhook_deliveries::id)
}

/// Selects the pending deliveries that wait longer than any delay, with their endpoints. The index begins with the
/// endpoint.
#[auto_type(no_type_alias)]
pub fn far_webhooks(now: OffsetDateTime) -> _ {
    let farthest: Utc = farthest_due(Utc(now));
    let waits: is_waiting = is_waiting();
    webhook_deliveries::table
        .filter(waits)
        .filter(
            webhook_deliveries::endpoint_id
                .eq_any(webhook_endpoints::table.select(webhook_endpoints::id)),
        )
        .filter(webhook_deliveries::due_at.gt(farthest))
        .select((webhook_deliveries::id, webhook_deliveries::endpoint_id))
}

/// Selects a delivery, unless a worker has leased it.
#[auto_type(no_type_alias)]
pub fn unleased_webhook(id: WebhookDeliveryId, now: OffsetDateTime) -> _ {
    let id: i64 = id.0;
    let is_free: is_unleased = is_unleased(Utc(now));
    webhook_deliveries::table.filter(webhook_deliveries::id.eq(id)).filter(is_free)
}

/// Tells deliveries that no worker has leased at an instant.
#[auto_type]
fn is_unleased(now: Utc) -> _ {
    let farthest: Utc = farthest(now);
    webhook_deliveries::leased_until
        .is_null()
        .or(webhook_deliveries::leased_until.le(now))
        .or(webhook_deliveries::leased_until.gt(farthest))
}

/// Selects the deliveries of an endpoint of an owner.
#[auto_type(no_type_alias)]
pub fn deliveries_of(owner: Owner, endpoint: EndpointId) -> _ {
    let (id, party): (i64, i64) = (endpoint.0, stored_party(owner.party));
    let is_test: bool = owner.is_test;
    webhook_deliveries::table.filter(webhook_deliveries::endpoint_id.eq(id)).filter(exists(
        webhook_endpoints::table
            .filter(webhook_endpoints::id.eq(id))
            .filter(webhook_endpoints::party.eq(party))
            .filter(webhook_endpoints::is_test.eq(is_test)),
    ))
}

/// Selects deliveries with their endpoints.
#[auto_type(no_type_alias)]
pub fn deliveries_with_endpoints() -> _ {
    webhook_deliveries::table.inner_join(
        webhook_endpoints::table.on(webhook_endpoints::id.eq(webhook_deliveries::endpoint_id)),
    )
}

/// Makes a delivery due. Does not touch a lease that a worker holds.
#[derive(AsChangeset)]
#[diesel(table_name = webhook_deliveries, treat_none_as_null = true)]
pub struct DueAgain {
    due_at: Utc,
    failures: i32,
    delivered_at: Option<Utc>,
    failed_at: Option<Utc>,
}

impl DueAgain {
    /// Returns the change that makes it due at an instant.
    pub fn at(instant: OffsetDateTime) -> Self {
        Self { due_at: Utc(instant), failures: 0, delivered_at: None, failed_at: None }
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
