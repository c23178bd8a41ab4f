//! What an operator does with orders.

use std::cmp::Reverse;

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{Bool, Text},
    sqlite::SqliteConnection,
};
use domain::{
    api_key::{ClientId, Owner},
    document::ObjectKey,
    order::{OrderId, StoredOrder, record::ADDRESSES},
    ports::{Kept, ListedOrder, OrderAdmin, OrderFilter, StoreError},
};
use sql_rows::{Utc, row_limit, schema::orders};
use time::OffsetDateTime;

use super::pages;
use crate::{
    failure::Failure,
    ports::{erase, read},
    store::SqliteStore,
};

/// Whether an order is a test order.
const MODES: [bool; 2] = [false, true];

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
        self.maintain(async move |connection| erase::erase(connection, id, Utc(at)).await).await
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
    let mut searched_from = None;
    if filter.email.is_some() {
        let last = orders::table.filter(orders::id.lt(before)).order(orders::id.desc());
        let last: Option<i64> = last.select(orders::id).first(connection).optional()?;
        searched_from = last.map(|last| last.saturating_sub(SEARCHED));
    }
    let addresses =
        ADDRESSES.map(|path| format!("lower(details ->> '$.{}')", path.join("."))).join(", ");
    // The indexes of orders have the live and the test orders of a client apart.
    let owners = match filter.client {
        Some(client) => MODES.map(|is_test| Some(Owner::client(client, is_test))).to_vec(),
        None => vec![None],
    };
    let mut found = Vec::new();
    for owner in owners {
        let mut matching =
            pages::kept_orders(owner, filter.file_number.as_deref()).filter(orders::id.lt(before));
        if let Some(email) = &filter.email {
            let has_address = sql::<Bool>("")
                .bind::<Text, _>(email.to_ascii_lowercase())
                .sql(&format!(" IN ({addresses})"));
            matching =
                matching.filter(orders::id.ge(searched_from.unwrap_or(before))).filter(has_address);
        }
        found.extend(pages::load(connection, matching, true, limit)?);
    }
    found.sort_unstable_by_key(|order| Reverse(order.stored.id.0));
    found.truncate(limit);
    Ok((found, searched_from))
}

/// Reads the oldest orders of each owner, because the indexes of orders begin with the owner.
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
        for is_test in MODES {
            let owner = Owner::client(ClientId(client), is_test);
            let oldest: Vec<(Utc, i64)> = pages::kept_orders(Some(owner), None)
                .filter(orders::created_at.lt(instant))
                .order((orders::created_at, orders::id))
                .limit(row_limit(limit))
                .select((orders::created_at, orders::id))
                .load(connection)?;
            found.extend(oldest);
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().take(limit).map(|(_, id)| OrderId(id)).collect())
}
