//! The queue of mails.

use async_trait::async_trait;
use diesel::{
    dsl,
    prelude::*,
    sql_query,
    sql_types::{Array, BigInt, Integer, Nullable, Text, Timestamptz},
};
use diesel_async::RunQueryDsl;
use domain::{
    delivery::{Delivery, DeliveryId},
    order::OrderId,
    ports::{Attempted, DeliveryQueue, FoundOrder, Lease, QueueStats, StoreError},
};
use sql_rows::{
    DeliveryRow, Instant, REMOVED_COUNTS, UnsuccessfulAttempt, Utc, counted_hours, row_limit,
    schema::{deliveries, events},
};
use time::{Duration, OffsetDateTime};

use crate::{
    PostgresStore,
    orders::read,
    statement::{DURABLE, IdRow, column},
};

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

/// Settles the deliveries whose leases are still held. Locks them by identifier, so that two
/// workers never deadlock. A delivery without an error is done.
fn settle() -> String {
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
struct LeasedRow {
    #[diesel(embed)]
    delivery: DeliveryRow,
    lease_token: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    mail_of_hour: Option<i64>,
}

#[async_trait]
impl DeliveryQueue for PostgresStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        let (hour, hour_before) = counted_hours(now);
        let lease = sql_query(LEASE)
            .bind::<Timestamptz, _>(now)
            .bind::<BigInt, _>(row_limit(limit))
            .bind::<Timestamptz, _>(now.saturating_add(lease_for))
            .bind::<Timestamptz, _>(hour)
            .bind::<Timestamptz, _>(hour_before)
            .bind::<BigInt, _>(REMOVED_COUNTS);
        let leased = self.pool.all(lease, |row: LeasedRow| {
            Ok(Lease {
                delivery: row.delivery.into_delivery()?,
                token: row.lease_token,
                mail_of_hour: row.mail_of_hour.map(i64::unsigned_abs),
            })
        });
        let mut leased = leased.await?;
        // An update returns its rows in no particular order.
        leased.sort_by_key(|lease| (lease.delivery.due_at, lease.delivery.id.0));
        Ok(leased)
    }

    async fn orders(&self, ids: &[OrderId]) -> Result<Vec<FoundOrder>, StoreError> {
        Ok(self.pool.run(async |connection| read::find_each(connection, ids).await).await?)
    }

    async fn settle(&self, attempted: &[Attempted]) -> Result<Vec<DeliveryId>, StoreError> {
        let failed: Vec<_> =
            attempted.iter().map(|one| UnsuccessfulAttempt::of(&one.settlement)).collect();
        let changes = column(&failed, |one| one.as_ref().map(|(change, _)| change));
        let attempts = column(&failed, |one| one.as_ref().map_or(0, |(_, attempts)| *attempts));
        let settle = sql_query(settle())
            .bind::<Array<BigInt>, _>(column(attempted, |one| one.id.0))
            .bind::<Array<BigInt>, _>(column(attempted, |one| one.token))
            .bind::<Array<Integer>, _>(attempts)
            .bind::<Array<Nullable<Instant>>, _>(column(&changes, |c| c.and_then(|c| c.due_at)))
            .bind::<Array<Nullable<Instant>>, _>(column(&changes, |c| c.and_then(|c| c.failed_at)))
            .bind::<Array<Nullable<Text>>, _>(column(&changes, |c| c.map(|c| &*c.last_error)));
        Ok(self.pool.all(settle, |IdRow { id }| Ok(DeliveryId(id))).await?)
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let listed = deliveries::table
            .filter(deliveries::failed_at.is_not_null().eq(failed))
            .order((deliveries::created_at, deliveries::id))
            .limit(row_limit(limit))
            .select(DeliveryRow::as_select());
        Ok(self.pool.all(listed, DeliveryRow::into_delivery).await?)
    }

    /// Does not touch a lease that a worker holds; otherwise the mail could be sent twice.
    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<bool, StoreError> {
        let retried = diesel::update(deliveries::table.find(id.0)).set((
            deliveries::attempts.eq(0),
            deliveries::created_at.eq(Utc(now)),
            deliveries::due_at.eq(Utc(now)),
            deliveries::failed_at.eq(None::<Utc>),
        ));
        Ok(self.pool.write(retried).await? > 0)
    }

    /// Counts events first: one that is dispatched meanwhile is counted twice, and never missed.
    async fn stats(&self) -> Result<QueueStats, StoreError> {
        let stats = self.pool.run(async |connection| {
            let events = events::table.select((dsl::count_star(), dsl::min(events::created_at)));
            let (events, oldest_event): (i64, Option<Utc>) = events.first(connection).await?;
            let pending = deliveries::table.filter(deliveries::failed_at.is_null());
            let pending = pending.select((dsl::count_star(), dsl::min(deliveries::created_at)));
            let (pending, oldest): (i64, Option<Utc>) = pending.first(connection).await?;
            let failed = deliveries::table.filter(deliveries::failed_at.is_not_null()).count();
            let failed: i64 = failed.get_result(connection).await?;
            Ok(QueueStats {
                events: events.unsigned_abs(),
                pending: pending.unsigned_abs(),
                failed: failed.unsigned_abs(),
                oldest_created_at: oldest_event.into_iter().chain(oldest).map(|at| at.0).min(),
            })
        });
        Ok(stats.await?)
    }
}
