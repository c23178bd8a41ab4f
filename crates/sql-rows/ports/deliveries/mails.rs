//! The queue of mails.

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{BigInt, Nullable},
};
use domain::{
    delivery::{Delivery, DeliveryId},
    order::OrderId,
    ports::{Attempted, DeliveryQueue, FoundOrder, Lease, QueueStats, StoreError},
};
use sql_rows::{DeliveryRow, Instant, RetriedDelivery, Utc, row_limit, schema::deliveries};
use time::{Duration, OffsetDateTime};

use crate::{
    dialect::{Connection, RunQueryDsl, Store},
    mail_lease,
    ports::read,
};

/// The numbers of events, of mails that wait, and of mails that failed for good; and the oldest of
/// the first two.
const STATS: &str = "SELECT (SELECT count(*) FROM events), \
    (SELECT count(*) FROM deliveries WHERE failed_at IS NULL), \
    (SELECT count(*) FROM deliveries WHERE failed_at IS NOT NULL), \
    (SELECT min(created_at) FROM (SELECT created_at FROM events UNION ALL \
        SELECT created_at FROM deliveries WHERE failed_at IS NULL) AS waiting)";

#[async_trait]
impl DeliveryQueue for Store {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        mail_lease::lease(self, now, lease_for, limit).await
    }

    async fn orders(&self, ids: &[OrderId]) -> Result<Vec<FoundOrder>, StoreError> {
        read::find_each(self, ids).await
    }

    async fn settle(&self, attempted: &[Attempted]) -> Result<Vec<DeliveryId>, StoreError> {
        mail_lease::settle(self, attempted).await
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let listed = deliveries::table
            .filter(deliveries::failed_at.is_not_null().eq(failed))
            .order((deliveries::created_at, deliveries::id))
            .limit(row_limit(limit));
        self.select(listed, DeliveryRow::into_delivery).await
    }

    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<bool, StoreError> {
        let retried = diesel::update(deliveries::table.find(id.0)).set(RetriedDelivery::at(now));
        Ok(self.execute(retried).await? > 0)
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        let stats = async |connection: &mut Connection| {
            let stats = sql::<(BigInt, BigInt, BigInt, Nullable<Instant>)>(STATS);
            let (events, pending, failed, oldest): (i64, i64, i64, Option<Utc>) =
                stats.get_result(connection).await?;
            Ok(QueueStats {
                events: events.unsigned_abs(),
                pending: pending.unsigned_abs(),
                failed: failed.unsigned_abs(),
                oldest_created_at: oldest.map(|at| at.0),
            })
        };
        self.read_ported(stats).await
    }
}
