//! Webhook deliveries.

use async_trait::async_trait;
use diesel::{
    dsl::{exists, select, sql},
    prelude::*,
    sql_types::{BigInt, Bool, Nullable},
};
use domain::{
    api_key::Owner,
    ports::{
        Cursor, DeliveryPageQuery, NewWebhookDelivery, Page, ReplayBatch, StoreError,
        WebhookAttempted, WebhookLease, WebhookQueue, WebhookSlots, WebhookStats, WebhooksSettled,
    },
    webhook::{EndpointId, EventType, WebhookDelivery, WebhookDeliveryId},
};
use sql_rows::{
    DueAgain, Instant, NewWebhookRow, Utc, WebhookDeliveryRow, deliveries_with_endpoints,
    endpoint_of, row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    waits,
};
use time::{Duration, OffsetDateTime};

use super::{webhook_lease, webhook_settle};
use crate::{
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

/// The number of deliveries that wait for enabled endpoints, the oldest due of those that were not
/// tried, and the numbers of deliveries that failed for good and of disabled endpoints.
const STATS: &str = "SELECT count(*), \
        min(d.due_at) FILTER (WHERE failures = 0 AND e.failed_at IS NULL), \
        (SELECT count(*) FROM webhook_deliveries WHERE failed_at IS NOT NULL), \
        (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL) \
    FROM webhook_deliveries AS d JOIN webhook_endpoints AS e ON e.id = d.endpoint_id \
    WHERE d.delivered_at IS NULL AND d.failed_at IS NULL AND e.disabled_at IS NULL";

#[async_trait]
impl WebhookQueue for Store {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        slots: &WebhookSlots,
    ) -> Result<Vec<WebhookLease>, StoreError> {
        webhook_lease::lease(self, now, lease_for, slots).await
    }

    async fn settle(&self, attempted: &[WebhookAttempted]) -> Result<WebhooksSettled, StoreError> {
        webhook_settle::settle(self, attempted).await
    }

    /// An endpoint that is removed meanwhile leaves a delivery that is never sent.
    async fn add_test(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        message_key: &str,
        at: OffsetDateTime,
    ) -> Result<Option<WebhookDeliveryId>, StoreError> {
        let (event, message_key) = (EventType::Test, message_key.to_owned());
        let new = NewWebhookDelivery { endpoint, event, change: None, message_key };
        let add = async move |connection: &mut Connection| {
            let enabled = endpoint_of(owner, endpoint);
            let enabled = select(exists(enabled.filter(webhook_endpoints::disabled_at.is_null())));
            if !enabled.get_result(connection).await? {
                return Ok(None);
            }
            let added = diesel::insert_into(webhook_deliveries::table)
                .values(NewWebhookRow::new(new, None, Utc(at), Utc(at)))
                .returning(webhook_deliveries::id);
            let added = added.get_result(connection).await?;
            webhook_lease::wake(connection, vec![endpoint.0], Utc(at)).await?;
            Ok(Some(WebhookDeliveryId(added)))
        };
        self.transaction_ported(add).await
    }

    async fn page(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        query: &DeliveryPageQuery,
    ) -> Result<Option<Page<WebhookDelivery>>, StoreError> {
        let query = *query;
        self.read_ported(async move |connection| page(connection, owner, endpoint, query).await)
            .await
    }

    async fn replay(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        delivery: WebhookDeliveryId,
        at: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let replayed = webhook_deliveries::table
            .find(delivery.0)
            .filter(webhook_deliveries::endpoint_id.eq(endpoint.0))
            .filter(exists(endpoint_of(owner, endpoint)));
        let replay = async move |connection: &mut Connection| {
            let replayed = diesel::update(replayed).set(DueAgain::at(at));
            let is_found = replayed.execute(connection).await? > 0;
            if is_found {
                webhook_lease::wake(connection, vec![endpoint.0], Utc(at)).await?;
            }
            Ok(is_found)
        };
        self.transaction_ported(replay).await
    }

    async fn replay_batch(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        batch: &ReplayBatch,
        at: OffsetDateTime,
    ) -> Result<Option<WebhookDeliveryId>, StoreError> {
        let batch = *batch;
        let replay = async move |connection: &mut Connection| {
            replay_batch(connection, owner, endpoint, batch, at).await
        };
        self.transaction_ported(replay).await
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<WebhookDelivery>, StoreError> {
        let listed =
            deliveries_with_endpoints().order(webhook_deliveries::id).limit(row_limit(limit));
        let meaning = WebhookDeliveryRow::into_delivery;
        if failed {
            self.select(listed.filter(webhook_deliveries::failed_at.is_not_null()), meaning).await
        } else {
            self.select(listed.filter(waits()), meaning).await
        }
    }

    async fn retry(&self, id: WebhookDeliveryId, at: OffsetDateTime) -> Result<bool, StoreError> {
        let retry = async move |connection: &mut Connection| {
            let retried = diesel::update(webhook_deliveries::table.find(id.0))
                .set(DueAgain::at(at))
                .returning(webhook_deliveries::endpoint_id);
            let endpoints: Vec<i64> = retried.get_results(connection).await?;
            let is_found = !endpoints.is_empty();
            webhook_lease::wake(connection, endpoints, Utc(at)).await?;
            Ok(is_found)
        };
        self.transaction_ported(retry).await
    }

    async fn stats(&self) -> Result<WebhookStats, StoreError> {
        let stats = async |connection: &mut Connection| {
            let stats = sql::<(BigInt, Nullable<Instant>, BigInt, BigInt)>(STATS);
            let (pending, untried, failed, disabled): (i64, Option<Utc>, i64, i64) =
                stats.get_result(connection).await?;
            Ok(WebhookStats {
                pending: pending.unsigned_abs(),
                failed: failed.unsigned_abs(),
                oldest_untried_at: untried.map(|at| at.0),
                disabled_endpoints: disabled.unsigned_abs(),
            })
        };
        self.read_ported(stats).await
    }

    async fn forget(&self, instant: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.transaction_ported(async move |connection| {
            forget(connection, Utc(instant), limit).await
        })
        .await
    }
}

/// Removes deliveries in the order in which a replay meets them, backwards: if the last one of a
/// batch is gone, so are all that would follow.
pub(crate) async fn forget(
    connection: &mut Connection,
    instant: Utc,
    limit: usize,
) -> Result<usize, Failure> {
    let oldest = webhook_deliveries::table
        .filter(webhook_deliveries::created_at.lt(instant))
        .order((webhook_deliveries::created_at, webhook_deliveries::id))
        .limit(row_limit(limit))
        .select(webhook_deliveries::id);
    let oldest: Vec<i64> = oldest.get_results(connection).await?;
    dialect::lock(connection, "webhook_deliveries", &oldest).await?;
    let oldest = webhook_deliveries::table.filter(webhook_deliveries::id.eq_any(oldest));
    Ok(diesel::delete(oldest).execute(connection).await?)
}

async fn page(
    connection: &mut Connection,
    owner: Owner,
    endpoint: EndpointId,
    query: DeliveryPageQuery,
) -> Result<Option<Page<WebhookDelivery>>, Failure> {
    use webhook_deliveries::{endpoint_id, id, table};

    let (low, high, cursor) = match query.cursor {
        Cursor::Newest => (i64::MIN, i64::MAX, None),
        Cursor::OlderThan(cursor) => (i64::MIN, cursor.0, Some(cursor.0)),
        Cursor::NewerThan(cursor) => (cursor.0, i64::MAX, Some(cursor.0)),
    };
    let of_endpoint = || table.filter(endpoint_id.eq(endpoint.0));
    let own = select(exists(endpoint_of(owner, endpoint)));
    let mut is_known: bool = own.get_result(connection).await?;
    if let Some(cursor) = cursor {
        let known = select(exists(of_endpoint().filter(id.eq(cursor))));
        is_known &= known.get_result::<bool>(connection).await?;
    }
    if !is_known {
        return Ok(None);
    }
    let rows = of_endpoint()
        .filter(id.gt(low).and(id.lt(high)))
        .select(WebhookDeliveryRow::as_select())
        .limit(row_limit(query.limit.saturating_add(1)));
    let rows: Vec<WebhookDeliveryRow> = if matches!(query.cursor, Cursor::NewerThan(_)) {
        rows.order(id.asc()).get_results(connection).await?
    } else {
        rows.order(id.desc()).get_results(connection).await?
    };
    let read = rows.into_iter().map(WebhookDeliveryRow::into_delivery);
    let read = read.collect::<Result<_, _>>()?;
    // A cursor is a delivery itself, so there is one beyond it.
    let has_others = query.cursor != Cursor::Newest;
    Ok(Some(Page::of(query.limit, &query.cursor, read, has_others)))
}

/// Makes the next deliveries of a replay due, the newest first. Returns the one before which the
/// next batch begins; `None` after the last batch.
pub(crate) async fn replay_batch(
    connection: &mut Connection,
    owner: Owner,
    endpoint: EndpointId,
    batch: ReplayBatch,
    at: OffsetDateTime,
) -> Result<Option<WebhookDeliveryId>, Failure> {
    use webhook_deliveries::{created_at, endpoint_id, id, table};

    if !select(exists(endpoint_of(owner, endpoint))).get_result(connection).await? {
        return Ok(None);
    }
    // The databases look up a comparison of rows in the index of instants; diesel has none.
    let earlier = sql::<Bool>("(created_at, id) < (SELECT created_at, id FROM webhook_deliveries")
        .sql(" WHERE id = ")
        .bind::<BigInt, _>(batch.before.map_or(0, |before| before.0))
        .sql(")");
    let of_endpoint = table.filter(endpoint_id.eq(endpoint.0));
    let mut matching = of_endpoint.filter(created_at.ge(Utc(batch.since))).into_boxed();
    matching = match batch.before {
        Some(_) => matching.filter(earlier),
        None => matching.filter(created_at.lt(Utc(batch.until))),
    };
    let rows: Vec<(i64, bool)> = matching
        .order((created_at.desc(), id.desc()))
        .limit(row_limit(batch.limit))
        .select((id, waits()))
        .get_results(connection)
        .await?;
    let ended: Vec<i64> =
        rows.iter().filter(|(_, waits)| !waits).map(|(ended, _)| *ended).collect();
    dialect::lock(connection, "webhook_deliveries", &ended).await?;
    let replayed = diesel::update(table.filter(id.eq_any(ended))).set(DueAgain::at(at));
    replayed.execute(connection).await?;
    webhook_lease::wake(connection, vec![endpoint.0], Utc(at)).await?;
    let last = rows.last().filter(|_| rows.len() == batch.limit);
    Ok(last.map(|(last, _)| WebhookDeliveryId(*last)))
}
