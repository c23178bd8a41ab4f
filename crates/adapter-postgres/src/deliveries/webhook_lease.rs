//! The statement that leases webhook deliveries.

use diesel::{
    QueryableByName, sql_query,
    sql_types::{Array, BigInt, Timestamptz},
};
use domain::ports::{StoreError, WebhookLease, WebhookSlots};
use sql_rows::{TargetRow, WebhookDeliveryRow, row_limit, schema::webhook_deliveries};
use time::{Duration, OffsetDateTime};

use crate::{failure::Failure, statement::column, store::PostgresStore};

/// Leases in these steps:
///
/// 1. `waiting`: walks over the endpoints with deliveries that wait, by one index lookup for each.
/// 2. `open`: leaves out disabled and removed ones, and tells how many deliveries each may get.
/// 3. `due`: locks the longest due deliveries of each.
/// 4. `ranked`, `chosen`: each endpoint gets one before any gets two, and endpoints that fail come
///    after others.
///
/// The commit does not wait for the disk: after a crash, a delivery whose lease was lost is only
/// attempted again.
const LEASE: &str = "WITH RECURSIVE waiting (endpoint) AS (\
        (SELECT endpoint_id FROM webhook_deliveries \
            WHERE delivered_at IS NULL AND failed_at IS NULL ORDER BY endpoint_id LIMIT 1) \
        UNION ALL SELECT (SELECT endpoint_id FROM webhook_deliveries \
            WHERE delivered_at IS NULL AND failed_at IS NULL \
            AND endpoint_id > waiting.endpoint ORDER BY endpoint_id LIMIT 1) \
        FROM waiting WHERE waiting.endpoint IS NOT NULL\
    ), open AS MATERIALIZED (\
        SELECT e.id, e.succeeded_at IS NOT NULL AS is_proven, \
            e.failed_at IS NOT NULL AS is_failing, \
            CASE WHEN e.succeeded_at IS NOT NULL THEN coalesce(busy.free, $5) \
                WHEN busy.endpoint IS NULL THEN 1 ELSE 0 END AS free \
        FROM waiting JOIN webhook_endpoints AS e ON e.id = waiting.endpoint \
        LEFT JOIN unnest($6, $7) AS busy (endpoint, free) ON busy.endpoint = e.id \
        WHERE e.disabled_at IS NULL\
    ), due AS MATERIALIZED (\
        SELECT open.id AS endpoint, open.is_proven, open.is_failing, longest.id, longest.due_at \
        FROM open CROSS JOIN LATERAL (\
            SELECT id, due_at FROM webhook_deliveries \
            WHERE endpoint_id = open.id AND delivered_at IS NULL AND failed_at IS NULL \
            AND due_at <= $1 AND (leased_until IS NULL OR leased_until <= $1) \
            ORDER BY due_at, id LIMIT open.free FOR UPDATE SKIP LOCKED\
        ) AS longest\
    ), shared AS (\
        SELECT id, due_at, is_proven, is_failing, \
            row_number() OVER (PARTITION BY endpoint ORDER BY due_at, id) AS round FROM due\
    ), ranked AS (\
        SELECT id, due_at, is_proven, is_failing, round, row_number() OVER \
            (PARTITION BY is_proven ORDER BY round, is_failing, due_at, id) AS rank FROM shared\
    ), chosen AS (\
        SELECT id FROM ranked WHERE is_proven OR rank <= $4 \
        ORDER BY round, is_failing, due_at, id LIMIT $3\
    ), leased AS (\
        UPDATE webhook_deliveries SET leased_until = $2, lease_token = lease_token + 1 \
        WHERE id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING *\
    ) SELECT leased.id, leased.endpoint_id, leased.order_id, leased.created_at, leased.due_at, \
        leased.delivered_at, leased.failed_at, leased.failures, leased.event, leased.message_key, \
        leased.attempts, leased.lease_token, e.client_id, e.url, e.secret, e.previous_secret, \
        e.previous_until, e.succeeded_at \
    FROM leased JOIN webhook_endpoints AS e ON e.id = leased.endpoint_id \
    WHERE (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL";

#[derive(QueryableByName)]
#[diesel(table_name = webhook_deliveries)]
struct LeasedRow {
    #[diesel(embed)]
    delivery: WebhookDeliveryRow,
    lease_token: i64,
    #[diesel(embed)]
    target: TargetRow,
}

pub(crate) async fn lease(
    store: &PostgresStore,
    now: OffsetDateTime,
    lease_for: Duration,
    slots: &WebhookSlots,
) -> Result<Vec<WebhookLease>, StoreError> {
    let lease = sql_query(LEASE)
        .bind::<Timestamptz, _>(now)
        .bind::<Timestamptz, _>(now.saturating_add(lease_for))
        .bind::<BigInt, _>(row_limit(slots.limit))
        .bind::<BigInt, _>(row_limit(slots.unproven))
        .bind::<BigInt, _>(row_limit(slots.per_endpoint))
        .bind::<Array<BigInt>, _>(column(&slots.busy, |(endpoint, _)| endpoint.0))
        .bind::<Array<BigInt>, _>(column(&slots.busy, |(_, free)| row_limit(*free)));
    let mut rows: Vec<LeasedRow> = store.pool.rows(lease).await?;
    // An update returns its rows in no particular order.
    rows.sort_by_key(|row| row.delivery.order());
    let leases = rows.into_iter().map(|row| row.delivery.into_lease(row.lease_token, row.target));
    Ok(leases.collect::<Result<_, _>>().map_err(Failure::from)?)
}
