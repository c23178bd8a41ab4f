//! Settles webhook deliveries.

use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    ports::{EndpointEffect, StoreError, WebhookAttempted, WebhooksSettled},
    webhook::DisabledBy,
};
use sql_rows::{
    Utc, WebhookAttempt,
    schema::{webhook_deliveries, webhook_endpoints},
};

use crate::{failure::Failure, store::SqliteStore};

pub(super) async fn settle(
    store: &SqliteStore,
    attempted: &[WebhookAttempted],
) -> Result<WebhooksSettled, StoreError> {
    let attempted = attempted.to_vec();
    let settle = move |connection: &mut SqliteConnection| {
        let mut settled = WebhooksSettled::default();
        for one in &attempted {
            settle_one(connection, one, &mut settled)?;
        }
        Ok(settled)
    };
    store.write(settle).await
}

fn settle_one(
    connection: &mut SqliteConnection,
    one: &WebhookAttempted,
    settled: &mut WebhooksSettled,
) -> Result<(), Failure> {
    let (change, failures) = WebhookAttempt::of(one);
    let held = webhook_deliveries::table
        .find(one.id.0)
        .filter(webhook_deliveries::lease_token.eq(one.token))
        .filter(webhook_deliveries::leased_until.is_not_null());
    let outcome = (
        change,
        webhook_deliveries::leased_until.eq(None::<Utc>),
        webhook_deliveries::failures.eq(webhook_deliveries::failures + failures),
    );
    if diesel::update(held).set(outcome).execute(connection)? > 0 {
        settled.held.push(one.id);
        if affect(connection, one)? {
            settled.disabled.push(one.endpoint);
        }
    }
    Ok(())
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
            diesel::update(called.filter(succeeded_at.is_null()))
                .set((succeeded_at.eq(at), failed_at.eq(none), warned_at.eq(none)))
                .execute(connection)?;
        }
        EndpointEffect::Failed => {
            diesel::update(called.filter(failed_at.is_null()))
                .set((succeeded_at.eq(none), failed_at.eq(at)))
                .execute(connection)?;
        }
        EndpointEffect::Gone => {
            let disabled = diesel::update(called.filter(disabled_at.is_null()))
                .set((disabled_at.eq(at), disabled_by.eq(DisabledBy::Gone.as_str())))
                .execute(connection)?;
            return Ok(disabled > 0);
        }
    }
    Ok(false)
}
