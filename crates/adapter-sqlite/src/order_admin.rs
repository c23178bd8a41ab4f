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

use crate::{
    database::{Access, Database, OpenError},
    failure::Failure,
    order_reader,
    pages::{Listing, last_created_before},
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
            let search =
                move |connection: &mut SqliteConnection| search(connection, &filter, before, left);
            let (found, searched_to) = self.order_readers.run(search).await?;
            listed.extend(found);
            match searched_to {
                Some(id) if listed.len() < limit => before = id,
                _ => return Ok(listed),
            }
        }
    }

    async fn order(&self, id: OrderId) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        Ok(self.order_readers.run(move |connection| order_reader::any(connection, id)).await?)
    }

    async fn created_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        let read = move |connection: &mut _| created_before(connection, instant, limit);
        Ok(self.order_readers.run(read).await?)
    }

    async fn erase(
        &self,
        id: OrderId,
        at: OffsetDateTime,
    ) -> Result<Option<Vec<ObjectKey>>, StoreError> {
        Ok(self.writer.run(move |connection| erase(connection, id, at)).await?)
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
    let searched_from = match &filter.email {
        Some(_) => last_before(connection, before)?.map(|last| last.saturating_sub(SEARCHED)),
        None => None,
    };
    let addresses =
        ADDRESSES.map(|path| format!("lower(details ->> '$.{}')", path.join("."))).join(", ");
    let matching = || {
        let mut matching = orders::table
            .filter(orders::erased_at.is_null())
            .filter(orders::id.lt(before))
            .into_boxed();
        if let Some(email) = &filter.email {
            let has_address = sql::<Bool>("")
                .bind::<Text, _>(email.to_ascii_lowercase())
                .sql(&format!(" IN ({addresses})"));
            matching = matching.filter(has_address);
        }
        if let Some(first) = searched_from {
            matching = matching.filter(orders::id.ge(first));
        }
        matching
    };
    let listing = Listing {
        matching,
        client: filter.client,
        file_number: filter.file_number.as_deref(),
        newest_first: true,
        limit,
    };
    Ok((listing.load(connection)?, searched_from))
}

fn last_before(connection: &mut SqliteConnection, id: i64) -> Result<Option<i64>, Failure> {
    let before = orders::table.filter(orders::id.lt(id)).order(orders::id.desc());
    Ok(before.select(orders::id).first(connection).optional()?)
}

/// Reads the oldest orders of each client, because the indexes of pages leave out erased orders.
pub(crate) fn created_before(
    connection: &mut SqliteConnection,
    instant: OffsetDateTime,
    limit: usize,
) -> Result<Vec<OrderId>, Failure> {
    let last = last_created_before(connection, instant)?;
    let (mut found, mut client) = (Vec::new(), i64::MIN);
    loop {
        let next: Option<i64> = orders::table
            .filter(orders::erased_at.is_null())
            .filter(orders::client_id.gt(client))
            .order(orders::client_id)
            .select(orders::client_id)
            .first(connection)
            .optional()?;
        let Some(next) = next else { break };
        client = next;
        let oldest: Vec<i64> = orders::table
            .filter(orders::client_id.eq(client))
            .filter(orders::erased_at.is_null())
            .filter(orders::id.le(last))
            .filter(orders::created_at.lt(Utc(instant)))
            .order(orders::id)
            .limit(row_limit(limit))
            .select(orders::id)
            .load(connection)?;
        found.extend(oldest);
    }
    found.sort_unstable();
    found.truncate(limit);
    Ok(found.into_iter().map(OrderId).collect())
}

fn erase(
    connection: &mut SqliteConnection,
    id: OrderId,
    at: OffsetDateTime,
) -> Result<Option<Vec<ObjectKey>>, Failure> {
    let kept = orders::table.find(id.0).filter(orders::erased_at.is_null());
    let erased = diesel::update(kept)
        .set((
            orders::details.eq("{}"),
            orders::file_number.eq(""),
            orders::holds_file_number.eq(false),
            orders::starts_at.eq(None::<Utc>),
            orders::ends_at.eq(None::<Utc>),
            orders::erased_at.eq(Utc(at)),
        ))
        .execute(connection)?;
    if erased == 0 {
        return Ok(None);
    }
    let keys: Vec<String> = diesel::delete(documents::table.filter(documents::order_id.eq(id.0)))
        .returning(documents::key)
        .get_results(connection)?;
    for key in &keys {
        let row =
            (uploads::key.eq(key), uploads::recorded_at.eq(Utc(at)), uploads::condemned.eq(true));
        diesel::insert_into(uploads::table).values(row).execute(connection)?;
    }
    diesel::delete(events::table.filter(events::order_id.eq(id.0))).execute(connection)?;
    diesel::delete(deliveries::table.filter(deliveries::order_id.eq(id.0))).execute(connection)?;
    Ok(Some(keys.into_iter().map(ObjectKey::from_stored).collect()))
}

/// Time for attempts to empty the log. SQLite waits as long for a reader, but not for a thread that
/// copies the log.
const EMPTYING_TIME: Duration = Duration::from_secs(3);

/// Pause between two attempts. Under load, a service has longer gaps between its copies.
const EMPTYING_PAUSE: Duration = Duration::from_millis(10);

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
        if checkpoint.busy == 0 {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        thread::sleep(EMPTYING_PAUSE);
    }
}
