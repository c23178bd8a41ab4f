//! Webhook deliveries.

use std::collections::HashMap;

use async_trait::async_trait;
use diesel::{
    dsl::{self, sql},
    prelude::*,
    sql_types::{BigInt, Bool},
    sqlite::SqliteConnection,
};
use domain::{
    ports::{
        Cursor, DeliveryPageQuery, EndpointEffect, Page, ReplayBatch, StoreError, WebhookAttempted,
        WebhookLease, WebhookQueue, WebhookSlots, WebhookStats, WebhooksSettled,
    },
    webhook::{
        DisabledBy, EndpointId, EndpointOwner, EventType, WebhookDelivery, WebhookDeliveryId,
    },
};
use sql_rows::{
    DueAgain, TargetRow, Utc, WebhookAttempt, WebhookDeliveryRow, deliveries_with_endpoints,
    endpoint_of, row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    waits,
};
use time::{Duration, OffsetDateTime};

use crate::{failure::Failure, store::SqliteStore, webhooks::is_own};

#[async_trait]
impl WebhookQueue for SqliteStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        slots: &WebhookSlots,
    ) -> Result<Vec<WebhookLease>, StoreError> {
        let slots = slots.clone();
        self.write(move |connection| lease(connection, Utc(now), lease_for, &slots)).await
    }

    async fn settle(&self, attempted: &[WebhookAttempted]) -> Result<WebhooksSettled, StoreError> {
        let attempted = attempted.to_vec();
        let settle = move |connection: &mut SqliteConnection| {
            let mut settled = WebhooksSettled::default();
            for one in &attempted {
                settle(connection, one, &mut settled)?;
            }
            Ok(settled)
        };
        self.write(settle).await
    }

    async fn add_test(
        &self,
        owner: EndpointOwner,
        endpoint: EndpointId,
        message_key: &str,
        at: OffsetDateTime,
    ) -> Result<Option<WebhookDeliveryId>, StoreError> {
        let key = message_key.to_owned();
        let add = move |connection: &mut SqliteConnection| {
            let enabled = endpoint_of(owner, endpoint);
            let enabled = enabled.filter(webhook_endpoints::disabled_at.is_null());
            if !dsl::select(dsl::exists(enabled)).get_result(connection)? {
                return Ok(None);
            }
            let test = (
                webhook_deliveries::endpoint_id.eq(endpoint.0),
                webhook_deliveries::event.eq(EventType::Test.as_str()),
                webhook_deliveries::message_key.eq(key),
                webhook_deliveries::created_at.eq(Utc(at)),
                webhook_deliveries::due_at.eq(Utc(at)),
            );
            let id = diesel::insert_into(webhook_deliveries::table)
                .values(test)
                .returning(webhook_deliveries::id)
                .get_result(connection)?;
            Ok(Some(WebhookDeliveryId(id)))
        };
        self.write(add).await
    }

    async fn page(
        &self,
        owner: EndpointOwner,
        endpoint: EndpointId,
        query: &DeliveryPageQuery,
    ) -> Result<Option<Page<WebhookDelivery>>, StoreError> {
        let query = *query;
        self.read(move |connection| page(connection, owner, endpoint, query)).await
    }

    async fn replay(
        &self,
        owner: EndpointOwner,
        endpoint: EndpointId,
        delivery: WebhookDeliveryId,
        at: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let replay = move |connection: &mut SqliteConnection| {
            let of_endpoint = webhook_deliveries::table.find(delivery.0);
            let of_endpoint = of_endpoint.filter(webhook_deliveries::endpoint_id.eq(endpoint.0));
            let found = dsl::select(dsl::exists(of_endpoint)).get_result(connection)?;
            Ok(found && is_own(connection, owner, endpoint)? && reset(connection, delivery.0, at)?)
        };
        self.write(replay).await
    }

    async fn replay_batch(
        &self,
        owner: EndpointOwner,
        endpoint: EndpointId,
        batch: &ReplayBatch,
        at: OffsetDateTime,
    ) -> Result<Option<WebhookDeliveryId>, StoreError> {
        let batch = *batch;
        self.write(move |connection| replay_batch(connection, owner, endpoint, batch, at)).await
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<WebhookDelivery>, StoreError> {
        let list = move |connection: &mut SqliteConnection| {
            let of_endpoints = deliveries_with_endpoints()
                .order(webhook_deliveries::id)
                .limit(row_limit(limit))
                .select(WebhookDeliveryRow::as_select());
            let rows: Vec<WebhookDeliveryRow> = if failed {
                of_endpoints.filter(webhook_deliveries::failed_at.is_not_null()).load(connection)?
            } else {
                of_endpoints.filter(waits()).load(connection)?
            };
            Ok(rows.into_iter().map(WebhookDeliveryRow::into_delivery).collect::<Result<_, _>>()?)
        };
        self.read(list).await
    }

    async fn retry(&self, id: WebhookDeliveryId, at: OffsetDateTime) -> Result<bool, StoreError> {
        self.write(move |connection| reset(connection, id.0, at)).await
    }

    async fn stats(&self) -> Result<WebhookStats, StoreError> {
        self.read(stats).await
    }

    async fn forget(&self, instant: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.write(move |connection| forget(connection, Utc(instant), limit)).await
    }
}

/// Removes deliveries in the order in which a replay meets them, backwards: if the last one of a
/// batch is gone, so are all that would follow.
pub(crate) fn forget(
    connection: &mut SqliteConnection,
    instant: Utc,
    limit: usize,
) -> Result<usize, Failure> {
    let oldest: Vec<i64> = webhook_deliveries::table
        .filter(webhook_deliveries::created_at.lt(instant))
        .order((webhook_deliveries::created_at, webhook_deliveries::id))
        .limit(row_limit(limit))
        .select(webhook_deliveries::id)
        .load(connection)?;
    let mut removed = 0;
    for id in oldest {
        removed += diesel::delete(webhook_deliveries::table.find(id)).execute(connection)?;
    }
    Ok(removed)
}

/// A due delivery, in the order in which deliveries are leased: each endpoint gets one before any
/// gets two, and endpoints that fail come after others.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    rank: usize,
    is_failing: bool,
    at: Utc,
    id: i64,
    is_proven: bool,
    endpoint: i64,
}

/// Looks each endpoint with waiting deliveries up in the index of due ones.
fn lease(
    connection: &mut SqliteConnection,
    now: Utc,
    lease_for: Duration,
    slots: &WebhookSlots,
) -> Result<Vec<WebhookLease>, Failure> {
    let busy: HashMap<i64, usize> =
        slots.busy.iter().map(|(endpoint, free)| (endpoint.0, *free)).collect();
    let mut targets: HashMap<i64, TargetRow> = HashMap::new();
    let mut due: Vec<Due> = Vec::new();
    let mut last = 0;
    while let Some(endpoint) = next_endpoint(connection, last)? {
        last = endpoint;
        let target: Option<(TargetRow, Option<Utc>)> = webhook_endpoints::table
            .find(endpoint)
            .filter(webhook_endpoints::disabled_at.is_null())
            .select((TargetRow::as_select(), webhook_endpoints::failed_at))
            .first(connection)
            .optional()?;
        let Some((target, failed_at)) = target else { continue };
        let is_proven = target.is_proven();
        let free = match busy.get(&endpoint) {
            Some(free) if is_proven => *free,
            Some(_) => 0,
            None if is_proven => slots.per_endpoint,
            None => 1,
        };
        let longest = longest_due(connection, endpoint, now, free)?.into_iter().enumerate();
        let is_failing = failed_at.is_some();
        due.extend(longest.map(|(rank, (at, id))| Due {
            rank,
            is_failing,
            at,
            id,
            is_proven,
            endpoint,
        }));
        targets.insert(endpoint, target);
    }
    due.sort_unstable();
    let mut unproven = 0;
    due.retain(|due| {
        unproven += usize::from(!due.is_proven);
        due.is_proven || unproven <= slots.unproven
    });
    due.truncate(slots.limit);
    let until = Utc(now.0.saturating_add(lease_for));
    let mut leases = Vec::with_capacity(due.len());
    for Due { id, endpoint, .. } in due {
        let update = diesel::update(webhook_deliveries::table.find(id))
            .set((
                webhook_deliveries::leased_until.eq(until),
                webhook_deliveries::lease_token.eq(webhook_deliveries::lease_token + 1),
            ))
            .returning((WebhookDeliveryRow::as_select(), webhook_deliveries::lease_token));
        let (row, token): (WebhookDeliveryRow, i64) = update.get_result(connection)?;
        if let Some(target) = targets.get(&endpoint) {
            leases.push(row.into_lease(token, target.clone())?);
        }
    }
    Ok(leases)
}

/// Returns the next endpoint with deliveries that wait.
fn next_endpoint(connection: &mut SqliteConnection, after: i64) -> Result<Option<i64>, Failure> {
    let next = webhook_deliveries::table
        .filter(waits())
        .filter(webhook_deliveries::endpoint_id.gt(after))
        .order(webhook_deliveries::endpoint_id)
        .select(webhook_deliveries::endpoint_id);
    Ok(next.first(connection).optional()?)
}

/// Returns the deliveries of an endpoint that have been due longest.
fn longest_due(
    connection: &mut SqliteConnection,
    endpoint: i64,
    now: Utc,
    limit: usize,
) -> Result<Vec<(Utc, i64)>, Failure> {
    use webhook_deliveries::{due_at, endpoint_id, id, leased_until, table};

    Ok(table
        .filter(endpoint_id.eq(endpoint))
        .filter(waits())
        .filter(due_at.le(now))
        .filter(leased_until.is_null().or(leased_until.le(now)))
        .order((due_at, id))
        .limit(row_limit(limit))
        .select((due_at, id))
        .load(connection)?)
}

fn settle(
    connection: &mut SqliteConnection,
    one: &WebhookAttempted,
    settled: &mut WebhooksSettled,
) -> Result<(), Failure> {
    let (change, failures) = WebhookAttempt::of(one);
    let held = webhook_deliveries::table
        .find(one.id.0)
        .filter(webhook_deliveries::lease_token.eq(one.token))
        .filter(webhook_deliveries::leased_until.is_not_null());
    let outcome = (
        change,
        webhook_deliveries::leased_until.eq(None::<Utc>),
        webhook_deliveries::failures.eq(webhook_deliveries::failures + failures),
    );
    if diesel::update(held).set(outcome).execute(connection)? > 0 {
        settled.held.push(one.id);
        if affect(connection, one)? {
            settled.disabled.push(one.endpoint);
        }
    }
    Ok(())
}

/// Changes the endpoint of an attempt, unless it is in that state or has another URL. Returns
/// whether that disabled it.
fn affect(connection: &mut SqliteConnection, one: &WebhookAttempted) -> Result<bool, Failure> {
    use webhook_endpoints::{
        disabled_at, disabled_by, failed_at, succeeded_at, table, url, warned_at,
    };

    let called = table.find(one.endpoint.0).filter(url.eq(&one.url));
    let (at, none) = (Utc(one.at), None::<Utc>);
    match one.effect {
        EndpointEffect::None => {}
        EndpointEffect::Succeeded => {
            diesel::update(called.filter(succeeded_at.is_null()))
                .set((succeeded_at.eq(at), failed_at.eq(none), warned_at.eq(none)))
                .execute(connection)?;
        }
        EndpointEffect::Failed => {
            diesel::update(called.filter(failed_at.is_null()))
                .set((succeeded_at.eq(none), failed_at.eq(at)))
                .execute(connection)?;
        }
        EndpointEffect::Gone => {
            let disabled = diesel::update(called.filter(disabled_at.is_null()))
                .set((disabled_at.eq(at), disabled_by.eq(DisabledBy::Gone.as_str())))
                .execute(connection)?;
            return Ok(disabled > 0);
        }
    }
    Ok(false)
}

fn page(
    connection: &mut SqliteConnection,
    owner: EndpointOwner,
    endpoint: EndpointId,
    query: DeliveryPageQuery,
) -> Result<Option<Page<WebhookDelivery>>, Failure> {
    let of_endpoint =
        || webhook_deliveries::table.filter(webhook_deliveries::endpoint_id.eq(endpoint.0));
    let is_known = match query.cursor {
        Cursor::OlderThan(id) | Cursor::NewerThan(id) => {
            let known = of_endpoint().filter(webhook_deliveries::id.eq(id.0));
            dsl::select(dsl::exists(known)).get_result(connection)?
        }
        Cursor::Newest => true,
    };
    if !is_known || !is_own(connection, owner, endpoint)? {
        return Ok(None);
    }
    let rows = of_endpoint()
        .select(WebhookDeliveryRow::as_select())
        .limit(row_limit(query.limit.saturating_add(1)));
    let rows: Vec<WebhookDeliveryRow> = match query.cursor {
        Cursor::Newest => rows.order(webhook_deliveries::id.desc()).load(connection)?,
        Cursor::OlderThan(id) => rows
            .filter(webhook_deliveries::id.lt(id.0))
            .order(webhook_deliveries::id.desc())
            .load(connection)?,
        Cursor::NewerThan(id) => rows
            .filter(webhook_deliveries::id.gt(id.0))
            .order(webhook_deliveries::id.asc())
            .load(connection)?,
    };
    let read = rows.into_iter().map(WebhookDeliveryRow::into_delivery);
    let read = read.collect::<Result<_, _>>()?;
    // A cursor is a delivery itself, so there is one beyond it.
    let has_others = query.cursor != Cursor::Newest;
    Ok(Some(Page::of(query.limit, &query.cursor, read, has_others)))
}

fn reset(connection: &mut SqliteConnection, id: i64, at: OffsetDateTime) -> Result<bool, Failure> {
    let reset = diesel::update(webhook_deliveries::table.find(id)).set(DueAgain::at(at));
    Ok(reset.execute(connection)? > 0)
}

/// Makes the next deliveries of a replay due, the newest first. Returns the one before which the
/// next batch begins; `None` after the last batch.
pub(crate) fn replay_batch(
    connection: &mut SqliteConnection,
    owner: EndpointOwner,
    endpoint: EndpointId,
    batch: ReplayBatch,
    at: OffsetDateTime,
) -> Result<Option<WebhookDeliveryId>, Failure> {
    if !is_own(connection, owner, endpoint)? {
        return Ok(None);
    }
    // SQLite looks up a comparison of rows in the index of instants; diesel has none.
    let earlier = sql::<Bool>("(created_at, id) < (SELECT created_at, id FROM webhook_deliveries")
        .sql(" WHERE id = ")
        .bind::<BigInt, _>(batch.before.map_or(0, |id| id.0))
        .sql(")");
    let mut matching = webhook_deliveries::table
        .filter(webhook_deliveries::endpoint_id.eq(endpoint.0))
        .filter(webhook_deliveries::created_at.ge(Utc(batch.since)))
        .into_boxed();
    matching = match batch.before {
        Some(_) => matching.filter(earlier),
        None => matching.filter(webhook_deliveries::created_at.lt(Utc(batch.until))),
    };
    let rows: Vec<(i64, bool)> = matching
        .order((webhook_deliveries::created_at.desc(), webhook_deliveries::id.desc()))
        .limit(row_limit(batch.limit))
        .select((webhook_deliveries::id, waits()))
        .load(connection)?;
    for (id, _) in rows.iter().filter(|(_, waits)| !waits) {
        reset(connection, *id, at)?;
    }
    let last = rows.last().filter(|_| rows.len() == batch.limit);
    Ok(last.map(|(id, _)| WebhookDeliveryId(*id)))
}

fn stats(connection: &mut SqliteConnection) -> Result<WebhookStats, Failure> {
    let waiting = deliveries_with_endpoints()
        .filter(waits())
        .filter(webhook_endpoints::disabled_at.is_null());
    let pending: i64 = waiting.count().get_result(connection)?;
    let oldest_untried: Option<Utc> = waiting
        .filter(webhook_deliveries::failures.eq(0))
        .filter(webhook_endpoints::failed_at.is_null())
        .select(dsl::min(webhook_deliveries::due_at))
        .first(connection)?;
    let failed: i64 = webhook_deliveries::table
        .filter(webhook_deliveries::failed_at.is_not_null())
        .count()
        .get_result(connection)?;
    let disabled: i64 = webhook_endpoints::table
        .filter(webhook_endpoints::disabled_at.is_not_null())
        .count()
        .get_result(connection)?;
    Ok(WebhookStats {
        pending: pending.unsigned_abs(),
        failed: failed.unsigned_abs(),
        oldest_untried_at: oldest_untried.map(|at| at.0),
        disabled_endpoints: disabled.unsigned_abs(),
    })
}
