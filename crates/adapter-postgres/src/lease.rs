//! The statement that leases deliveries.

use diesel::{
    QueryableByName, sql_query,
    sql_types::{BigInt, Nullable, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::ports::Lease;
use sql_rows::{DeliveryRow, REMOVED_COUNTS, counted_hours, row_limit, schema::deliveries};
use time::{Duration, OffsetDateTime};

use crate::{failure::Failure, statement::Prepared};

/// Takes the deliveries that have been due longest, and counts those that are leased for the first
/// time. Removes counts of past hours. PostgreSQL may run a subquery that locks rows more than
/// once, but a common table expression only once. With an array, the plan is a lookup of each row,
/// however many the limit may be.
///
/// The commit does not wait for the disk: after a crash, a delivery whose lease was lost is only
/// attempted again.
const LEASE: &str = "WITH due AS (\
        SELECT id FROM deliveries WHERE failed_at IS NULL AND due_at <= $1 \
        AND (leased_until IS NULL OR leased_until <= $1) \
        ORDER BY due_at, id LIMIT $2 FOR UPDATE SKIP LOCKED\
    ), leased AS (\
        UPDATE deliveries SET leased_until = $3, lease_token = lease_token + 1 \
        WHERE id = ANY (ARRAY(SELECT id FROM due)) RETURNING *\
    ), first AS (\
        SELECT id, recipient, count(*) OVER (PARTITION BY recipient) \
            - row_number() OVER (PARTITION BY recipient ORDER BY due_at, id) AS later \
        FROM (SELECT id, due_at, sha256(convert_to(lower(recipient), 'UTF8')) AS recipient \
            FROM leased WHERE lease_token = 1) AS hashed\
    ), counted AS (\
        INSERT INTO recipient_mails (hour, recipient, mails) \
        SELECT $4, recipient, count(*) FROM first GROUP BY recipient ORDER BY recipient \
        ON CONFLICT (hour, recipient) DO UPDATE \
        SET mails = recipient_mails.mails + excluded.mails RETURNING recipient, mails\
    ), past AS (\
        SELECT ctid FROM recipient_mails WHERE hour < $5 LIMIT $6 FOR UPDATE SKIP LOCKED\
    ), removed AS (\
        DELETE FROM recipient_mails WHERE ctid = ANY (ARRAY(SELECT ctid FROM past))\
    ) SELECT leased.*, mails - later AS mail_of_hour \
    FROM leased LEFT JOIN first USING (id) \
    LEFT JOIN counted ON counted.recipient = first.recipient \
    WHERE (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL";

#[derive(QueryableByName)]
#[diesel(table_name = deliveries)]
struct LeasedRow {
    #[diesel(embed)]
    delivery: DeliveryRow,
    lease_token: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    mail_of_hour: Option<i64>,
}

pub(crate) async fn lease(
    connection: &mut AsyncPgConnection,
    now: OffsetDateTime,
    lease_for: Duration,
    limit: usize,
) -> Result<Vec<Lease>, Failure> {
    let (hour, hour_before) = counted_hours(now);
    let lease = sql_query(LEASE)
        .bind::<Timestamptz, _>(now)
        .bind::<BigInt, _>(row_limit(limit))
        .bind::<Timestamptz, _>(now.saturating_add(lease_for))
        .bind::<Timestamptz, _>(hour)
        .bind::<Timestamptz, _>(hour_before)
        .bind::<BigInt, _>(REMOVED_COUNTS);
    let mut rows: Vec<LeasedRow> = Prepared(lease).get_results(connection).await?;
    // An update returns its rows in no particular order.
    rows.sort_by_key(|row| row.delivery.order());
    rows.into_iter()
        .map(|row| {
            Ok(Lease {
                delivery: row.delivery.into_delivery()?,
                token: row.lease_token,
                mail_of_hour: row.mail_of_hour.map(i64::unsigned_abs),
            })
        })
        .collect()
}
