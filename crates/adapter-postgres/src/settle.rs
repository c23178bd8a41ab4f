//! The statement that settles deliveries.

use diesel::{
    QueryableByName, sql_query,
    sql_types::{Array, BigInt, Integer, Nullable, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{delivery::DeliveryId, ports::Attempted};
use sql_rows::{Instant, UnsuccessfulAttempt, schema::deliveries};

use crate::{
    failure::Failure,
    statement::{DURABLE, Prepared},
};

/// Settles the deliveries whose leases are still held. Locks them by identifier, so that two
/// workers never deadlock. A delivery without an error is done.
fn statement() -> String {
    format!(
        "WITH held AS (\
            SELECT d.id, a.attempts, a.due_at, a.failed_at, a.last_error \
            FROM unnest($1, $2, $3, $4, $5, $6) \
            AS a (id, token, attempts, due_at, failed_at, last_error) \
            JOIN deliveries AS d ON d.id = a.id AND d.lease_token = a.token \
            WHERE d.leased_until IS NOT NULL ORDER BY d.id FOR UPDATE OF d\
        ), done AS (\
            DELETE FROM deliveries \
            WHERE id = ANY (ARRAY(SELECT id FROM held WHERE last_error IS NULL))\
        ), failed AS (\
            UPDATE deliveries AS d SET leased_until = NULL, attempts = d.attempts + held.attempts, \
                due_at = coalesce(held.due_at, d.due_at), failed_at = held.failed_at, \
                last_error = held.last_error \
            FROM held WHERE d.id = held.id \
            AND d.id = ANY (ARRAY(SELECT id FROM held WHERE last_error IS NOT NULL))\
        ) SELECT id FROM held WHERE {DURABLE}"
    )
}

#[derive(QueryableByName)]
#[diesel(table_name = deliveries)]
struct HeldRow {
    id: i64,
}

/// Returns the deliveries whose leases were held.
pub(crate) async fn settle(
    connection: &mut AsyncPgConnection,
    attempted: Vec<Attempted>,
) -> Result<Vec<DeliveryId>, Failure> {
    let failed: Vec<_> =
        attempted.iter().map(|one| UnsuccessfulAttempt::of(&one.settlement)).collect();
    let ids: Vec<i64> = attempted.iter().map(|one| one.id.0).collect();
    let tokens: Vec<i64> = attempted.iter().map(|one| one.token).collect();
    let column = |value: fn(&UnsuccessfulAttempt) -> Option<sql_rows::Utc>| -> Vec<_> {
        failed.iter().map(|one| one.as_ref().and_then(|(change, _)| value(change))).collect()
    };
    let attempts: Vec<i32> =
        failed.iter().map(|one| one.as_ref().map_or(0, |(_, attempts)| *attempts)).collect();
    let errors: Vec<Option<&str>> =
        failed.iter().map(|one| one.as_ref().map(|(change, _)| &*change.last_error)).collect();
    let settle = sql_query(statement())
        .bind::<Array<BigInt>, _>(ids)
        .bind::<Array<BigInt>, _>(tokens)
        .bind::<Array<Integer>, _>(attempts)
        .bind::<Array<Nullable<Instant>>, _>(column(|change| change.due_at))
        .bind::<Array<Nullable<Instant>>, _>(column(|change| change.failed_at))
        .bind::<Array<Nullable<Text>>, _>(errors);
    let rows: Vec<HeldRow> = Prepared(settle).get_results(connection).await?;
    Ok(rows.into_iter().map(|row| DeliveryId(row.id)).collect())
}
