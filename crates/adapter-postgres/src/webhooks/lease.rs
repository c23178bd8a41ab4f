//! Leases webhook deliveries.

use diesel::{
    prelude::*,
    sql_query,
    sql_types::{Array, BigInt, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    ports::{WebhookLease, WebhookSlots},
    webhook::EventType,
};
use sql_rows::{
    IdRow, Instant, Prepared, Utc,
    instant::farthest,
    row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    webhook_deliveries::{
        WebhookDeliveryRow,
        lease::{
            IsFree, LOOKED_AT, NextDue, UNREADABLE_DELAY, Waiting, chosen, full_parties, leases,
            put_offs,
        },
    },
    webhook_endpoints::{TargetRow, due_endpoints},
};
use time::{Duration, OffsetDateTime};

use crate::{
    failure::Failure,
    locks,
    statement::{DURABLE, columns},
};

/// The due deliveries of each endpoint, as many as it may get besides its leased ones. With arrays,
/// the plan is a lookup of each endpoint, however many there are.
const DUE: &str = "SELECT due.id, due.endpoint_id FROM unnest($1, $2) AS e (id, attempts) \
    CROSS JOIN LATERAL (\
        SELECT d.id, d.endpoint_id FROM webhook_deliveries AS d WHERE d.endpoint_id = e.id \
        AND d.delivered_at IS NULL AND d.failed_at IS NULL AND d.due_at <= $3 \
        AND (d.leased_until IS NULL OR d.leased_until <= $3 OR d.leased_until > $4) \
        AND d.event = ANY ($5) ORDER BY d.due_at, d.id LIMIT greatest(0, e.attempts - (\
            SELECT count(*) FROM webhook_deliveries AS d WHERE d.endpoint_id = e.id \
            AND d.leased_until > $3 AND d.leased_until <= $4))\
    ) AS due";

#[derive(QueryableByName)]
struct DueRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = BigInt)]
    endpoint_id: i64,
}

/// A lease need not be durable: without it, the delivery is attempted again.
pub(super) async fn lease_due(
    connection: &mut AsyncPgConnection,
    now: OffsetDateTime,
    lease_for: Duration,
    slots: &WebhookSlots,
) -> Result<Vec<WebhookLease>, Failure> {
    use webhook_deliveries::{body, id, lease_token, leased_until, table};

    let (until, now) = (Utc(now.saturating_add(lease_for)), Utc(now));
    let waiting = waiting(connection, now, slots).await?;
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let chosen = chosen(&waiting, slots);
    let ids = locks::lock_free(connection, "webhook_deliveries", chosen.clone()).await?;
    let put_offs = put_offs(&waiting, &ids);
    let taken = diesel::update(table.filter(id.eq_any(ids)))
        .set((leased_until.eq(until), lease_token.eq(lease_token + 1)))
        .returning((columns::<WebhookDeliveryRow>(), lease_token, body));
    let rows: Vec<(WebhookDeliveryRow, i64, Option<String>)> =
        taken.get_results(connection).await?;
    let (leases, unreadable) = leases(rows, waiting, &chosen);
    if !unreadable.is_empty() {
        let later = Utc(now.0.saturating_add(UNREADABLE_DELAY));
        diesel::update(table.filter(id.eq_any(unreadable)))
            .set((leased_until.eq(None::<Utc>), webhook_deliveries::due_at.eq(later)))
            .execute(connection)
            .await?;
    }
    put_off(connection, now, put_offs).await?;
    Ok(leases)
}

/// Looks up the endpoints that have waited longest, and what they may get, and locks them. Leaves
/// those to another instance that it has locked.
async fn waiting(
    connection: &mut AsyncPgConnection,
    now: Utc,
    slots: &WebhookSlots,
) -> Result<Vec<Waiting>, Failure> {
    use webhook_endpoints::succeeded_at;

    let due = |is_proven, free: usize| {
        due_endpoints(now, full_parties(slots, is_proven))
            .limit(row_limit(free.min(slots.limit).min(LOOKED_AT)))
            .select(columns::<TargetRow>())
            .for_update()
            .skip_locked()
    };
    let proven = due(true, slots.limit).filter(succeeded_at.is_not_null());
    let unproven = due(false, slots.unproven).filter(succeeded_at.is_null());
    let mut targets: Vec<TargetRow> = proven.get_results(connection).await?;
    let unproven: Vec<TargetRow> = unproven.get_results(connection).await?;
    targets.extend(unproven);
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let (ids, attempts): (Vec<i64>, Vec<i64>) =
        targets.iter().map(|target| (target.id, row_limit(target.attempts()))).unzip();
    let due = sql_query(DUE)
        .bind::<Array<BigInt>, _>(ids)
        .bind::<Array<BigInt>, _>(attempts)
        .bind::<Instant, _>(now)
        .bind::<Instant, _>(farthest(now))
        .bind::<Array<Text>, _>(EventType::ALL.map(EventType::as_str).to_vec());
    let due: Vec<DueRow> = Prepared(due).get_results(connection).await?;
    let of = |endpoint| {
        let own = due.iter().filter(move |row| row.endpoint_id == endpoint);
        own.map(|row| row.id).collect()
    };
    Ok(targets.into_iter().map(|target| Waiting { due: of(target.id), target }).collect())
}

/// Notes when endpoints that are locked have something to do next.
pub(super) async fn put_off(
    connection: &mut AsyncPgConnection,
    now: Utc,
    endpoints: Vec<i64>,
) -> Result<(), Failure> {
    let endpoints = webhook_endpoints::table.filter(webhook_endpoints::id.eq_any(endpoints));
    let put_off = diesel::update(endpoints).set(webhook_endpoints::due_at.eq(NextDue::at(now)));
    Prepared(put_off).execute(connection).await?;
    Ok(())
}

/// Locks endpoints by identifier, so that two calls never deadlock, and returns those that there are.
/// Makes the commit durable.
pub(super) async fn lock(
    connection: &mut AsyncPgConnection,
    endpoints: &[i64],
) -> Result<Vec<i64>, Failure> {
    let lock = format!(
        "SELECT id FROM webhook_endpoints WHERE id = ANY ($1) AND {DURABLE} ORDER BY id FOR UPDATE"
    );
    let lock = sql_query(lock).bind::<Array<BigInt>, _>(endpoints);
    let locked: Vec<IdRow> = Prepared(lock).get_results(connection).await?;
    Ok(locked.into_iter().map(|row| row.id).collect())
}

/// Notes that endpoints have deliveries that are due at an instant. Locks them first: an update would
/// pass over one that a lease is about to put off. Returns those that there are. One that may have no
/// other attempt now is due when an attempt ends.
pub(crate) async fn wake(
    connection: &mut AsyncPgConnection,
    endpoints: &[i64],
    at: Utc,
) -> Result<Vec<i64>, Failure> {
    let locked = lock(connection, endpoints).await?;
    let is_later = webhook_endpoints::due_at.is_null().or(webhook_endpoints::due_at.gt(at));
    let later = webhook_endpoints::table.filter(webhook_endpoints::id.eq_any(locked.clone()));
    let wake = diesel::update(later.filter(is_later.and(IsFree::at(at))))
        .set(webhook_endpoints::due_at.eq(at));
    Prepared(wake).execute(connection).await?;
    Ok(locked)
}
