//! What operators do with orders of any client.

use std::cmp::Reverse;

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{BigInt, Bool, Text},
};
use domain::{
    api_key::{ClientId, Owner},
    document::ObjectKey,
    order::{OrderId, StoredOrder, record::ADDRESSES},
    ports::{Kept, ListedOrder, OrderAdmin, OrderFilter, StoreError},
};
use sql_rows::{Prepared, Utc, is_order_of, row_limit, schema::orders};
use time::OffsetDateTime;

use super::{
    erase,
    pages::{List, Orders},
    read,
};
use crate::{
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

#[async_trait]
impl OrderAdmin for Store {
    async fn list(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<ListedOrder>, StoreError> {
        let filter = filter.clone();
        self.survey_ported(async move |connection| list(connection, &filter, before, limit).await)
            .await
    }

    async fn order(&self, id: OrderId) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        self.survey_ported(async move |connection| read::find(connection, None, id).await).await
    }

    async fn created_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        self.survey_ported(async move |connection| {
            created_before(connection, Utc(instant), limit).await
        })
        .await
    }

    async fn erase(
        &self,
        id: OrderId,
        at: OffsetDateTime,
    ) -> Result<Option<Vec<ObjectKey>>, StoreError> {
        let erase = async move |connection: &mut Connection| {
            dialect::mark_erasure(connection).await?;
            erase::erase(connection, id, Utc(at)).await
        };
        self.maintain_ported(erase).await
    }

    async fn remove_mails(&self, at: OffsetDateTime) -> Result<usize, StoreError> {
        self.maintain_ported(async move |connection| erase::remove_mails(connection, Utc(at)).await)
            .await
    }
}

/// The indexes have the live and the test orders of a client apart. None has addresses.
pub(crate) async fn list(
    connection: &mut Connection,
    filter: &OrderFilter,
    before: Option<OrderId>,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let owners = match filter.client {
        Some(client) => [false, true].map(|is_test| Some(Owner::client(client, is_test))).to_vec(),
        None => vec![None],
    };
    let matching = |orders| with_address(orders, filter.email.as_deref());
    let ids = i64::MIN..=before.map_or(i64::MAX, |id| id.0.saturating_sub(1));
    let mut listed = Vec::new();
    for owner in owners {
        let list = List { owner, file_number: filter.file_number.as_deref() };
        listed.extend(list.load(connection, &ids, matching, true, limit).await?);
    }
    listed.sort_unstable_by_key(|order| Reverse(order.stored.id.0));
    listed.truncate(limit);
    Ok(listed)
}

fn with_address<'a>(orders: Orders<'a>, address: Option<&str>) -> Orders<'a> {
    let Some(address) = address else { return orders };
    let addresses = ADDRESSES.map(|path| format!("lower({})", dialect::member(path))).join(", ");
    let address = sql::<Bool>("lower(").bind::<Text, _>(address.to_owned());
    orders.filter(address.sql(&format!(") IN ({addresses})")))
}

/// Reads the oldest orders of each owner, because the indexes of orders begin with the owner.
pub(crate) async fn created_before(
    connection: &mut Connection,
    instant: Utc,
    limit: usize,
) -> Result<Vec<OrderId>, Failure> {
    let kept = || orders::table.filter(orders::erased_at.is_null());
    let (mut found, mut last) = (Vec::new(), (i64::MIN, true));
    loop {
        let later = sql::<Bool>("(client_id, is_test) > (").bind::<BigInt, _>(last.0).sql(", ");
        let next = kept()
            .filter(later.bind::<Bool, _>(last.1).sql(")"))
            .order((orders::client_id, orders::is_test))
            .select((orders::client_id, orders::is_test))
            .limit(1);
        let Some(next) = Prepared(next).get_result(connection).await.optional()? else { break };
        last = next;
        let owner = Owner::client(ClientId(last.0), last.1);
        let oldest = kept()
            .filter(is_order_of(owner))
            .filter(orders::created_at.lt(instant))
            .order((orders::created_at, orders::id))
            .limit(row_limit(limit))
            .select((orders::created_at, orders::id));
        let oldest: Vec<(Utc, i64)> = Prepared(oldest).get_results(connection).await?;
        found.extend(oldest);
    }
    found.sort_unstable();
    Ok(found.into_iter().take(limit).map(|(_, id)| OrderId(id)).collect())
}
