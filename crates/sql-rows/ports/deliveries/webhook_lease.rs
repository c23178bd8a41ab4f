//! Leases webhook deliveries.

use std::collections::HashMap;

use diesel::{dsl::sql, prelude::*, sql_types::Nullable};
use domain::{
    api_key::Party,
    ports::{StoreError, WebhookLease, WebhookSlots},
};
use sql_rows::{
    Instant, TargetRow, Utc, WebhookDeliveryRow, farthest, party_of, row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    stored_party, waits,
};
use time::{Duration, OffsetDateTime};

use crate::{
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

/// A due delivery, in the order in which deliveries are leased: each endpoint gets one before any
/// gets two, endpoints that fail come after others, and clients with more attempts in progress after
/// those with fewer. An endpoint that got one comes after those that have waited since.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    round: usize,
    is_failing: bool,
    /// The attempts in progress of its client.
    in_progress: usize,
    waits_since: Option<Utc>,
    endpoint: i64,
    id: i64,
    is_proven: bool,
    party: Party,
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
    store.transaction_ported(lease).await
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
    let (due, left) = due_deliveries(connection, now, slots, &endpoints).await?;
    let ids = due.iter().map(|due| due.id).collect();
    let ids = dialect::lock_free(connection, "webhook_deliveries", ids).await?;
    let leased = diesel::update(table.filter(id.eq_any(ids)))
        .set((leased_until.eq(until), lease_token.eq(lease_token + 1)))
        .returning((WebhookDeliveryRow::as_select(), lease_token));
    let mut leased: Vec<(WebhookDeliveryRow, i64)> = leased.get_results(connection).await?;
    // An update returns its rows in no particular order.
    leased.sort_by_key(|(row, _)| due.iter().position(|due| due.id == row.id));
    let served = |endpoint: &i64| due.iter().any(|due| due.endpoint == *endpoint);
    let waits = |endpoint: &i64| left.contains(endpoint) && !served(endpoint);
    let put_offs = endpoints.keys().copied().filter(|endpoint| !waits(endpoint)).collect();
    put_off(connection, now, put_offs).await?;
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
    let full_parties = |is_proven: bool| {
        let full = slots.busy_parties.iter().filter(|(_, own)| !slots.has_room(**own, is_proven));
        full.map(|(party, _)| stored_party(*party)).collect::<Vec<i64>>()
    };
    let due = |is_proven: bool, limit: usize| {
        table
            .filter(disabled_at.is_null().and(due_at.le(now)).and(id.ne_all(busy(is_proven))))
            .filter(webhook_endpoints::party.ne_all(full_parties(is_proven)))
            .order((due_at, id))
            .limit(row_limit(limit))
            .select((id, TargetRow::as_select()))
    };
    let proven = due(true, slots.limit).filter(succeeded_at.is_not_null());
    let unproven = || due(false, slots.unproven.min(slots.limit));
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

/// Chooses the deliveries of endpoints that get the free slots. Returns the endpoints of the others,
/// too.
async fn due_deliveries(
    connection: &mut Connection,
    now: Utc,
    slots: &WebhookSlots,
    endpoints: &HashMap<i64, (TargetRow, State)>,
) -> Result<(Vec<Due>, Vec<i64>), Failure> {
    use webhook_deliveries::{due_at, endpoint_id, id, leased_until, table};

    let busy: HashMap<i64, usize> =
        slots.busy.iter().map(|(endpoint, free)| (endpoint.0, *free)).collect();
    let attempts_of =
        |party: i64| slots.busy_parties.get(&party_of(party)).copied().unwrap_or_default();
    let mut due: Vec<Due> = Vec::new();
    for (&endpoint, (target, state)) in endpoints {
        let is_proven = *state == State::Proven;
        let free = busy.get(&endpoint).copied().unwrap_or(slots.per_endpoint);
        let longest = table
            .filter(endpoint_id.eq(endpoint))
            .filter(waits())
            .filter(due_at.le(now))
            .filter(
                leased_until.is_null().or(leased_until.le(now)).or(leased_until.gt(farthest(now))),
            )
            .order((due_at, id))
            .limit(row_limit(if is_proven { free } else { 1 }))
            .select(id);
        let longest: Vec<i64> = longest.get_results(connection).await?;
        due.extend(longest.into_iter().enumerate().map(|(round, delivery)| Due {
            round,
            is_failing: *state == State::Failing,
            in_progress: attempts_of(target.party).all,
            waits_since: target.due_at,
            endpoint,
            id: delivery,
            is_proven,
            party: party_of(target.party),
        }));
    }
    due.sort_unstable();
    let mut slots = slots.clone();
    let mut left = Vec::new();
    due.retain(|due| {
        let own = slots.busy_parties.get(&due.party).copied().unwrap_or_default();
        let is_open = slots.has_room(own, due.is_proven);
        if is_open {
            slots.busy_parties.entry(due.party).or_default().add(1, due.is_proven);
            slots.limit -= 1;
            slots.unproven -= usize::from(!due.is_proven);
        } else {
            left.push(due.endpoint);
        }
        is_open
    });
    Ok((due, left))
}

/// Notes when the next delivery of each endpoint is due, or its lease ends. One that is due already
/// waits from now on, behind those of other endpoints. Leased deliveries are among the longest due,
/// and an endpoint has few of them.
async fn put_off(
    connection: &mut Connection,
    now: Utc,
    endpoints: Vec<i64>,
) -> Result<(), Failure> {
    let next = sql::<Nullable<Instant>>("(SELECT min(CASE WHEN leased_until > ")
        .bind::<Instant, _>(now)
        .sql(" AND leased_until <= ")
        .bind::<Instant, _>(farthest(now))
        .sql(" THEN leased_until WHEN due_at < ")
        .bind::<Instant, _>(now)
        .sql(" THEN ")
        .bind::<Instant, _>(now)
        .sql(
            " ELSE due_at END) FROM (SELECT due_at, leased_until \
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
