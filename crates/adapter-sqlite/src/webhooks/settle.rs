//! Settles webhook deliveries, and changes their endpoints.

use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    ports::{EndpointEffect, WebhookAttempted, WebhooksSettled},
    webhook::DisabledBy,
};
use sql_rows::{
    Utc,
    schema::{webhook_deliveries, webhook_endpoints},
    webhook_deliveries::WebhookAttempt,
};

use super::lease::put_off;
use crate::failure::Failure;

/// Settles the deliveries whose leases are still held.
pub(super) fn settle(
    connection: &mut SqliteConnection,
    attempted: &[WebhookAttempted],
) -> Result<WebhooksSettled, Failure> {
    let mut settled = WebhooksSettled::default();
    let mut endpoints: Vec<i64> = attempted.iter().map(|one| one.endpoint.0).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    for one in attempted {
        if settle_one(connection, one)? {
            settled.held.push(one.id);
            if affect(connection, one)? {
                settled.disabled.push(one.endpoint);
            }
        }
    }
    if let Some(now) = attempted.iter().map(|one| one.at).max() {
        put_off(connection, Utc(now), endpoints)?;
    }
    Ok(settled)
}

/// Settles a delivery. Returns `false` if its lease is not held any more.
fn settle_one(connection: &mut SqliteConnection, one: &WebhookAttempted) -> Result<bool, Failure> {
    let (change, failures) = WebhookAttempt::of(one);
    let held = webhook_deliveries::table
        .find(one.id.0)
        .filter(webhook_deliveries::lease_token.eq(one.token))
        .filter(webhook_deliveries::leased_until.is_not_null());
    let settled = diesel::update(held).set((
        change,
        webhook_deliveries::leased_until.eq(None::<Utc>),
        webhook_deliveries::failures.eq(webhook_deliveries::failures + failures),
    ));
    Ok(settled.execute(connection)? > 0)
}

/// Changes the endpoint of an attempt, unless it is in that state or has another URL. Returns
/// whether that disabled it.
fn affect(connection: &mut SqliteConnection, one: &WebhookAttempted) -> Result<bool, Failure> {
    use webhook_endpoints::{
        disabled_at, disabled_by, failed_at, succeeded_at, table, url, warned_at,
    };

    let called = table.find(one.endpoint.0).filter(url.eq(&one.url));
    let (at, none) = (Utc(one.at), None::<Utc>);
    match one.effect {
        EndpointEffect::None => {}
        EndpointEffect::Succeeded => {
            let worked = (succeeded_at.eq(at), failed_at.eq(none), warned_at.eq(none));
            let changed = diesel::update(called.filter(succeeded_at.is_null())).set(worked);
            changed.execute(connection)?;
        }
        EndpointEffect::Slow => {
            let untried = (succeeded_at.eq(none), failed_at.eq(none), warned_at.eq(none));
            let is_tried = succeeded_at.is_not_null().or(failed_at.is_not_null());
            diesel::update(called.filter(is_tried)).set(untried).execute(connection)?;
        }
        EndpointEffect::Failed => {
            let failed = (succeeded_at.eq(none), failed_at.eq(at));
            let changed = diesel::update(called.filter(failed_at.is_null())).set(failed);
            changed.execute(connection)?;
        }
        EndpointEffect::Gone => {
            let disabled = (disabled_at.eq(at), disabled_by.eq(DisabledBy::Gone.as_str()));
            let changed = diesel::update(called.filter(disabled_at.is_null())).set(disabled);
            return Ok(changed.execute(connection)? > 0);
        }
    }
    Ok(false)
}
