//! Webhook deliveries.

use async_trait::async_trait;
use diesel::{
    QueryableByName, dsl,
    prelude::*,
    sql_query,
    sql_types::{BigInt, Bool, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    ports::{
        Cursor, DeliveryPageQuery, Page, ReplayBatch, StoreError, WebhookAttempted, WebhookLease,
        WebhookQueue, WebhookSlots, WebhookStats, WebhooksSettled,
    },
    webhook::{EndpointId, EndpointOwner, EventType, WebhookDelivery, WebhookDeliveryId},
};
use sql_rows::{
    DueAgain, Instant, Utc, WebhookDeliveryRow, deliveries_with_endpoints, endpoint_of, next_batch,
    row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    waits,
};
use time::{Duration, OffsetDateTime};

use super::{webhook_lease, webhook_settle};
use crate::{PostgresStore, failure::Failure, statement::IdRow};

const ADD_TEST: &str = "INSERT INTO webhook_deliveries \
        (endpoint_id, event, message_key, created_at, due_at) \
    SELECT id, $4, $5, $6, $6 FROM webhook_endpoints \
    WHERE id = $1 AND client_id = $2 AND is_test = $3 AND disabled_at IS NULL RETURNING id";

/// Locks deliveries by identifier, so that two calls never deadlock.
const REPLAY: &str = "WITH batch AS (\
        SELECT d.id, d.created_at, d.delivered_at IS NOT NULL OR d.failed_at IS NOT NULL AS ended \
        FROM webhook_deliveries AS d JOIN webhook_endpoints AS e ON e.id = d.endpoint_id \
        WHERE d.endpoint_id = $1 AND e.client_id = $2 AND e.is_test = $3 AND d.id < $4 \
        ORDER BY d.id DESC LIMIT $5\
    ), held AS (\
        SELECT d.id FROM webhook_deliveries AS d JOIN batch ON batch.id = d.id \
        WHERE ended AND batch.created_at >= $6 AND batch.created_at < $7 \
        ORDER BY d.id FOR UPDATE OF d\
    ), replayed AS (\
        UPDATE webhook_deliveries SET due_at = $8, failures = 0, delivered_at = NULL, \
            failed_at = NULL WHERE id = ANY (ARRAY(SELECT id FROM held))\
    ) SELECT id, created_at FROM batch ORDER BY id DESC";

/// Rows that a worker attempts or removes now are passed.
const FORGET: &str = "DELETE FROM webhook_deliveries WHERE id = ANY (ARRAY(\
    SELECT id FROM (SELECT id, created_at FROM webhook_deliveries ORDER BY id LIMIT $2 \
        FOR UPDATE SKIP LOCKED) AS oldest WHERE created_at < $1))";

#[derive(QueryableByName)]
struct BatchRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Instant)]
    created_at: Utc,
}

#[async_trait]
impl WebhookQueue for PostgresStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        slots: &WebhookSlots,
    ) -> Result<Vec<WebhookLease>, StoreError> {
        Ok(webhook_lease::lease(&self.pool, now, lease_for, slots).await?)
    }

    async fn settle(&self, attempted: &[WebhookAttempted]) -> Result<WebhooksSettled, StoreError> {
        Ok(webhook_settle::settle(&self.pool, attempted).await?)
    }

    async fn add_test(
        &self,
        owner: EndpointOwner,
        endpoint: EndpointId,
        message_key: &str,
        at: OffsetDateTime,
    ) -> Result<Option<WebhookDeliveryId>, StoreError> {
        let add = sql_query(ADD_TEST)
            .bind::<BigInt, _>(endpoint.0)
            .bind::<BigInt, _>(owner.client.0)
            .bind::<Bool, _>(owner.is_test)
            .bind::<Text, _>(EventType::Test.as_str())
            .bind::<Text, _>(message_key)
            .bind::<Timestamptz, _>(at);
        Ok(self.pool.all(add, |IdRow { id }| Ok(WebhookDeliveryId(id))).await?.pop())
    }

    async fn page(
        &self,
        owner: EndpointOwner,
        endpoint: EndpointId,
        query: &DeliveryPageQuery,
    ) -> Result<Option<Page<WebhookDelivery>>, StoreError> {
        let read =
            self.pool.run(async |connection| page(connection, owner, endpoint, *query).await);
        Ok(read.await?)
    }

    async fn replay(
        &self,
        owner: EndpointOwner,
        endpoint: EndpointId,
        delivery: WebhookDeliveryId,
        at: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let replayed = webhook_deliveries::table
            .find(delivery.0)
            .filter(webhook_deliveries::endpoint_id.eq(endpoint.0))
            .filter(dsl::exists(endpoint_of(owner, endpoint)));
        Ok(self.pool.write(diesel::update(replayed).set(DueAgain::at(at))).await? > 0)
    }

    async fn replay_batch(
        &self,
        owner: EndpointOwner,
        endpoint: EndpointId,
        batch: &ReplayBatch,
        at: OffsetDateTime,
    ) -> Result<Option<WebhookDeliveryId>, StoreError> {
        let replay = sql_query(REPLAY)
            .bind::<BigInt, _>(endpoint.0)
            .bind::<BigInt, _>(owner.client.0)
            .bind::<Bool, _>(owner.is_test)
            .bind::<BigInt, _>(batch.before.map_or(i64::MAX, |id| id.0))
            .bind::<BigInt, _>(row_limit(batch.limit))
            .bind::<Timestamptz, _>(batch.since)
            .bind::<Timestamptz, _>(batch.until)
            .bind::<Timestamptz, _>(at);
        let rows: Vec<BatchRow> = self.pool.rows(replay).await?;
        Ok(next_batch(*batch, rows.iter().map(|row| (row.id, row.created_at))))
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<WebhookDelivery>, StoreError> {
        let listed = deliveries_with_endpoints()
            .order(webhook_deliveries::id)
            .limit(row_limit(limit))
            .select(WebhookDeliveryRow::as_select());
        let meaning = WebhookDeliveryRow::into_delivery;
        Ok(if failed {
            let failed = listed.filter(webhook_deliveries::failed_at.is_not_null());
            self.pool.all(failed, meaning).await?
        } else {
            self.pool.all(listed.filter(waits()), meaning).await?
        })
    }

    async fn retry(&self, id: WebhookDeliveryId, at: OffsetDateTime) -> Result<bool, StoreError> {
        let retried = diesel::update(webhook_deliveries::table.find(id.0)).set(DueAgain::at(at));
        Ok(self.pool.write(retried).await? > 0)
    }

    async fn stats(&self) -> Result<WebhookStats, StoreError> {
        Ok(self.pool.run(async |connection| stats(connection).await).await?)
    }

    async fn forget(&self, instant: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        let forget =
            sql_query(FORGET).bind::<Timestamptz, _>(instant).bind::<BigInt, _>(row_limit(limit));
        Ok(self.pool.write(forget).await?)
    }
}

async fn page(
    connection: &mut AsyncPgConnection,
    owner: EndpointOwner,
    endpoint: EndpointId,
    query: DeliveryPageQuery,
) -> Result<Option<Page<WebhookDelivery>>, Failure> {
    let (cursor, low, high) = match query.cursor {
        Cursor::Newest => (None, i64::MIN, i64::MAX),
        Cursor::OlderThan(id) => (Some(id.0), i64::MIN, id.0),
        Cursor::NewerThan(id) => (Some(id.0), id.0, i64::MAX),
    };
    let of_endpoint =
        || webhook_deliveries::table.filter(webhook_deliveries::endpoint_id.eq(endpoint.0));
    let own = dsl::exists(endpoint_of(owner, endpoint));
    let mut is_known: bool = diesel::select(own).get_result(connection).await?;
    if let Some(id) = cursor {
        let cursor = dsl::exists(of_endpoint().filter(webhook_deliveries::id.eq(id)));
        is_known &= diesel::select(cursor).get_result::<bool>(connection).await?;
    }
    if !is_known {
        return Ok(None);
    }
    let rows = of_endpoint()
        .filter(webhook_deliveries::id.gt(low).and(webhook_deliveries::id.lt(high)))
        .select(WebhookDeliveryRow::as_select())
        .limit(row_limit(query.limit.saturating_add(1)));
    let rows: Vec<WebhookDeliveryRow> = if matches!(query.cursor, Cursor::NewerThan(_)) {
        rows.order(webhook_deliveries::id.asc()).load(connection).await?
    } else {
        rows.order(webhook_deliveries::id.desc()).load(connection).await?
    };
    let read = rows.into_iter().map(WebhookDeliveryRow::into_delivery);
    let read = read.collect::<Result<_, _>>()?;
    // A cursor is a delivery itself, so there is one beyond it.
    let has_others = query.cursor != Cursor::Newest;
    Ok(Some(Page::of(query.limit, &query.cursor, read, has_others)))
}

async fn stats(connection: &mut AsyncPgConnection) -> Result<WebhookStats, Failure> {
    let waiting = deliveries_with_endpoints()
        .filter(waits())
        .filter(webhook_endpoints::disabled_at.is_null());
    let pending: i64 = waiting.count().get_result(connection).await?;
    let oldest_untried: Option<Utc> = waiting
        .filter(webhook_deliveries::failures.eq(0))
        .filter(webhook_endpoints::failed_at.is_null())
        .select(dsl::min(webhook_deliveries::due_at))
        .first(connection)
        .await?;
    let failed: i64 = webhook_deliveries::table
        .filter(webhook_deliveries::failed_at.is_not_null())
        .count()
        .get_result(connection)
        .await?;
    let disabled: i64 = webhook_endpoints::table
        .filter(webhook_endpoints::disabled_at.is_not_null())
        .count()
        .get_result(connection)
        .await?;
    Ok(WebhookStats {
        pending: pending.unsigned_abs(),
        failed: failed.unsigned_abs(),
        oldest_untried_at: oldest_untried.map(|at| at.0),
        disabled_endpoints: disabled.unsigned_abs(),
    })
}
