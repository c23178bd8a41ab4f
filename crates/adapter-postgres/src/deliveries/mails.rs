//! The queue of mails.

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_query,
    sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    delivery::{Delivery, DeliveryId, MailSubject, Recipient},
    order::OrderId,
    ports::{Attempted, Begun, DeliveryQueue, FoundOrder, Lease, QueueStats, Retried, StoreError},
};
use sql_rows::{
    Instant, Utc,
    deliveries::{
        DeliveryRow, MAIL_STATS, MailStats, RetriedDelivery, UnsuccessfulAttempt, far_mails,
        listed_mails, mail_stats, retried, unleased_mail,
    },
    instant::{farthest, farthest_due},
    order_recipients::{RecipientRow, recipients_of},
    recipient_mails::{REMOVED_COUNTS, counted_hours},
    row_limit,
    schema::deliveries,
};
use time::{Duration, OffsetDateTime};

use crate::{
    locks,
    orders::read::find_each,
    statement::{DURABLE, IdRow, column},
    store::PostgresStore,
};

#[async_trait]
impl DeliveryQueue for PostgresStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        lease(self, now, lease_for, limit).await
    }

    /// Other instances may hold any lease, and none lasts long.
    async fn end_dead_leases(&self, _: OffsetDateTime) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn renew(
        &self,
        leases: &[(DeliveryId, i64)],
        until: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let renew = sql_query(RENEW)
            .bind::<Array<BigInt>, _>(column(leases, |(id, _)| id.0))
            .bind::<Array<BigInt>, _>(column(leases, |(_, token)| *token))
            .bind::<Timestamptz, _>(until);
        self.execute(renew).await.map(drop)
    }

    async fn begin(
        &self,
        mails: &[(DeliveryId, OffsetDateTime)],
        now: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<Begun>, StoreError> {
        let (hour, hour_before) = counted_hours(now);
        let begin = sql_query(begin_statement())
            .bind::<Array<BigInt>, _>(column(mails, |(id, _)| id.0))
            .bind::<Array<Timestamptz>, _>(column(mails, |(_, version)| *version))
            .bind::<BigInt, _>(i64::from(limit))
            .bind::<Timestamptz, _>(hour)
            .bind::<Timestamptz, _>(hour_before)
            .bind::<BigInt, _>(REMOVED_COUNTS);
        let mails = self.pool.all(begin, |row: BegunRow| {
            Ok(Begun {
                id: DeliveryId(row.id),
                mail_of_hour: row.mail_of_hour.map(i64::unsigned_abs),
                sequence: row.sequence.map(|number| u32::try_from(number).unwrap_or(u32::MAX)),
            })
        });
        Ok(mails.await?)
    }

    async fn told(&self, orders: &[OrderId]) -> Result<Vec<Recipient>, StoreError> {
        let orders = column(orders, |id| id.0);
        self.select(recipients_of(orders), |row: RecipientRow| Ok(row.into_recipient())).await
    }

    async fn orders(&self, ids: &[OrderId]) -> Result<Vec<FoundOrder>, StoreError> {
        self.read(async |connection| find_each(connection, ids).await).await
    }

    async fn settle(&self, attempted: &[Attempted]) -> Result<Vec<DeliveryId>, StoreError> {
        settle(self, attempted).await
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let listed = listed_mails(failed).limit(row_limit(limit));
        self.select(listed, DeliveryRow::into_delivery).await
    }

    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<Retried, StoreError> {
        let retry = async move |connection: &mut AsyncPgConnection| {
            let retry = diesel::update(unleased_mail(id, now)).set(RetriedDelivery::at(now));
            let changed = retry.execute(connection).await?;
            let found: i64 = deliveries::table.find(id.0).count().get_result(connection).await?;
            Ok(retried(changed, found))
        };
        self.transaction(retry).await
    }

    async fn bring_forward(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        let bring_forward = async move |connection: &mut AsyncPgConnection| {
            let far = far_mails(now).limit(row_limit(limit));
            let far: Vec<i64> = far.get_results(connection).await?;
            let far = locks::lock_free(connection, "deliveries", far).await?;
            // Another instance may have brought one forward and postponed it meanwhile.
            let far = deliveries::table
                .filter(deliveries::id.eq_any(far))
                .filter(deliveries::due_at.gt(farthest_due(Utc(now))));
            let forward = diesel::update(far).set(deliveries::due_at.eq(Utc(now)));
            Ok(forward.execute(connection).await?)
        };
        self.transaction(bring_forward).await
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        let stats = async |connection: &mut AsyncPgConnection| {
            let stats = sql::<MailStats>(MAIL_STATS);
            Ok(mail_stats(stats.get_result(connection).await?))
        };
        self.read(stats).await
    }
}

/// Takes the deliveries that have been due longest. PostgreSQL may run a subquery that locks rows more
/// than once, but a common table expression only once. With an array, the plan is a lookup of each row,
/// however many the limit may be.
///
/// The commit does not wait for the disk: after a crash, a delivery whose lease was lost is only
/// attempted again.
const LEASE: &str = "WITH due AS (\
        SELECT id FROM deliveries WHERE failed_at IS NULL AND due_at <= $1 AND subject = ANY ($5) \
        AND (leased_until IS NULL OR leased_until <= $1 OR leased_until > $4) \
        ORDER BY due_at, id LIMIT $2 FOR UPDATE SKIP LOCKED\
    ) UPDATE deliveries SET leased_until = $3, lease_token = lease_token + 1 \
    WHERE id = ANY (ARRAY(SELECT id FROM due)) \
        AND (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL \
    RETURNING *";

/// Moves the ends of leases that are still held. Locks them by identifier, as settling does.
const RENEW: &str = "WITH held AS (\
        SELECT d.id FROM unnest($1, $2) AS a (id, token) \
        JOIN deliveries AS d ON d.id = a.id AND d.lease_token = a.token \
        WHERE d.leased_until IS NOT NULL ORDER BY d.id FOR UPDATE OF d\
    ) UPDATE deliveries SET leased_until = $3 WHERE id = ANY (ARRAY(SELECT id FROM held))";

/// Settles the deliveries whose leases are still held. Locks them by identifier, so that two
/// workers never deadlock. A delivery without an error is done.
fn settle_statement() -> String {
    format!(
        "WITH held AS (\
            SELECT d.id, a.attempts, a.unknown, a.over_limit, a.due_at, a.failed_at, a.last_error \
            FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) \
            AS a (id, token, attempts, unknown, over_limit, due_at, failed_at, last_error) \
            JOIN deliveries AS d ON d.id = a.id AND d.lease_token = a.token \
            WHERE d.leased_until IS NOT NULL ORDER BY d.id FOR UPDATE OF d\
        ), done AS (\
            DELETE FROM deliveries \
            WHERE id = ANY (ARRAY(SELECT id FROM held WHERE last_error IS NULL))\
        ), failed AS (\
            UPDATE deliveries AS d SET leased_until = NULL, attempts = d.attempts + held.attempts, \
                unknown_outcomes = d.unknown_outcomes + held.unknown, \
                over_limit = held.over_limit, \
                due_at = coalesce(held.due_at, d.due_at), failed_at = held.failed_at, \
                last_error = held.last_error \
            FROM held WHERE d.id = held.id \
            AND d.id = ANY (ARRAY(SELECT id FROM held WHERE last_error IS NOT NULL))\
        ) SELECT id FROM held WHERE {DURABLE}"
    )
}

/// Counts mails, and remembers the recipients of those that may leave. Removes the mails that these tell, and counts of
/// past hours. Passes over locked orders: their state is about to change, and an erasure would leave the addresses.
/// PostgreSQL keeps a plan from when the queue was short: a join in `told` would read a long one whole for each mail.
fn begin_statement() -> String {
    format!(
        "WITH mail AS (\
            SELECT d.id, order_id, recipient, to_service, version, place, subject, unknown_outcomes, \
                CASE WHEN subject IN ({whole}) THEN version END AS changes_told_at, \
                NOT to_service AND (last_error IS NULL OR over_limit) AS counts \
            FROM unnest($1, $2) WITH ORDINALITY AS a (id, version, place) \
            JOIN deliveries AS d ON d.id = a.id\
        ), held AS (\
            SELECT id, updated_at, coalesce(calendar_sequence, changes) AS sequence FROM orders \
            WHERE id = ANY (ARRAY(SELECT order_id FROM mail)) AND erased_at IS NULL ORDER BY id FOR SHARE SKIP LOCKED\
        ), first AS (\
            SELECT id, client_id, recipient, count(*) OVER (PARTITION BY client_id, recipient) \
                - row_number() OVER (PARTITION BY client_id, recipient ORDER BY place) AS later \
            FROM (SELECT mail.id, place, coalesce(client_id, 0) AS client_id, \
                    sha256(convert_to(lower(recipient), 'UTF8')) AS recipient \
                FROM mail LEFT JOIN orders ON orders.id = order_id WHERE counts) AS hashed\
        ), counted AS (\
            INSERT INTO recipient_mails (hour, client_id, recipient, mails) \
            SELECT $4, client_id, recipient, count(*) FROM first \
            GROUP BY client_id, recipient ORDER BY client_id, recipient \
            ON CONFLICT (hour, client_id, recipient) DO UPDATE \
            SET mails = recipient_mails.mails + excluded.mails RETURNING client_id, recipient, mails\
        ), past AS (\
            SELECT hour, client_id, recipient FROM recipient_mails WHERE hour < $5 LIMIT $6 \
            FOR UPDATE SKIP LOCKED\
        ), removed AS (\
            DELETE FROM recipient_mails \
            WHERE (hour, client_id, recipient) IN (SELECT hour, client_id, recipient FROM past)\
        ), begun AS (\
            SELECT mail.*, mails - later AS mail_of_hour, held.id IS NOT NULL AS is_current, \
                held.sequence \
            FROM mail LEFT JOIN first USING (id) \
            LEFT JOIN counted ON counted.client_id = first.client_id \
                AND counted.recipient = first.recipient \
            LEFT JOIN held ON held.id = order_id AND held.updated_at = version\
        ), leaving AS (\
            SELECT * FROM begun \
            WHERE is_current AND ($3 = 0 OR mail_of_hour IS NULL OR mail_of_hour <= $3)\
        ), told AS (\
            SELECT id FROM deliveries AS d \
            WHERE order_id = ANY (ARRAY(SELECT order_id FROM leaving \
                    WHERE changes_told_at IS NOT NULL AND unknown_outcomes = 0)) \
                AND subject = '{changed}' AND leased_until IS NULL AND failed_at IS NULL \
                AND EXISTS (SELECT FROM leaving AS l WHERE l.order_id = d.order_id \
                    AND lower(l.recipient) = lower(d.recipient) AND l.to_service = d.to_service \
                    AND l.changes_told_at IS NOT NULL AND l.unknown_outcomes = 0 \
                    AND (l.subject <> '{changed}' OR d.id > l.id)) \
            FOR UPDATE SKIP LOCKED\
        ), removed_told AS (\
            DELETE FROM deliveries WHERE id = ANY (ARRAY(SELECT id FROM told))\
        ), remembered AS (\
            INSERT INTO order_recipients AS known (order_id, recipient, to_service, changes_told_at) \
            SELECT order_id, recipient, bool_or(to_service), max(changes_told_at) FROM leaving \
            GROUP BY order_id, recipient ORDER BY order_id, recipient \
            ON CONFLICT (order_id, recipient) DO UPDATE SET changes_told_at = excluded.changes_told_at \
            WHERE excluded.changes_told_at > coalesce(known.changes_told_at, '-infinity')\
        ) SELECT id, mail_of_hour, sequence FROM begun WHERE {DURABLE}",
        changed = MailSubject::Changed.as_str(),
        whole = MailSubject::WHOLE.map(|subject| format!("'{}'", subject.as_str())).join(", "),
    )
}

#[derive(QueryableByName)]
struct BegunRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    mail_of_hour: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    sequence: Option<i64>,
}

#[derive(QueryableByName)]
#[diesel(table_name = deliveries)]
struct LeasedRow {
    #[diesel(embed)]
    delivery: DeliveryRow,
    lease_token: i64,
}

async fn lease(
    store: &PostgresStore,
    now: OffsetDateTime,
    lease_for: Duration,
    limit: usize,
) -> Result<Vec<Lease>, StoreError> {
    let lease = sql_query(LEASE)
        .bind::<Timestamptz, _>(now)
        .bind::<BigInt, _>(row_limit(limit))
        .bind::<Timestamptz, _>(now.saturating_add(lease_for))
        .bind::<Instant, _>(farthest(Utc(now)))
        // Those of another version of the service wait for it.
        .bind::<Array<Text>, _>(MailSubject::ALL.map(MailSubject::as_str).to_vec());
    let leased = store.pool.all(lease, |row: LeasedRow| {
        Ok(Lease { delivery: row.delivery.into_delivery()?, token: row.lease_token })
    });
    let mut leased = leased.await?;
    // An update returns its rows in no particular order.
    leased.sort_by_key(|lease| (lease.delivery.due_at, lease.delivery.id.0));
    Ok(leased)
}

async fn settle(
    store: &PostgresStore,
    attempted: &[Attempted],
) -> Result<Vec<DeliveryId>, StoreError> {
    let failed: Vec<_> =
        attempted.iter().map(|one| UnsuccessfulAttempt::of(&one.settlement)).collect();
    let changes = column(&failed, |one| one.as_ref().map(|(change, _)| change));
    let counts = column(&failed, |one| one.as_ref().map_or([0, 0], |(_, counts)| *counts));
    let settle = sql_query(settle_statement())
        .bind::<Array<BigInt>, _>(column(attempted, |one| one.id.0))
        .bind::<Array<BigInt>, _>(column(attempted, |one| one.token))
        .bind::<Array<Integer>, _>(column(&counts, |counts| counts[0]))
        .bind::<Array<Integer>, _>(column(&counts, |counts| counts[1]))
        .bind::<Array<Bool>, _>(column(&changes, |c| c.is_some_and(|c| c.over_limit)))
        .bind::<Array<Nullable<Instant>>, _>(column(&changes, |c| c.and_then(|c| c.due_at)))
        .bind::<Array<Nullable<Instant>>, _>(column(&changes, |c| c.and_then(|c| c.failed_at)))
        .bind::<Array<Nullable<Text>>, _>(column(&changes, |c| c.map(|c| &*c.last_error)));
    Ok(store.pool.all(settle, |IdRow { id }| Ok(DeliveryId(id))).await?)
}
