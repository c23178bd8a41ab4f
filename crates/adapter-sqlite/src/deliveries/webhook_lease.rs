//! Leases webhook deliveries.

use std::collections::HashMap;

use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::ports::{StoreError, WebhookLease, WebhookSlots};
use sql_rows::{
    TargetRow, Utc, WebhookDeliveryRow, row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    waits,
};
use time::{Duration, OffsetDateTime};

use crate::{failure::Failure, store::SqliteStore};

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

pub(crate) async fn lease(
    store: &SqliteStore,
    now: OffsetDateTime,
    lease_for: Duration,
    slots: &WebhookSlots,
) -> Result<Vec<WebhookLease>, StoreError> {
    let slots = slots.clone();
    let lease = async move |connection: &mut SqliteConnection| {
        lease_due(connection, Utc(now), lease_for, &slots)
    };
    store.transaction(lease).await
}

/// Looks each endpoint with waiting deliveries up in the index of due ones.
fn lease_due(
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
