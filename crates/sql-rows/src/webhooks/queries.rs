//! Parts of statements on webhooks that both databases have.

use diesel::{
    dsl::{auto_type, exists},
    prelude::*,
};
use domain::{
    api_key::{ApiKeyId, Owner},
    webhook::{DisabledBy, EndpointId, EventType, WebhookDeliveryId},
};
use time::OffsetDateTime;

use crate::{
    Utc, farthest,
    schema::{webhook_deliveries, webhook_endpoints},
    webhooks::rows::stored_party,
};

#[auto_type]
fn is_of(owner: Owner) -> _ {
    let party: i64 = stored_party(owner.party);
    let is_test: bool = owner.is_test;
    webhook_endpoints::party.eq(party).and(webhook_endpoints::is_test.eq(is_test))
}

/// Selects the endpoints of an owner.
#[auto_type(no_type_alias)]
pub fn endpoints_of(owner: Owner) -> _ {
    let is_own: is_of = is_of(owner);
    webhook_endpoints::table.filter(is_own)
}

/// Selects an endpoint of an owner.
#[auto_type(no_type_alias)]
pub fn endpoint_of(owner: Owner, id: EndpointId) -> _ {
    let id: i64 = id.0;
    let is_own: is_of = is_of(owner);
    webhook_endpoints::table.filter(webhook_endpoints::id.eq(id).and(is_own))
}

/// Selects the endpoints that a key has made.
#[auto_type(no_type_alias)]
pub fn endpoints_made_by(key: ApiKeyId) -> _ {
    let key: i64 = key.0;
    webhook_endpoints::table.filter(webhook_endpoints::api_key_id.eq(key))
}

/// Selects the endpoints whose client is to be told that they fail since then, or are disabled.
#[auto_type(no_type_alias)]
pub fn untold_endpoints(failed_before: OffsetDateTime) -> _ {
    let failed_before: Utc = Utc(failed_before);
    let by_service: [&'static str; 2] = [DisabledBy::Gone.as_str(), DisabledBy::Failures.as_str()];
    webhook_endpoints::table.filter(
        webhook_endpoints::disabled_at
            .is_null()
            .and(webhook_endpoints::failed_at.le(failed_before))
            .and(webhook_endpoints::warned_at.is_null())
            .or(webhook_endpoints::disabled_by
                .eq_any(by_service)
                .and(webhook_endpoints::told_at.is_null())),
    )
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

/// Selects the endpoints that have something to do, the longest waiting first, without those of some
/// parties.
#[auto_type(no_type_alias)]
pub fn due_endpoints(now: Utc, without: Vec<i64>) -> _ {
    webhook_endpoints::table
        .filter(webhook_endpoints::disabled_at.is_null())
        .filter(webhook_endpoints::due_at.le(now))
        .filter(webhook_endpoints::party.ne_all(without))
        .order((webhook_endpoints::due_at, webhook_endpoints::id))
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
