//! What an operator does with orders.

use async_trait::async_trait;
use diesel::{
    connection::SimpleConnection as _,
    dsl::sql,
    prelude::*,
    sql_types::{Bool, Text},
    sqlite::SqliteConnection,
};
use domain::{
    document::ObjectKey,
    order::{OrderId, StoredOrder, record::ADDRESSES},
    ports::{Kept, ListedOrder, OrderAdmin, OrderFilter, StoreError},
};
use sql_rows::{Utc, row_limit, schema::orders};
use time::OffsetDateTime;

use super::pages;
use crate::{
    database::MARK_ERASURE,
    failure::Failure,
    ports::{erase, read},
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
            let (found, searched_to) = self
                .read(async move |connection| search(connection, &filter, before, left))
                .await?;
            listed.extend(found);
            match searched_to {
                Some(id) if listed.len() < limit => before = id,
                _ => return Ok(listed),
            }
        }
    }

    async fn order(&self, id: OrderId) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        self.survey(async move |connection| read::find(connection, None, id).await).await
    }

    async fn created_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        self.survey(async move |connection| created_before(connection, Utc(instant), limit)).await
    }

    async fn erase(
        &self,
        id: OrderId,
        at: OffsetDateTime,
    ) -> Result<Option<Vec<ObjectKey>>, StoreError> {
        self.maintain(async move |connection| {
            connection.batch_execute(MARK_ERASURE)?;
            erase::erase(connection, id, Utc(at)).await
        })
        .await
    }

    async fn remove_mails(&self, at: OffsetDateTime) -> Result<usize, StoreError> {
        let remove = async move |connection: &mut _| erase::remove_mails(connection, Utc(at)).await;
        self.maintain(remove).await
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
