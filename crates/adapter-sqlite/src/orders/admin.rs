//! What an operator does with orders.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_query,
    sql_types::{Bool, Integer, Text},
    sqlite::SqliteConnection,
};
use domain::{
    document::ObjectKey,
    order::{OrderId, StoredOrder, record::ADDRESSES},
    ports::{Kept, ListedOrder, OrderAdmin, OrderFilter, StoreError},
};
use sql_rows::{
    Utc, row_limit,
    schema::{deliveries, documents, events, orders, uploads},
};
use time::OffsetDateTime;

use super::{pages, read};
use crate::{
    database::{Access, Database, OpenError},
    failure::Failure,
    store::SqliteStore,
};

/// Orders whose addresses one transaction looks at. No index has addresses.
const SEARCHED: i64 = 20_000;

#[async_trait]
impl OrderAdmin for SqliteStore {
    async fn list(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<ListedOrder>, StoreError> {
        let mut before = before.map_or(i64::MAX, |id| id.0);
        let mut listed = Vec::new();
        loop {
            let (filter, left) = (filter.clone(), limit - listed.len());
            let (found, searched_to) =
                self.query(move |connection| search(connection, &filter, before, left)).await?;
            listed.extend(found);
            match searched_to {
                Some(id) if listed.len() < limit => before = id,
                _ => return Ok(listed),
            }
        }
    }

    async fn order(&self, id: OrderId) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        self.read(async move |connection| read::find(connection, None, id).await).await
    }

    async fn created_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        self.query(move |connection| created_before(connection, Utc(instant), limit)).await
    }

    async fn erase(
        &self,
        id: OrderId,
        at: OffsetDateTime,
    ) -> Result<Option<Vec<ObjectKey>>, StoreError> {
        self.write(move |connection| erase(connection, id, Utc(at))).await
    }
}

/// Returns up to `limit` orders before an identifier, newest first, and the identifier at which the
/// search for an address goes on.
pub(crate) fn search(
    connection: &mut SqliteConnection,
    filter: &OrderFilter,
    before: i64,
    limit: usize,
) -> Result<(Vec<ListedOrder>, Option<i64>), Failure> {
    let mut matching = pages::kept_orders(filter.client, filter.file_number.as_deref())
        .filter(orders::id.lt(before));
    let mut searched_from = None;
    if let Some(email) = &filter.email {
        let last = orders::table.filter(orders::id.lt(before)).order(orders::id.desc());
        let last: Option<i64> = last.select(orders::id).first(connection).optional()?;
        searched_from = last.map(|last| last.saturating_sub(SEARCHED));
        let addresses =
            ADDRESSES.map(|path| format!("lower(details ->> '$.{}')", path.join("."))).join(", ");
        let has_address = sql::<Bool>("")
            .bind::<Text, _>(email.to_ascii_lowercase())
            .sql(&format!(" IN ({addresses})"));
        matching =
            matching.filter(orders::id.ge(searched_from.unwrap_or(before))).filter(has_address);
    }
    Ok((pages::load(connection, matching, true, limit)?, searched_from))
}

/// Reads the oldest orders of each client, because the indexes of orders begin with the client.
pub(crate) fn created_before(
    connection: &mut SqliteConnection,
    instant: Utc,
    limit: usize,
) -> Result<Vec<OrderId>, Failure> {
    let (mut found, mut client) = (Vec::new(), i64::MIN);
    loop {
        let next = pages::kept_orders(None, None)
            .filter(orders::client_id.gt(client))
            .order(orders::client_id)
            .select(orders::client_id)
            .first(connection);
        let Some(next) = next.optional()? else { break };
        client = next;
        let oldest: Vec<(Utc, i64)> = pages::kept_orders(None, None)
            .filter(orders::client_id.eq(client))
            .filter(orders::created_at.lt(instant))
            .order((orders::created_at, orders::id))
            .limit(row_limit(limit))
            .select((orders::created_at, orders::id))
            .load(connection)?;
        found.extend(oldest);
    }
    found.sort_unstable();
    Ok(found.into_iter().take(limit).map(|(_, id)| OrderId(id)).collect())
}

fn erase(
    connection: &mut SqliteConnection,
    id: OrderId,
    at: Utc,
) -> Result<Option<Vec<ObjectKey>>, Failure> {
    let kept = orders::table.find(id.0).filter(orders::erased_at.is_null());
    let erased = (
        orders::details.eq("{}"),
        orders::file_number.eq(""),
        orders::holds_file_number.eq(false),
        orders::starts_at.eq(None::<Utc>),
        orders::ends_at.eq(None::<Utc>),
        orders::erased_at.eq(at),
    );
    if diesel::update(kept).set(erased).execute(connection)? == 0 {
        return Ok(None);
    }
    let keys: Vec<String> = diesel::delete(documents::table.filter(documents::order_id.eq(id.0)))
        .returning(documents::key)
        .get_results(connection)?;
    for key in &keys {
        let row = (uploads::key.eq(key), uploads::recorded_at.eq(at), uploads::condemned.eq(true));
        diesel::insert_into(uploads::table).values(row).execute(connection)?;
    }
    diesel::delete(events::table.filter(events::order_id.eq(id.0))).execute(connection)?;
    diesel::delete(deliveries::table.filter(deliveries::order_id.eq(id.0))).execute(connection)?;
    Ok(Some(keys.into_iter().map(ObjectKey::from_stored).collect()))
}

/// Time for attempts to empty the log. SQLite waits as long for a reader, but not for a commit that
/// copies the log.
const EMPTYING_TIME: Duration = Duration::from_secs(3);

#[derive(QueryableByName)]
struct Checkpoint {
    #[diesel(sql_type = Integer)]
    busy: i32,
}

/// Moves the write-ahead log of the database at `path` into its file and empties it, so that
/// neither has anything of orders that were erased. Other processes may use the database. Returns
/// `false` if one of them kept the log in use for some seconds; nothing is lost then.
///
/// Blocks for as long as the disk needs.
///
/// # Errors
/// The database cannot be opened.
pub fn empty_log(path: &Path) -> Result<bool, OpenError> {
    let failed = diesel::ConnectionError::CouldntSetupConfiguration;
    let mut connection = Database::at(path)?.connect(Access::Write)?;
    let end = Instant::now() + EMPTYING_TIME;
    loop {
        let checkpoint: Checkpoint = sql_query("PRAGMA wal_checkpoint(TRUNCATE)")
            .get_result(&mut connection)
            .map_err(failed)?;
        let is_empty = checkpoint.busy == 0;
        if is_empty || Instant::now() >= end {
            return Ok(is_empty);
        }
        thread::sleep(Duration::from_millis(10));
    }
}
