//! The queue of deliveries.

use async_trait::async_trait;
use diesel::{dsl, prelude::*};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    delivery::{Delivery, DeliveryId},
    order::OrderId,
    ports::{Attempted, DeliveryQueue, FoundOrder, Lease, QueueStats, StoreError},
};
use futures_util::FutureExt as _;
use sql_rows::{
    DeliveryRow, Utc, row_limit,
    schema::{deliveries, events},
};
use time::{Duration, OffsetDateTime};

use crate::{PostgresStore, failure::Failure, lease::lease, reads, settle::settle};

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

    async fn orders(&self, ids: &[OrderId]) -> Result<Vec<FoundOrder>, StoreError> {
        let ids = ids.to_vec();
        Ok(self.pool.run(move |connection| reads::find_each(connection, ids).boxed()).await?)
    }

    async fn settle(&self, attempted: &[Attempted]) -> Result<Vec<DeliveryId>, StoreError> {
        let attempted = attempted.to_vec();
        Ok(self.pool.run(move |connection| settle(connection, attempted).boxed()).await?)
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

/// Counts events first: one that is dispatched meanwhile is counted twice, and never missed.
async fn stats(connection: &mut AsyncPgConnection) -> Result<QueueStats, Failure> {
    let events = events::table.select((dsl::count_star(), dsl::min(events::created_at)));
    let (events, oldest_event): (i64, Option<Utc>) = events.first(connection).await?;
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
        events: events.unsigned_abs(),
        pending: pending.unsigned_abs(),
        failed: failed.unsigned_abs(),
        oldest_created_at: [oldest_event, oldest].into_iter().flatten().map(|at| at.0).min(),
    })
}
