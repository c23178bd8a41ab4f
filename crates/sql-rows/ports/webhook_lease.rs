//! Leases webhook deliveries.

use std::collections::HashMap;

use diesel::{dsl::sql, prelude::*, sql_types::Nullable};
use domain::ports::{StoreError, WebhookLease, WebhookSlots};
use sql_rows::{
    Instant, TargetRow, Utc, WebhookDeliveryRow, row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    stored_party, waits,
};
use time::{Duration, OffsetDateTime};

use crate::{
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

/// A due delivery, in the order in which deliveries are leased: each endpoint gets one before any
/// gets two, and endpoints that fail come after others.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    round: usize,
    is_failing: bool,
    at: Utc,
    id: i64,
    is_proven: bool,
    party: i64,
}

/// What the attempts at an endpoint say about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Proven,
    Untried,
    Failing,
}

/// A lease need not be durable: without it, the delivery is attempted again.
pub(super) async fn lease(
    store: &Store,
    now: OffsetDateTime,
    lease_for: Duration,
    slots: &WebhookSlots,
) -> Result<Vec<WebhookLease>, StoreError> {
    let slots = slots.clone();
    let lease = async move |connection: &mut Connection| {
        lease_due(connection, now, lease_for, &slots).await
    };
    store.transaction(lease).await
}

pub(crate) async fn lease_due(
    connection: &mut Connection,
    now: OffsetDateTime,
    lease_for: Duration,
    slots: &WebhookSlots,
) -> Result<Vec<WebhookLease>, Failure> {
    use webhook_deliveries::{id, lease_token, leased_until, table};

    let (until, now) = (Utc(now.saturating_add(lease_for)), Utc(now));
    let endpoints = due_endpoints(connection, now, slots).await?;
    if endpoints.is_empty() {
        return Ok(Vec::new());
    }
    let due = due_deliveries(connection, now, slots, &endpoints).await?;
    let ids = due.iter().map(|due| due.id).collect();
    let ids = dialect::lock_free(connection, "webhook_deliveries", ids).await?;
    let leased = diesel::update(table.filter(id.eq_any(ids)))
        .set((leased_until.eq(until), lease_token.eq(lease_token + 1)))
        .returning((WebhookDeliveryRow::as_select(), lease_token));
    let mut leased: Vec<(WebhookDeliveryRow, i64)> = leased.get_results(connection).await?;
    // An update returns its rows in no particular order.
    leased.sort_by_key(|(row, _)| due.iter().position(|due| due.id == row.id));
    put_off(connection, now, endpoints.keys().copied().collect()).await?;
    let readable = leased.into_iter().filter_map(|(row, token)| {
        let (target, _) = endpoints.get(&row.endpoint_id)?;
        Some(row.into_lease(token, target.clone()))
    });
    Ok(readable.collect::<Result<_, _>>()?)
}

/// Looks endpoints up that have due deliveries and free slots, the longest due first, and locks
/// them. Their number does not depend on how many there are.
async fn due_endpoints(
    connection: &mut Connection,
    now: Utc,
    slots: &WebhookSlots,
) -> Result<HashMap<i64, (TargetRow, State)>, Failure> {
    use webhook_endpoints::{disabled_at, due_at, failed_at, id, succeeded_at, table};

    let busy = |is_full: bool| {
        let busy = slots.busy.iter().filter(move |(_, free)| !is_full || *free == 0);
        busy.map(|(endpoint, _)| endpoint.0).collect::<Vec<i64>>()
    };
    let full = slots.busy_parties.iter().filter(|(_, free)| *free == 0);
    let full_parties: Vec<i64> = full.map(|(party, _)| stored_party(*party)).collect();
    let due = |full: Vec<i64>, limit: usize| {
        table
            .filter(disabled_at.is_null().and(due_at.le(now)).and(id.ne_all(full)))
            .filter(webhook_endpoints::party.ne_all(full_parties.clone()))
            .order((due_at, id))
            .limit(row_limit(limit))
            .select((id, TargetRow::as_select()))
    };
    let proven = due(busy(true), slots.limit).filter(succeeded_at.is_not_null());
    let unproven = || due(busy(false), slots.unproven.min(slots.limit));
    let untried = unproven().filter(succeeded_at.is_null().and(failed_at.is_null()));
    let failing = unproven().filter(failed_at.is_not_null());
    let mut found: HashMap<i64, (TargetRow, State)> = HashMap::new();
    for (state, rows) in [
        (State::Proven, proven.get_results(connection).await?),
        (State::Untried, untried.get_results(connection).await?),
        (State::Failing, failing.get_results(connection).await?),
    ] {
        let rows: Vec<(i64, TargetRow)> = rows;
        found.extend(rows.into_iter().map(|(endpoint, target)| (endpoint, (target, state))));
    }
    if found.is_empty() {
        return Ok(found);
    }
    let ids = found.keys().copied().collect();
    let locked = dialect::lock_free(connection, "webhook_endpoints", ids).await?;
    found.retain(|endpoint, _| locked.contains(endpoint));
    Ok(found)
}

/// Chooses the deliveries of endpoints that get the free slots.
async fn due_deliveries(
    connection: &mut Connection,
    now: Utc,
    slots: &WebhookSlots,
    endpoints: &HashMap<i64, (TargetRow, State)>,
) -> Result<Vec<Due>, Failure> {
    use webhook_deliveries::{due_at, endpoint_id, id, leased_until, table};

    let busy: HashMap<i64, usize> =
        slots.busy.iter().map(|(endpoint, free)| (endpoint.0, *free)).collect();
    let mut due: Vec<Due> = Vec::new();
    for (&endpoint, (target, state)) in endpoints {
        let is_proven = *state == State::Proven;
        let free = busy.get(&endpoint).copied().unwrap_or(slots.per_endpoint);
        let longest = table
            .filter(endpoint_id.eq(endpoint))
            .filter(waits())
            .filter(due_at.le(now))
            .filter(leased_until.is_null().or(leased_until.le(now)))
            .order((due_at, id))
            .limit(row_limit(if is_proven { free } else { 1 }))
            .select((due_at, id));
        let longest: Vec<(Utc, i64)> = longest.get_results(connection).await?;
        let is_failing = *state == State::Failing;
        due.extend(longest.into_iter().enumerate().map(|(round, (at, delivery))| Due {
            round,
            is_failing,
            at,
            id: delivery,
            is_proven,
            party: target.party,
        }));
    }
    due.sort_unstable();
    let (mut unproven, busy) = (slots.unproven, slots.busy_parties.iter());
    let mut parties: HashMap<i64, usize> =
        busy.map(|(party, free)| (stored_party(*party), *free)).collect();
    due.retain(|due| {
        let of_party = parties.entry(due.party).or_insert(slots.per_party);
        let is_open = *of_party > 0 && (due.is_proven || unproven > 0);
        *of_party -= usize::from(is_open);
        unproven -= usize::from(is_open && !due.is_proven);
        is_open
    });
    due.truncate(slots.limit);
    Ok(due)
}

/// Notes when the next delivery of each endpoint is due, or its lease ends. Leased deliveries are
/// among the longest due, and an endpoint has few of them.
async fn put_off(
    connection: &mut Connection,
    now: Utc,
    endpoints: Vec<i64>,
) -> Result<(), Failure> {
    let next = sql::<Nullable<Instant>>("(SELECT min(CASE WHEN leased_until > ")
        .bind::<Instant, _>(now)
        .sql(
            " THEN leased_until ELSE due_at END) FROM (SELECT due_at, leased_until \
            FROM webhook_deliveries WHERE endpoint_id = webhook_endpoints.id \
            AND delivered_at IS NULL AND failed_at IS NULL ORDER BY due_at, id LIMIT 64) AS head)",
        );
    let endpoints = webhook_endpoints::table.filter(webhook_endpoints::id.eq_any(endpoints));
    let put_off = diesel::update(endpoints).set(webhook_endpoints::due_at.eq(next));
    put_off.execute(connection).await?;
    Ok(())
}

/// Notes that endpoints have deliveries that are due at an instant. Locks them first: an update would
/// pass over one that a lease is about to put off.
pub(crate) async fn wake(
    connection: &mut Connection,
    endpoints: Vec<i64>,
    at: Utc,
) -> Result<(), Failure> {
    dialect::lock(connection, "webhook_endpoints", &endpoints).await?;
    let is_later = webhook_endpoints::due_at.is_null().or(webhook_endpoints::due_at.gt(at));
    let endpoints =
        webhook_endpoints::table.filter(webhook_endpoints::id.eq_any(endpoints)).filter(is_later);
    let wake = diesel::update(endpoints).set(webhook_endpoints::due_at.eq(at));
    wake.execute(connection).await?;
    Ok(())
}
