//! The feed of changes.

use std::sync::LazyLock;

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_query,
    sql_types::{BigInt, Bool, Nullable},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Owner,
    order::{
        OrderId,
        feed::{FeedChange, FeedCursor, FeedPage, FeedRead},
    },
    ports::{ChangeFeed, StoreError},
};
use sql_rows::{
    Instant, Utc,
    order_feed::{
        EpochRow, FORGET_ERASURES, FeedRow, IS_KEPT, Kept, Ranges::OfRows, changes, creations,
    },
    orders::party_column,
    row_limit,
    schema::order_feed_epochs,
};
use time::OffsetDateTime;

use super::list::HORIZON;
use crate::{
    failure::Failure,
    installation::identity,
    statement::{DURABLE, Prepared, columns},
    store::PostgresStore,
};

/// Maximum number of changes that get their numbers in one transaction.
const BATCH: i64 = 10_000;

/// The horizon, the newest order, the last number, whether committed changes wait for a number, and the epoch.
static STATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {HORIZON}, coalesce((SELECT max(id) FROM orders), 0), \
            (SELECT number FROM order_feed_position WHERE id = 1), \
            EXISTS (SELECT FROM order_feed WHERE number IS NULL), \
            coalesce((SELECT max(epoch) FROM order_feed_epochs), 0)"
    )
});

/// The last number before the changes of orders behind a horizon, which a reader has not seen created.
const LAST_WITHIN: [&str; 2] = [
    "SELECT coalesce((SELECT min(number) - 1 FROM order_feed WHERE order_id > ",
    " AND number IS NOT NULL), (SELECT number FROM order_feed_position WHERE id = 1))",
];

/// The newest order, and the last number that a change has had.
const PLACE: &str = "SELECT coalesce((SELECT max(id) FROM orders), 0), \
    (SELECT number FROM order_feed_position WHERE id = 1)";

/// Waits until no other transaction gives numbers. The next statement sees all that were given.
const LOCK: &str = "SELECT number FROM order_feed_position WHERE id = 1 FOR UPDATE";

/// Gives the committed changes their numbers, and counts them. Never waits for an erasure, which removes the
/// entries of its order; an order of which it has removed some gets no number at all, so that its changes stay in
/// their order if the erasure is undone.
static NUMBER: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH free AS MATERIALIZED (\
            SELECT id, order_id FROM order_feed WHERE number IS NULL AND {DURABLE} \
            ORDER BY id LIMIT {BATCH} FOR UPDATE SKIP LOCKED\
        ), numbered AS (\
            SELECT id, (SELECT number FROM order_feed_position WHERE id = 1) \
                + row_number() OVER (ORDER BY id) AS number \
            FROM free WHERE NOT EXISTS (SELECT FROM order_feed AS held \
                WHERE held.order_id = free.order_id AND held.number IS NULL AND held.id < free.id \
                AND held.id NOT IN (SELECT id FROM free))\
        ), stored AS (\
            UPDATE order_feed AS entry SET number = numbered.number FROM numbered \
            WHERE entry.id = numbered.id RETURNING numbered.number\
        ), moved AS (\
            UPDATE order_feed_position AS counter SET number = last.number \
            FROM (SELECT max(number) AS number FROM stored) AS last \
            WHERE counter.id = 1 AND last.number IS NOT NULL\
        ) SELECT count(*) FROM stored"
    )
});

/// The state of the feed.
struct State {
    horizon: OrderId,
    newest: OrderId,
    number: i64,
    has_waiting: bool,
    epoch: i64,
}

#[async_trait]
impl ChangeFeed for PostgresStore {
    async fn begin_epoch(&self, at: OffsetDateTime) -> Result<(), StoreError> {
        // Most starts write nothing.
        let next = async move |connection: &mut AsyncPgConnection| next_epoch(connection, at).await;
        if self.read(next).await?.is_none() {
            return Ok(());
        }
        let begin = async move |connection: &mut AsyncPgConnection| {
            sql_query(LOCK).execute(connection).await?;
            if let Some(next) = next_epoch(connection, at).await? {
                diesel::insert_into(order_feed_epochs::table)
                    .values(next)
                    .execute(connection)
                    .await?;
            }
            Ok(())
        };
        self.transaction(begin).await
    }

    async fn page(
        &self,
        owner: Owner,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Option<FeedPage>, StoreError> {
        let state = self.read_orders(state).await?;
        if after.created > state.newest || after.changed > state.number {
            return Ok(None);
        }
        if after.epoch != state.epoch {
            let kept = sql_query(IS_KEPT)
                .bind::<BigInt, _>(after.epoch)
                .bind::<BigInt, _>(after.created.0)
                .bind::<BigInt, _>(after.changed);
            let kept = async move |connection: &mut AsyncPgConnection| {
                let kept: Kept = Prepared(kept).get_result(connection).await?;
                Ok(kept.is_kept)
            };
            if !self.read_orders(kept).await? {
                return Ok(None);
            }
        }
        let after = FeedCursor { epoch: state.epoch, ..after };
        let has_waiting = state.has_waiting && self.number().await?;
        let horizon = state.horizon;
        let read = async move |connection: &mut AsyncPgConnection| {
            let limit = limit.saturating_add(1);
            let range = (after.created.0, horizon.0);
            let created =
                load(connection, &creations(owner.party, OfRows), owner, range, limit).await?;
            let created = created.into_iter().map(|(_, change)| change).collect();
            let range = (after.changed, i64::MAX);
            let changed =
                load(connection, &changes(owner.party, OfRows), owner, range, limit).await?;
            Ok(FeedRead { horizon, created, changed, has_waiting })
        };
        Ok(Some(FeedPage::of(after, limit, self.read_orders(read).await?)))
    }

    async fn now(&self) -> Result<FeedCursor, StoreError> {
        loop {
            let state = self.read_orders(state).await?;
            if !state.has_waiting || !self.number().await? {
                let (created, epoch) = (state.horizon, state.epoch);
                let [before, behind] = LAST_WITHIN;
                let last = sql::<BigInt>(before).bind::<BigInt, _>(created.0).sql(behind);
                let last = async move |connection: &mut AsyncPgConnection| {
                    let last: i64 = Prepared(last).get_result(connection).await?;
                    Ok(last)
                };
                let changed = self.read_orders(last).await?;
                return Ok(FeedCursor { created, changed, epoch });
            }
        }
    }

    async fn forget_erasures(
        &self,
        before: OffsetDateTime,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let forget = sql_query(FORGET_ERASURES).bind::<Instant, _>(Utc(before));
        self.execute(forget.bind::<BigInt, _>(row_limit(limit))).await
    }
}

impl PostgresStore {
    /// Gives the committed changes their numbers. Returns whether more may wait.
    async fn number(&self) -> Result<bool, StoreError> {
        let number = async |connection: &mut AsyncPgConnection| {
            sql_query(LOCK).execute(connection).await?;
            let found: i64 = Prepared(sql::<BigInt>(&NUMBER)).get_result(connection).await?;
            Ok(found >= BATCH)
        };
        self.transaction(number).await
    }
}

/// Returns the epoch that the database begins at an instant; `None` if it began the last one.
async fn next_epoch(
    connection: &mut AsyncPgConnection,
    at: OffsetDateTime,
) -> Result<Option<EpochRow>, Failure> {
    let database = identity(connection).await?;
    let last = order_feed_epochs::table.order(order_feed_epochs::epoch.desc());
    let last: Option<EpochRow> =
        last.select(columns::<EpochRow>()).first(connection).await.optional()?;
    if last.as_ref().is_some_and(|last| last.database == database) {
        return Ok(None);
    }
    let place: (i64, i64) = sql::<(BigInt, BigInt)>(PLACE).get_result(connection).await?;
    Ok(Some(EpochRow::next(last.as_ref(), database, place, at)))
}

async fn state(connection: &mut AsyncPgConnection) -> Result<State, Failure> {
    let state = sql::<(Nullable<BigInt>, BigInt, BigInt, Bool, BigInt)>(&STATE);
    let (horizon, newest, number, has_waiting, epoch): (Option<i64>, i64, i64, bool, i64) =
        Prepared(state).get_result(connection).await?;
    let horizon = OrderId(horizon.unwrap_or(newest).min(newest));
    Ok(State { horizon, newest: OrderId(newest), number, has_waiting, epoch })
}

/// Reads changes of an owner with a place in a range, without its start.
async fn load(
    connection: &mut AsyncPgConnection,
    statement: &str,
    owner: Owner,
    (after, last): (i64, i64),
    limit: usize,
) -> Result<Vec<(i64, FeedChange)>, Failure> {
    let query = sql_query(statement)
        .bind::<BigInt, _>(party_column(owner.party).1)
        .bind::<Bool, _>(owner.is_test)
        .bind::<BigInt, _>(after)
        .bind::<BigInt, _>(last)
        .bind::<BigInt, _>(row_limit(limit));
    let rows: Vec<FeedRow> = Prepared(query).get_results(connection).await?;
    Ok(rows.into_iter().map(FeedRow::into_change).collect())
}
