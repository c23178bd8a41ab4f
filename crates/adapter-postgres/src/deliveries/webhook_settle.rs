//! The statement that settles webhook deliveries.

use diesel::{
    QueryableByName, sql_query,
    sql_types::{Array, BigInt, Bool, Integer, Nullable, Text},
};
use domain::{
    ports::{EndpointEffect, StoreError, WebhookAttempted, WebhooksSettled},
    webhook::{DisabledBy, EndpointId, WebhookDeliveryId},
};
use sql_rows::{Instant, Utc, WebhookAttempt};

use crate::{
    statement::{DURABLE, column},
    store::PostgresStore,
};

/// Settles the deliveries whose leases are still held, and changes their endpoints.
///
/// 1. `held`: locks the deliveries by identifier, so that two workers never deadlock.
/// 2. `settled`: changes them.
/// 3. `effects`: the last effect on each endpoint. A receiver that is gone outweighs the others.
/// 4. `locked`, `affected`: changes the endpoints that are not in that state, after locking them by
///    identifier. An endpoint with another URL stays as it is.
fn statement() -> String {
    format!(
        "WITH held AS (\
            SELECT a.* FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
            WITH ORDINALITY AS a (id, token, due_at, delivered_at, failed_at, failures, attempts, \
                endpoint, url, effect, at, number) \
            JOIN webhook_deliveries AS d ON d.id = a.id AND d.lease_token = a.token \
            WHERE d.leased_until IS NOT NULL ORDER BY d.id FOR UPDATE OF d\
        ), settled AS (\
            UPDATE webhook_deliveries AS d SET leased_until = NULL, attempts = held.attempts, \
                failures = d.failures + held.failures, \
                due_at = coalesce(held.due_at, d.due_at), \
                delivered_at = held.delivered_at, failed_at = held.failed_at \
            FROM held WHERE d.id = held.id AND d.id = ANY (ARRAY(SELECT id FROM held))\
        ), effects AS (\
            SELECT DISTINCT ON (endpoint) endpoint, url, effect, at FROM held \
            WHERE effect <> {none} ORDER BY endpoint, effect = {gone} DESC, number DESC\
        ), locked AS (\
            SELECT e.id, effect, at FROM webhook_endpoints AS e \
            JOIN effects ON endpoint = e.id AND effects.url = e.url \
            WHERE CASE effect WHEN {succeeded} THEN e.succeeded_at IS NULL \
                WHEN {failed} THEN e.failed_at IS NULL ELSE e.disabled_at IS NULL END \
            ORDER BY e.id FOR UPDATE OF e\
        ), affected AS (\
            UPDATE webhook_endpoints AS e SET \
                succeeded_at = CASE effect WHEN {succeeded} THEN at \
                    WHEN {failed} THEN NULL ELSE e.succeeded_at END, \
                failed_at = CASE effect WHEN {succeeded} THEN NULL \
                    WHEN {failed} THEN at ELSE e.failed_at END, \
                warned_at = CASE effect WHEN {succeeded} THEN NULL ELSE e.warned_at END, \
                disabled_at = CASE effect WHEN {gone} THEN at ELSE e.disabled_at END, \
                disabled_by = CASE effect WHEN {gone} THEN $12 ELSE e.disabled_by END \
            FROM locked WHERE e.id = locked.id RETURNING e.id, effect\
        ) SELECT id, false AS is_endpoint FROM held WHERE {DURABLE} \
        UNION ALL SELECT id, true FROM affected WHERE effect = {gone}",
        none = number(EndpointEffect::None),
        succeeded = number(EndpointEffect::Succeeded),
        failed = number(EndpointEffect::Failed),
        gone = number(EndpointEffect::Gone),
    )
}

/// Returns the number of an effect in the statement.
fn number(effect: EndpointEffect) -> i32 {
    match effect {
        EndpointEffect::None => 0,
        EndpointEffect::Succeeded => 1,
        EndpointEffect::Failed => 2,
        EndpointEffect::Gone => 3,
    }
}

#[derive(QueryableByName)]
struct SettledRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Bool)]
    is_endpoint: bool,
}

pub(super) async fn settle(
    store: &PostgresStore,
    attempted: &[WebhookAttempted],
) -> Result<WebhooksSettled, StoreError> {
    let changes = column(attempted, WebhookAttempt::of);
    let settle = sql_query(statement())
        .bind::<Array<BigInt>, _>(column(attempted, |one| one.id.0))
        .bind::<Array<BigInt>, _>(column(attempted, |one| one.token))
        .bind::<Array<Nullable<Instant>>, _>(column(&changes, |(change, _)| change.due_at))
        .bind::<Array<Nullable<Instant>>, _>(column(&changes, |(change, _)| change.delivered_at))
        .bind::<Array<Nullable<Instant>>, _>(column(&changes, |(change, _)| change.failed_at))
        .bind::<Array<Integer>, _>(column(&changes, |(_, failures)| *failures))
        .bind::<Array<Text>, _>(column(&changes, |(change, _)| &*change.attempts))
        .bind::<Array<BigInt>, _>(column(attempted, |one| one.endpoint.0))
        .bind::<Array<Text>, _>(column(attempted, |one| &*one.url))
        .bind::<Array<Integer>, _>(column(attempted, |one| number(one.effect)))
        .bind::<Array<Instant>, _>(column(attempted, |one| Utc(one.at)))
        .bind::<Text, _>(DisabledBy::Gone.as_str());
    let mut settled = WebhooksSettled::default();
    for SettledRow { id, is_endpoint } in store.pool.rows(settle).await? {
        if is_endpoint {
            settled.disabled.push(EndpointId(id));
        } else {
            settled.held.push(WebhookDeliveryId(id));
        }
    }
    Ok(settled)
}
