//! The feed of changes. One process writes at a time, so identifiers are committed in their order.

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_query,
    sql_types::{BigInt, Bool},
    sqlite::SqliteConnection,
};
use domain::{
    api_key::Owner,
    installation::is_same_database,
    order::{
        OrderId,
        feed::{FeedChange, FeedCursor, FeedPage, FeedRead},
    },
    ports::{ChangeFeed, StoreError},
};
use sql_rows::{
    Instant, Prepared, Utc,
    order_feed::{
        EpochRow, FORGET_ERASURES, FeedRow, IS_KEPT, Kept, Ranges::OfColumns, changes, creations,
    },
    orders::party_column,
    row_limit,
    schema::order_feed_epochs,
};
use time::OffsetDateTime;

use crate::{
    failure::Failure,
    store::{SqliteStore, columns},
};

/// The newest order, the last number that a change has had, also if its entry is removed, and the epoch.
const NOW: &str = "SELECT coalesce((SELECT max(id) FROM orders), 0), \
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'order_feed'), 0), \
    coalesce((SELECT max(epoch) FROM order_feed_epochs), 0)";

#[async_trait]
impl ChangeFeed for SqliteStore {
    async fn begin_epoch(&self, at: OffsetDateTime) -> Result<(), StoreError> {
        let database = self.database.clone();
        let next = move |connection: &mut SqliteConnection| {
            next_epoch(connection, database.describe_file()?, at)
        };
        // Most starts write nothing.
        if self.read(next.clone()).await?.is_none() {
            return Ok(());
        }
        let begin = move |connection: &mut SqliteConnection| {
            if let Some(next) = next(connection)? {
                diesel::insert_into(order_feed_epochs::table).values(next).execute(connection)?;
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
        self.read_orders(move |connection| page(connection, owner, after, limit)).await
    }

    async fn now(&self) -> Result<FeedCursor, StoreError> {
        self.read_orders(now).await
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

fn now(connection: &mut SqliteConnection) -> Result<FeedCursor, Failure> {
    let now = Prepared(sql::<(BigInt, BigInt, BigInt)>(NOW));
    let (created, changed, epoch): (i64, i64, i64) = now.get_result(connection)?;
    Ok(FeedCursor { created: OrderId(created), changed, epoch })
}

/// Returns the epoch that the database begins at an instant; `None` if it began the last one.
fn next_epoch(
    connection: &mut SqliteConnection,
    database: String,
    at: OffsetDateTime,
) -> Result<Option<EpochRow>, Failure> {
    let last = order_feed_epochs::table.order(order_feed_epochs::epoch.desc());
    let last: Option<EpochRow> = last.select(columns::<EpochRow>()).first(connection).optional()?;
    if last.as_ref().is_some_and(|last| is_same_database(&last.database, &database)) {
        return Ok(None);
    }
    let FeedCursor { created, changed, .. } = now(connection)?;
    Ok(Some(EpochRow::next(last.as_ref(), database, (created.0, changed), at)))
}

/// Returns a page of an owner's changes. All it reads is of one instant.
pub(crate) fn page(
    connection: &mut SqliteConnection,
    owner: Owner,
    after: FeedCursor,
    limit: usize,
) -> Result<Option<FeedPage>, Failure> {
    let now = now(connection)?;
    if after.created > now.created || after.changed > now.changed {
        return Ok(None);
    }
    if after.epoch != now.epoch {
        let kept = sql_query(IS_KEPT)
            .bind::<BigInt, _>(after.epoch)
            .bind::<BigInt, _>(after.created.0)
            .bind::<BigInt, _>(after.changed);
        let kept: Kept = Prepared(kept).get_result(connection)?;
        if !kept.is_kept {
            return Ok(None);
        }
    }
    let after = FeedCursor { epoch: now.epoch, ..after };
    let one_more = limit.saturating_add(1);
    let range = (after.created.0, now.created.0);
    let created = load(connection, &creations(owner.party, OfColumns), owner, range, one_more)?;
    let range = (after.changed, now.changed);
    let changed = load(connection, &changes(owner.party, OfColumns), owner, range, one_more)?;
    let created = created.into_iter().map(|(_, change)| change).collect();
    let read = FeedRead { horizon: now.created, created, changed, has_waiting: false };
    Ok(Some(FeedPage::of(after, limit, read)))
}

/// Reads changes of an owner with a place in a range, without its start.
fn load(
    connection: &mut SqliteConnection,
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
    let rows: Vec<FeedRow> = Prepared(query).get_results(connection)?;
    Ok(rows.into_iter().map(FeedRow::into_change).collect())
}
