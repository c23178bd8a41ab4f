//! The port for operators, who work with orders of any client.

use std::cmp::Reverse;

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    pg::Pg,
    prelude::*,
    sql_types::{Bool, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    access::Access,
    delivery::DeliveryId,
    order::{Due, OrderId, StoredOrder, record::ADDRESSES},
    ports::{
        AccessOf, ErasedDue, ErasureOutcome, FoundDue, FoundLate, LOOKED_AT, ListedOrder,
        MaybeErased, OrderAdmin, OrderFilter, StoreError,
    },
};
use sql_rows::{
    OneOf, Prepared, Utc,
    deliveries::mails_of_erased,
    orders::{
        ListedRow, UnfoldedRow,
        erase::erased_among,
        find::{Matching, Unfolded, kept_text},
        lists::{Ids, OrderList, owners},
        retention::IsDue,
        unfolded_order, unreadable_order,
    },
    row_limit,
    schema::{deliveries, orders},
};
use time::OffsetDateTime;

use super::{
    erase,
    list::{self, Orders},
    read,
};
use crate::{failure::Failure, statement::columns, store::PostgresStore};

#[async_trait]
impl OrderAdmin for PostgresStore {
    async fn list(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<ListedOrder>, StoreError> {
        let filter = filter.clone();
        self.survey(async move |connection| list(connection, &filter, before, limit).await).await
    }

    async fn order(&self, id: OrderId) -> Result<Option<MaybeErased<StoredOrder>>, StoreError> {
        self.survey(async move |connection| read::find(connection, None, id).await).await
    }

    async fn created_before(
        &self,
        instant: OffsetDateTime,
        after: OrderId,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        self.survey(async move |connection| created_before(connection, instant, after, limit).await)
            .await
    }

    async fn erase(
        &self,
        id: OrderId,
        at: OffsetDateTime,
        access: Option<Access>,
    ) -> Result<ErasureOutcome, StoreError> {
        let erase = async move |connection: &mut AsyncPgConnection| {
            erase::erase(connection, id, Utc(at), access.as_ref()).await
        };
        self.maintain(erase).await
    }

    async fn held(&self, now: OffsetDateTime) -> Result<usize, StoreError> {
        let held = orders::table.filter(orders::held_until.gt(Utc(now))).count();
        let count =
            async move |connection: &mut AsyncPgConnection| Ok(held.get_result(connection).await?);
        let count: i64 = self.read(count).await?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    async fn due(&self, due: Due, after: OrderId, limit: usize) -> Result<FoundDue, StoreError> {
        self.survey(async move |connection| self::due(connection, due, after, limit).await).await
    }

    async fn maybe_late(
        &self,
        now: OffsetDateTime,
        after: OrderId,
        limit: usize,
    ) -> Result<FoundLate, StoreError> {
        self.read(async move |connection| maybe_late(connection, now, after, limit).await).await
    }

    async fn unfolded(&self, limit: usize) -> Result<Vec<OrderId>, StoreError> {
        self.read(async move |connection| unfolded(connection, limit).await).await
    }

    async fn fold_texts(&self, orders: &[OrderId]) -> Result<(), StoreError> {
        let orders = orders.to_vec();
        let read = async move |connection: &mut AsyncPgConnection| {
            unfolded_rows(connection, &orders).await
        };
        let rows = self.read(read).await?;
        self.transaction(async move |connection| fold(connection, rows).await).await
    }

    async fn keep_texts(&self, order: OrderId) -> Result<(), StoreError> {
        let keep = async move |connection: &mut AsyncPgConnection| {
            let unfolded = orders::table.find(order.0).filter(orders::search_text.gt(" "));
            let keep = diesel::update(unfolded).set(orders::search_text.eq(kept_text::<Pg>()));
            Prepared(keep).execute(connection).await?;
            Ok(())
        };
        self.transaction(keep).await
    }

    async fn erase_due(
        &self,
        due: Due,
        orders: Vec<OrderId>,
        access_of: AccessOf,
    ) -> Result<Option<ErasedDue>, StoreError> {
        self.maintain(async move |connection| {
            erase::erase_due(connection, due, &orders, &access_of).await
        })
        .await
    }

    async fn erased(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError> {
        let erased = erased_among(ids.iter().map(|id| id.0).collect()).select(orders::id);
        let found = async move |connection: &mut AsyncPgConnection| {
            Ok(erased.get_results(connection).await?)
        };
        let found: Vec<i64> = self.survey(found).await?;
        Ok(found.into_iter().map(OrderId).collect())
    }

    async fn mails_of_erased(&self) -> Result<Vec<DeliveryId>, StoreError> {
        let mails = async |connection: &mut AsyncPgConnection| {
            let ids: Vec<i64> =
                mails_of_erased().select(deliveries::id).get_results(connection).await?;
            Ok(ids.into_iter().map(DeliveryId).collect())
        };
        self.survey(mails).await
    }

    async fn remove_mails(
        &self,
        mails: &[DeliveryId],
        at: OffsetDateTime,
    ) -> Result<usize, StoreError> {
        let mails: Vec<i64> = mails.iter().map(|id| id.0).collect();
        self.maintain(async move |connection| erase::remove_mails(connection, mails, Utc(at)).await)
            .await
    }
}

/// Lists orders. Reads one after the other: no index has addresses, or the orders of all owners by a
/// filter.
pub(crate) async fn list(
    connection: &mut AsyncPgConnection,
    filter: &OrderFilter,
    before: Option<OrderId>,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let also = |orders| {
        let orders = with_address(orders, filter.email.as_deref());
        match filter.held_at {
            Some(now) => orders.filter(orders::held_until.gt(Utc(now)).assume_not_null()),
            None => orders,
        }
    };
    let ids = i64::MIN..=before.map_or(i64::MAX, |id| id.0.saturating_sub(1));
    let mut listed = Vec::new();
    for owner in owners(filter.client) {
        let list = OrderList { owner, filter: &filter.list };
        listed.extend(list::load(connection, list, &ids, also, true, limit).await?);
    }
    listed.sort_unstable_by_key(|order| Reverse(order.stored.id.0));
    listed.truncate(limit);
    Ok(listed)
}

fn with_address<'a>(orders: Orders<'a>, address: Option<&str>) -> Orders<'a> {
    let Some(address) = address else { return orders };
    let member = |path: &[&str]| format!("lower(details #>> '{{{}}}')", path.join(","));
    let addresses = ADDRESSES.map(member).join(", ");
    let address = sql::<Bool>("lower(").bind::<Text, _>(address.to_owned());
    orders.filter(address.sql(&format!(") IN ({addresses})")))
}

/// Finds orders by bounded statements.
pub(crate) async fn created_before(
    connection: &mut AsyncPgConnection,
    instant: OffsetDateTime,
    after: OrderId,
    limit: usize,
) -> Result<Vec<OrderId>, Failure> {
    let (mut found, mut after) = (Vec::new(), after);
    while let Some((look, has_more)) = next_look(connection, after).await? {
        after = OrderId(*look.end());
        let kept = orders::table.filter(orders::erased_at.is_null());
        let old = kept.filter(orders::created_at.lt(Utc(instant)));
        let old = old.filter(orders::id.between(*look.start(), *look.end()));
        let old = old.order(orders::id).limit(row_limit(limit - found.len()));
        let old: Vec<i64> = Prepared(old.select(orders::id)).get_results(connection).await?;
        found.extend(old.into_iter().map(OrderId));
        if found.len() == limit || !has_more {
            break;
        }
    }
    Ok(found)
}

/// Looks at the next orders for those that are due.
pub(crate) async fn due(
    connection: &mut AsyncPgConnection,
    due: Due,
    after: OrderId,
    limit: usize,
) -> Result<FoundDue, Failure> {
    let Some((look, has_more)) = next_look(connection, after).await? else {
        return Ok(FoundDue::default());
    };
    let found = orders::table.filter(IsDue::of(&due));
    let found = found.filter(orders::id.between(*look.start(), *look.end()));
    let found = found.order(orders::id).limit(row_limit(limit)).select(orders::id);
    let found: Vec<i64> = Prepared(found).get_results(connection).await?;
    let looked_at = has_more.then_some(OrderId(*look.end()));
    Ok(FoundDue { orders: found.into_iter().map(OrderId).collect(), looked_at })
}

/// Looks at the next orders for those that may be late.
pub(crate) async fn maybe_late(
    connection: &mut AsyncPgConnection,
    now: OffsetDateTime,
    after: OrderId,
    limit: usize,
) -> Result<FoundLate, Failure> {
    let Some((look, has_more)) = next_look(connection, after).await? else {
        return Ok(FoundLate::default());
    };
    let found = orders::table.filter(Matching::maybe_late(now));
    let found = found.filter(orders::id.between(*look.start(), *look.end()));
    let found = found.order(orders::id).limit(row_limit(limit)).select(columns::<ListedRow>());
    let loaded = Prepared(found).get_results(connection).await;
    let rows: Vec<ListedRow> =
        loaded.map_err(|error| unreadable_order::<Failure>(error, &"that may be late"))?;
    let orders = rows.into_iter().filter_map(|row| row.into_known().transpose());
    let orders = orders.collect::<Result<Vec<_>, _>>()?;
    let last = orders.last().filter(|_| orders.len() == limit).map(|order| order.stored.id);
    let looked_at = last.or_else(|| has_more.then_some(OrderId(*look.end())));
    Ok(FoundLate { orders, looked_at })
}

/// Reads which orders have texts that are to be folded.
async fn unfolded(
    connection: &mut AsyncPgConnection,
    limit: usize,
) -> Result<Vec<OrderId>, Failure> {
    let unfolded = orders::table.filter(Unfolded::up_to(limit)).order(orders::id);
    let ids: Vec<i64> = Prepared(unfolded.select(orders::id)).get_results(connection).await?;
    Ok(ids.into_iter().map(OrderId).collect())
}

/// Reads orders whose texts are to be folded.
async fn unfolded_rows(
    connection: &mut AsyncPgConnection,
    orders: &[OrderId],
) -> Result<Vec<UnfoldedRow>, Failure> {
    let ids: Vec<i64> = orders.iter().map(|order| order.0).collect();
    let rows = orders::table.filter(OneOf::new("orders.id", ids)).order(orders::id);
    Ok(Prepared(rows.select(columns::<UnfoldedRow>())).get_results(connection).await?)
}

/// Stores the folded texts of orders, unless they have changed since they were read.
async fn fold(connection: &mut AsyncPgConnection, rows: Vec<UnfoldedRow>) -> Result<(), Failure> {
    for (id, version, folded) in rows.into_iter().map(UnfoldedRow::folded) {
        let update = diesel::update(unfolded_order(id, version)).set(folded);
        Prepared(update).execute(connection).await?;
    }
    Ok(())
}

/// Returns the identifiers of the next orders after one, of up to [`LOOKED_AT`], and whether there are later
/// ones; `None` if there are no orders. Few identifiers have no order.
async fn next_look(
    connection: &mut AsyncPgConnection,
    after: OrderId,
) -> QueryResult<Option<(Ids, bool)>> {
    let later = || orders::table.filter(orders::id.gt(after.0)).select(orders::id);
    let next =
        Prepared(later().order(orders::id).limit(1)).get_result(connection).await.optional()?;
    let Some(next): Option<i64> = next else { return Ok(None) };
    let newest = Prepared(later().order(orders::id.desc()).limit(1));
    let newest: i64 = newest.get_result(connection).await?;
    let end = next.saturating_add(LOOKED_AT - 1);
    Ok(Some((next..=end, newest > end)))
}
