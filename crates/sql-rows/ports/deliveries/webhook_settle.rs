//! Settles webhook deliveries, and changes their endpoints.

use diesel::prelude::*;
use domain::{
    ports::{EndpointEffect, StoreError, WebhookAttempted, WebhooksSettled},
    webhook::DisabledBy,
};
use sql_rows::{
    Utc, WebhookAttempt,
    schema::{webhook_deliveries, webhook_endpoints},
};

use super::webhook_lease;
use crate::{
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

/// Settles the deliveries whose leases are still held.
pub(super) async fn settle(
    store: &Store,
    attempted: &[WebhookAttempted],
) -> Result<WebhooksSettled, StoreError> {
    let attempted = attempted.to_vec();
    let settle = async move |connection: &mut Connection| {
        let mut settled = WebhooksSettled::default();
        let ids: Vec<i64> = attempted.iter().map(|one| one.id.0).collect();
        dialect::lock(connection, "webhook_deliveries", &ids).await?;
        let endpoints: Vec<i64> = attempted.iter().map(|one| one.endpoint.0).collect();
        dialect::lock(connection, "webhook_endpoints", &endpoints).await?;
        for one in &attempted {
            if settle_one(connection, one).await? {
                settled.held.push(one.id);
                if affect(connection, one).await? {
                    settled.disabled.push(one.endpoint);
                }
            }
        }
        Ok(settled)
    };
    store.transaction_ported(settle).await
}

/// Settles a delivery. Returns `false` if its lease is not held any more.
async fn settle_one(connection: &mut Connection, one: &WebhookAttempted) -> Result<bool, Failure> {
    let (change, failures) = WebhookAttempt::of(one);
    let held = webhook_deliveries::table
        .find(one.id.0)
        .filter(webhook_deliveries::lease_token.eq(one.token))
        .filter(webhook_deliveries::leased_until.is_not_null());
    let due_at = change.due_at;
    let settled = diesel::update(held).set((
        change,
        webhook_deliveries::leased_until.eq(None::<Utc>),
        webhook_deliveries::failures.eq(webhook_deliveries::failures + failures),
    ));
    let is_held = settled.execute(connection).await? > 0;
    if let Some(at) = due_at.filter(|_| is_held) {
        webhook_lease::wake(connection, vec![one.endpoint.0], at).await?;
    }
    Ok(is_held)
}

/// Changes the endpoint of an attempt, unless it is in that state or has another URL. Returns
/// whether that disabled it.
async fn affect(connection: &mut Connection, one: &WebhookAttempted) -> Result<bool, Failure> {
    use webhook_endpoints::{
        disabled_at, disabled_by, failed_at, succeeded_at, table, url, warned_at,
    };

    let called = table.find(one.endpoint.0).filter(url.eq(&one.url));
    let (at, none) = (Utc(one.at), None::<Utc>);
    match one.effect {
        EndpointEffect::None => {}
        EndpointEffect::Succeeded => {
            diesel::update(called.filter(succeeded_at.is_null()))
                .set((succeeded_at.eq(at), failed_at.eq(none), warned_at.eq(none)))
                .execute(connection)
                .await?;
        }
        EndpointEffect::Slow => {
            let is_tried = succeeded_at.is_not_null().or(failed_at.is_not_null());
            diesel::update(called.filter(is_tried))
                .set((succeeded_at.eq(none), failed_at.eq(none), warned_at.eq(none)))
                .execute(connection)
                .await?;
        }
        EndpointEffect::Failed => {
            diesel::update(called.filter(failed_at.is_null()))
                .set((succeeded_at.eq(none), failed_at.eq(at)))
                .execute(connection)
                .await?;
        }
        EndpointEffect::Gone => {
            let disabled = diesel::update(called.filter(disabled_at.is_null()))
                .set((disabled_at.eq(at), disabled_by.eq(DisabledBy::Gone.as_str())));
            return Ok(disabled.execute(connection).await? > 0);
        }
    }
    Ok(false)
}
