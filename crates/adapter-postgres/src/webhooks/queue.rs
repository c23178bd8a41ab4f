//! Webhook deliveries.

use async_trait::async_trait;
use diesel::{
    dsl::{exists, select, sql},
    prelude::*,
    sql_types::{BigInt, Bool},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Owner,
    order::OrderId,
    ports::{
        Cursor, DeliveryPageQuery, FoundUnreadable, NewWebhookDelivery, Page, ReplayBatch,
        Replayed, Retried, StoreError, UnreadableRow, WebhookAttempted, WebhookLease, WebhookQueue,
        WebhookSlots, WebhookStats, WebhooksSettled,
    },
    webhook::{EndpointId, EndpointPrecondition, EventType, WebhookDelivery, WebhookDeliveryId},
};
use sql_rows::{
    Utc,
    deliveries::retried,
    faults::{
        LookedAt, OrderLook, next_orders, oldest_events, oldest_mails, oldest_webhooks,
        scopes_of_keys, unknown_key_events,
    },
    instant::farthest_due,
    orders::KeptOrderRow,
    row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    webhook_deliveries::{
        DueAgain, NewWebhookRow, WEBHOOK_STATS, WebhookDeliveryRow, WebhookStatsTypes,
        deliveries_of, deliveries_with_endpoints, far_webhooks, is_known, readable_page,
        unleased_webhook, waits, webhook_stats,
    },
    webhook_endpoints::{EndpointRow, endpoint_of, far_endpoints},
};
use time::{Duration, OffsetDateTime};

use super::{
    endpoints::permitted,
    lease::{lease_due, wake},
    settle::settle,
};
use crate::{failure::Failure, locks, statement::columns, store::PostgresStore};

#[async_trait]
impl WebhookQueue for PostgresStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        slots: &WebhookSlots,
    ) -> Result<Vec<WebhookLease>, StoreError> {
        let slots = slots.clone();
        self.transaction(async move |connection| {
            lease_due(connection, now, lease_for, &slots).await
        })
        .await
    }

    async fn settle(&self, attempted: &[WebhookAttempted]) -> Result<WebhooksSettled, StoreError> {
        let attempted = attempted.to_vec();
        self.transaction(async move |connection| settle(connection, &attempted).await).await
    }

    async fn add_test(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        message_key: &str,
        precondition: &EndpointPrecondition,
        at: OffsetDateTime,
    ) -> Result<Option<WebhookDeliveryId>, StoreError> {
        let (event, message_key) = (EventType::Test, message_key.to_owned());
        // No change alters the body of a test.
        let new = NewWebhookDelivery { endpoint, event, change: None, message_key, body: None };
        let precondition = precondition.clone();
        let add = async move |connection: &mut AsyncPgConnection| {
            let found = permitted(connection, owner, endpoint, &precondition).await?;
            if found.is_none_or(|endpoint| endpoint.disabled.is_some()) {
                return Ok(None);
            }
            wake(connection, &[endpoint.0], Utc(at)).await?;
            let added = diesel::insert_into(webhook_deliveries::table)
                .values(NewWebhookRow::new(new, None, Utc(at), Utc(at)))
                .returning(webhook_deliveries::id);
            Ok(Some(WebhookDeliveryId(added.get_result(connection).await?)))
        };
        self.transaction(add).await
    }

    async fn page(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        query: &DeliveryPageQuery,
    ) -> Result<Option<Page<WebhookDelivery>>, StoreError> {
        let query = *query;
        self.read(async move |connection| page(connection, owner, endpoint, query).await).await
    }

    async fn replay(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        delivery: WebhookDeliveryId,
        precondition: &EndpointPrecondition,
        at: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let precondition = precondition.clone();
        let replay = async move |connection: &mut AsyncPgConnection| {
            if permitted(connection, owner, endpoint, &precondition).await?.is_none() {
                return Ok(false);
            }
            wake(connection, &[endpoint.0], Utc(at)).await?;
            let own = deliveries_of(owner, endpoint).filter(webhook_deliveries::id.eq(delivery.0));
            let replayed = diesel::update(own).set(DueAgain::at(at));
            Ok(replayed.execute(connection).await? > 0)
        };
        self.transaction(replay).await
    }

    async fn replay_batch(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        batch: &ReplayBatch,
        precondition: &EndpointPrecondition,
        at: OffsetDateTime,
    ) -> Result<Replayed, StoreError> {
        let (batch, precondition) = (*batch, precondition.clone());
        self.transaction(async move |connection| {
            replay_batch(connection, owner, endpoint, batch, &precondition, at).await
        })
        .await
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<WebhookDelivery>, StoreError> {
        let listed = deliveries_with_endpoints()
            .filter(is_known())
            .order(webhook_deliveries::id)
            .limit(row_limit(limit));
        let readable = |row: WebhookDeliveryRow| Ok(row.into_delivery().ok());
        let listed = if failed {
            self.select(listed.filter(webhook_deliveries::failed_at.is_not_null()), readable).await
        } else {
            self.select(listed.filter(waits()), readable).await
        };
        Ok(listed?.into_iter().flatten().collect())
    }

    async fn retry(
        &self,
        id: WebhookDeliveryId,
        at: OffsetDateTime,
    ) -> Result<Retried, StoreError> {
        let retry = async move |connection: &mut AsyncPgConnection| {
            let delivery = webhook_deliveries::table.find(id.0);
            let endpoint = delivery.select(webhook_deliveries::endpoint_id);
            let endpoint: Vec<i64> = endpoint.get_results(connection).await?;
            wake(connection, &endpoint, Utc(at)).await?;
            let retry = diesel::update(unleased_webhook(id, at)).set(DueAgain::at(at));
            let changed = retry.execute(connection).await?;
            let found: i64 = delivery.count().get_result(connection).await?;
            Ok(retried(changed, found))
        };
        self.transaction(retry).await
    }

    async fn unreadable(
        &self,
        after: OrderId,
        limit: usize,
    ) -> Result<FoundUnreadable, StoreError> {
        let mut rows = self.other_faults().await?;
        rows.truncate(limit);
        let look =
            async move |connection: &mut AsyncPgConnection| look_at_orders(connection, after).await;
        let (orders, looked_at) = self.read(look).await?.end();
        rows.extend(orders);
        Ok(FoundUnreadable { rows, looked_at })
    }

    async fn bring_forward(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.transaction(async move |connection| bring_forward(connection, now, limit).await).await
    }

    async fn stats(&self) -> Result<WebhookStats, StoreError> {
        let stats = sql::<WebhookStatsTypes>(WEBHOOK_STATS);
        self.read(async move |connection| Ok(webhook_stats(stats.get_result(connection).await?)))
            .await
    }

    async fn forget(&self, instant: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.transaction(async move |connection| forget(connection, Utc(instant), limit).await)
            .await
    }
}

impl PostgresStore {
    /// Returns the faults of rows that are no orders.
    async fn other_faults(&self) -> Result<Vec<UnreadableRow>, StoreError> {
        let endpoints = webhook_endpoints::table.order(webhook_endpoints::id);
        let endpoints = self.select(endpoints, |row: EndpointRow| Ok(row.fault())).await?;
        let looked_at = async move |connection: &mut AsyncPgConnection| {
            Ok(LookedAt {
                scopes_of_keys: scopes_of_keys().get_results(connection).await?,
                unknown_key_events: unknown_key_events().get_results(connection).await?,
                oldest_mails: oldest_mails().get_results(connection).await?,
                oldest_events: oldest_events().get_results(connection).await?,
                oldest_webhooks: oldest_webhooks().get_results(connection).await?,
            })
        };
        let others = self.read(looked_at).await?.faults();
        Ok(endpoints.into_iter().flatten().chain(others).collect())
    }
}

/// Looks at the next orders, a few at a time.
async fn look_at_orders(
    connection: &mut AsyncPgConnection,
    after: OrderId,
) -> Result<OrderLook, Failure> {
    let mut look = OrderLook::behind(after);
    loop {
        let next = next_orders(look.place()).select(columns::<KeptOrderRow>());
        if !look.note(next.get_results(connection).await)? {
            return Ok(look);
        }
    }
}

/// Removes deliveries in the order in which a replay meets them, backwards: if the last one of a
/// batch is gone, so are all that would follow.
pub(crate) async fn forget(
    connection: &mut AsyncPgConnection,
    instant: Utc,
    limit: usize,
) -> Result<usize, Failure> {
    let oldest = webhook_deliveries::table
        .filter(webhook_deliveries::created_at.lt(instant))
        .order((webhook_deliveries::created_at, webhook_deliveries::id))
        .limit(row_limit(limit))
        .select(webhook_deliveries::id);
    let oldest: Vec<i64> = oldest.get_results(connection).await?;
    locks::lock(connection, "webhook_deliveries", &oldest).await?;
    let oldest = webhook_deliveries::table.filter(webhook_deliveries::id.eq_any(oldest));
    Ok(diesel::delete(oldest).execute(connection).await?)
}

async fn bring_forward(
    connection: &mut AsyncPgConnection,
    now: OffsetDateTime,
    limit: usize,
) -> Result<usize, Failure> {
    let far = far_webhooks(now).limit(row_limit(limit));
    let far: Vec<(i64, i64)> = far.get_results(connection).await?;
    let (far, mut endpoints): (Vec<i64>, Vec<i64>) = far.into_iter().unzip();
    let idle = far_endpoints(now).limit(row_limit(limit));
    let idle: Vec<i64> = idle.get_results(connection).await?;
    endpoints.extend(idle);
    wake(connection, &endpoints, Utc(now)).await?;
    let far = locks::lock_free(connection, "webhook_deliveries", far).await?;
    // Another instance may have brought one forward and postponed it meanwhile.
    let far = webhook_deliveries::table
        .filter(webhook_deliveries::id.eq_any(far))
        .filter(webhook_deliveries::due_at.gt(farthest_due(Utc(now))));
    let forward = diesel::update(far).set(webhook_deliveries::due_at.eq(Utc(now)));
    Ok(forward.execute(connection).await?)
}

async fn page(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    endpoint: EndpointId,
    query: DeliveryPageQuery,
) -> Result<Option<Page<WebhookDelivery>>, Failure> {
    use webhook_deliveries::id;

    let (low, high, cursor) = match query.cursor {
        Cursor::Newest => (i64::MIN, i64::MAX, None),
        Cursor::OlderThan(cursor) => (i64::MIN, cursor.0, Some(cursor.0)),
        Cursor::NewerThan(cursor) => (cursor.0, i64::MAX, Some(cursor.0)),
    };
    let is_known_to = if let Some(cursor) = cursor {
        let known = select(exists(deliveries_of(owner, endpoint).filter(id.eq(cursor))));
        known.get_result::<bool>(connection).await?
    } else {
        select(exists(endpoint_of(owner, endpoint))).get_result::<bool>(connection).await?
    };
    if !is_known_to {
        return Ok(None);
    }
    let rows = deliveries_of(owner, endpoint)
        .filter(id.gt(low).and(id.lt(high)).and(is_known()))
        .select(columns::<WebhookDeliveryRow>())
        .limit(row_limit(query.limit.saturating_add(1)));
    let rows: Vec<WebhookDeliveryRow> = if matches!(query.cursor, Cursor::NewerThan(_)) {
        rows.order(id.asc()).get_results(connection).await?
    } else {
        rows.order(id.desc()).get_results(connection).await?
    };
    // A cursor is a delivery itself, so there is one beyond it.
    let has_others = query.cursor != Cursor::Newest;
    Ok(Some(readable_page(Page::of(query.limit, &query.cursor, rows, has_others))))
}

/// Makes the next deliveries of a replay due, the newest first.
pub(crate) async fn replay_batch(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    endpoint: EndpointId,
    batch: ReplayBatch,
    precondition: &EndpointPrecondition,
    at: OffsetDateTime,
) -> Result<Replayed, Failure> {
    use webhook_deliveries::{created_at, id, table};

    if permitted(connection, owner, endpoint, precondition).await?.is_none() {
        return Ok(Replayed::Refused);
    }
    // The databases look up a comparison of rows in the index of instants; diesel has none.
    let earlier = sql::<Bool>("(created_at, id) < (SELECT created_at, id FROM webhook_deliveries")
        .sql(" WHERE id = ")
        .bind::<BigInt, _>(batch.before.map_or(0, |before| before.0))
        .sql(")");
    let of_endpoint = deliveries_of(owner, endpoint);
    let mut matching = of_endpoint.filter(created_at.ge(Utc(batch.since))).into_boxed();
    matching = match batch.before {
        Some(_) => matching.filter(earlier),
        None => matching.filter(created_at.lt(Utc(batch.until))),
    };
    let matching = matching
        .order((created_at.desc(), id.desc()))
        .limit(row_limit(batch.limit))
        .select((id, waits()));
    let rows: Vec<(i64, bool)> = matching.get_results(connection).await?;
    let ended: Vec<i64> =
        rows.iter().filter(|(_, waits)| !waits).map(|(ended, _)| *ended).collect();
    wake(connection, &[endpoint.0], Utc(at)).await?;
    locks::lock(connection, "webhook_deliveries", &ended).await?;
    let replayed = diesel::update(table.filter(id.eq_any(ended))).set(DueAgain::at(at));
    replayed.execute(connection).await?;
    let last = rows.last().filter(|_| rows.len() == batch.limit);
    Ok(last.map_or(Replayed::All, |(last, _)| Replayed::UpTo(WebhookDeliveryId(*last))))
}
