//! The queue of deliveries.

use async_trait::async_trait;
use diesel::{
    dsl,
    prelude::*,
    sql_query,
    sql_types::{Array, BigInt, Nullable, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    delivery::{Delivery, DeliveryId},
    order::{OrderId, StoredOrder},
    ports::{DeliveryQueue, Kept, Lease, QueueStats, Settlement, StoreError},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use sql_rows::{
    DeliveryRow, REMOVED_COUNTS, UnsuccessfulAttempt, Utc, counted_hours, row_limit,
    schema::deliveries,
};
use time::{Duration, OffsetDateTime};

use crate::{
    PostgresStore,
    batch::{Waiting, Work},
    failure::{Failure, Shared, store_error},
    reads,
    statement::Prepared,
};

#[async_trait]
impl DeliveryQueue for PostgresStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        Ok(self
            .pool
            .run(move |connection| lease(connection, now, lease_for, limit).boxed())
            .await?)
    }

    async fn order(&self, id: OrderId) -> Result<Option<StoredOrder>, StoreError> {
        let found =
            self.pool.run(move |connection| reads::find_any(connection, id).boxed()).await?;
        Ok(match found {
            Some(Kept::Whole(order)) => Some(order),
            Some(Kept::Erased) | None => None,
        })
    }

    async fn settle(
        &self,
        id: DeliveryId,
        token: i64,
        settlement: &Settlement,
    ) -> Result<bool, StoreError> {
        self.settlements
            .run(Settled { id: id.0, token, settlement: settlement.clone() })
            .await
            .map_err(store_error)
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        Ok(self.pool.run(move |connection| list(connection, failed, limit).boxed()).await?)
    }

    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<bool, StoreError> {
        Ok(self.pool.run(move |connection| retry(connection, id, now).boxed()).await?)
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        Ok(self.pool.run(|connection| stats(connection).boxed()).await?)
    }
}

/// Takes the deliveries that have been due longest, and counts those that are leased for the first
/// time. Removes counts of past hours. PostgreSQL may run a subquery that locks rows more than
/// once, but a common table expression only once. With an array, the plan is a lookup of each row,
/// however many the limit may be.
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
    FROM leased LEFT JOIN first USING (id) LEFT JOIN counted ON counted.recipient = first.recipient";

#[derive(QueryableByName)]
#[diesel(table_name = deliveries)]
struct LeasedRow {
    #[diesel(embed)]
    delivery: DeliveryRow,
    lease_token: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    mail_of_hour: Option<i64>,
}

async fn lease(
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

/// The outcome of a leased delivery.
pub(crate) struct Settled {
    id: i64,
    token: i64,
    settlement: Settlement,
}

impl Settled {
    fn is_done(&self) -> bool {
        matches!(self.settlement, Settlement::Done)
    }
}

impl Work for Settled {
    type Done = bool;
    type Error = Shared;

    /// Deliveries that are done share a statement. Failed ones are rare and settled alone.
    fn fits_with(&self, other: &Self) -> bool {
        self.is_done() && other.is_done() && self.id != other.id
    }

    fn commit(
        connection: &mut AsyncPgConnection,
        batch: Vec<Waiting<Self>>,
    ) -> BoxFuture<'_, Result<(), Shared>> {
        async move {
            let settled =
                settle_all(connection, batch.iter().map(|waiting| &waiting.work).collect())
                    .await
                    .map_err(Shared::from);
            for waiting in batch {
                let outcome = settled.as_ref().map(|settled| settled.contains(&waiting.work.id));
                waiting.reply(outcome.map_err(Clone::clone));
            }
            settled.map(drop)
        }
        .boxed()
    }
}

/// Deletes deliveries that are done, if their leases are still held. Locks them by identifier, so
/// that two workers never deadlock.
const DELETE_DONE: &str = "WITH held AS (SELECT deliveries.id \
    FROM unnest($1, $2) AS done (id, token) \
    JOIN deliveries ON deliveries.id = done.id AND deliveries.lease_token = done.token \
    WHERE deliveries.leased_until IS NOT NULL ORDER BY deliveries.id FOR UPDATE OF deliveries) \
    DELETE FROM deliveries WHERE id = ANY (ARRAY(SELECT id FROM held)) RETURNING id";

#[derive(QueryableByName)]
#[diesel(table_name = deliveries)]
struct DoneRow {
    id: i64,
}

/// Returns the identifiers of the deliveries whose leases were still held.
async fn settle_all(
    connection: &mut AsyncPgConnection,
    batch: Vec<&Settled>,
) -> Result<Vec<i64>, Failure> {
    if let [one] = batch[..] {
        return Ok(settle_one(connection, one).await?.then_some(one.id).into_iter().collect());
    }
    let (ids, tokens): (Vec<_>, Vec<_>) =
        batch.iter().map(|settled| (settled.id, settled.token)).unzip();
    let delete =
        sql_query(DELETE_DONE).bind::<Array<BigInt>, _>(ids).bind::<Array<BigInt>, _>(tokens);
    let rows: Vec<DoneRow> = Prepared(delete).get_results(connection).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

async fn settle_one(
    connection: &mut AsyncPgConnection,
    Settled { id, token, settlement }: &Settled,
) -> Result<bool, Failure> {
    let held = deliveries::table
        .find(id)
        .filter(deliveries::lease_token.eq(token))
        .filter(deliveries::leased_until.is_not_null());
    let settled = match UnsuccessfulAttempt::of(settlement) {
        None => diesel::delete(held).execute(connection).await?,
        Some((failed, attempts)) => {
            let changes = (
                failed,
                deliveries::leased_until.eq(None::<Utc>),
                deliveries::attempts.eq(deliveries::attempts + attempts),
            );
            Prepared(diesel::update(held).set(changes)).execute(connection).await?
        }
    };
    Ok(settled > 0)
}

async fn list(
    connection: &mut AsyncPgConnection,
    failed: bool,
    limit: usize,
) -> Result<Vec<Delivery>, Failure> {
    let rows: Vec<DeliveryRow> = deliveries::table
        .filter(deliveries::failed_at.is_not_null().eq(failed))
        .order((deliveries::created_at, deliveries::id))
        .limit(row_limit(limit))
        .select(DeliveryRow::as_select())
        .load(connection)
        .await?;
    Ok(rows.into_iter().map(DeliveryRow::into_delivery).collect::<Result<_, _>>()?)
}

/// Does not touch a lease that a worker holds; otherwise the mail could be sent twice.
async fn retry(
    connection: &mut AsyncPgConnection,
    id: DeliveryId,
    now: OffsetDateTime,
) -> Result<bool, Failure> {
    let retried = (
        deliveries::attempts.eq(0),
        deliveries::created_at.eq(Utc(now)),
        deliveries::due_at.eq(Utc(now)),
        deliveries::failed_at.eq(None::<Utc>),
    );
    Ok(diesel::update(deliveries::table.find(id.0)).set(retried).execute(connection).await? > 0)
}

async fn stats(connection: &mut AsyncPgConnection) -> Result<QueueStats, Failure> {
    let pending = deliveries::table.filter(deliveries::failed_at.is_null());
    let (pending, oldest): (i64, Option<Utc>) = pending
        .select((dsl::count_star(), dsl::min(deliveries::created_at)))
        .first(connection)
        .await?;
    let failed: i64 = deliveries::table
        .filter(deliveries::failed_at.is_not_null())
        .count()
        .get_result(connection)
        .await?;
    Ok(QueueStats {
        pending: pending.unsigned_abs(),
        failed: failed.unsigned_abs(),
        oldest_created_at: oldest.map(|at| at.0),
    })
}
