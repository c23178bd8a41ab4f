//! The port for operators, who work with orders of any client.

use std::cmp::Reverse;

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{Bool, Text},
    sqlite::{Sqlite, SqliteConnection},
};
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
use crate::{
    failure::Failure,
    store::{SqliteStore, columns},
};

#[async_trait]
impl OrderAdmin for SqliteStore {
    async fn list(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<ListedOrder>, StoreError> {
        let filter = filter.clone();
        self.survey(move |connection| list(connection, &filter, before, limit)).await
    }

    async fn order(&self, id: OrderId) -> Result<Option<MaybeErased<StoredOrder>>, StoreError> {
        self.survey(move |connection| read::find(connection, None, id)).await
    }

    async fn created_before(
        &self,
        instant: OffsetDateTime,
        after: OrderId,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        self.survey(move |connection| created_before(connection, instant, after, limit)).await
    }

    async fn erase(
        &self,
        id: OrderId,
        at: OffsetDateTime,
        access: Option<Access>,
    ) -> Result<ErasureOutcome, StoreError> {
        let erase = move |connection: &mut SqliteConnection| {
            erase::erase(connection, id, Utc(at), access.as_ref())
        };
        self.maintain(erase).await
    }

    async fn held(&self, now: OffsetDateTime) -> Result<usize, StoreError> {
        let held = orders::table.filter(orders::held_until.gt(Utc(now))).count();
        let count = move |connection: &mut SqliteConnection| Ok(held.get_result(connection)?);
        let count: i64 = self.read(count).await?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    async fn due(&self, due: Due, after: OrderId, limit: usize) -> Result<FoundDue, StoreError> {
        self.survey(move |connection| self::due(connection, due, after, limit)).await
    }

    async fn maybe_late(
        &self,
        now: OffsetDateTime,
        after: OrderId,
        limit: usize,
    ) -> Result<FoundLate, StoreError> {
        self.read(move |connection| maybe_late(connection, now, after, limit)).await
    }

    async fn unfolded(&self, limit: usize) -> Result<Vec<OrderId>, StoreError> {
        self.read(move |connection| unfolded(connection, limit)).await
    }

    async fn fold_texts(&self, orders: &[OrderId]) -> Result<(), StoreError> {
        let orders = orders.to_vec();
        // Other writes do not wait for this.
        let rows = self.read(move |connection| unfolded_rows(connection, &orders)).await?;
        self.transaction(move |connection| fold(connection, rows)).await
    }

    async fn keep_texts(&self, order: OrderId) -> Result<(), StoreError> {
        let keep = move |connection: &mut SqliteConnection| {
            let unfolded = orders::table.find(order.0).filter(orders::search_text.gt(" "));
            let keep = diesel::update(unfolded).set(orders::search_text.eq(kept_text::<Sqlite>()));
            Prepared(keep).execute(connection)?;
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
        self.maintain(move |connection| erase::erase_due(connection, due, &orders, &access_of))
            .await
    }

    async fn erased(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError> {
        let erased = erased_among(ids.iter().map(|id| id.0).collect()).select(orders::id);
        let found = move |connection: &mut SqliteConnection| Ok(erased.get_results(connection)?);
        let found: Vec<i64> = self.survey(found).await?;
        Ok(found.into_iter().map(OrderId).collect())
    }

    async fn mails_of_erased(&self) -> Result<Vec<DeliveryId>, StoreError> {
        let mails = |connection: &mut SqliteConnection| {
            let ids: Vec<i64> = mails_of_erased().select(deliveries::id).load(connection)?;
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
        self.maintain(move |connection| erase::remove_mails(connection, mails, Utc(at))).await
    }
}

/// Lists orders. Reads one after the other: no index has addresses, or the orders of all owners by a
/// filter.
pub(crate) fn list(
    connection: &mut SqliteConnection,
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
        listed.extend(list::load(connection, list, &ids, also, true, limit)?);
    }
    listed.sort_unstable_by_key(|order| Reverse(order.stored.id.0));
    listed.truncate(limit);
    Ok(listed)
}

fn with_address<'a>(orders: Orders<'a>, address: Option<&str>) -> Orders<'a> {
    let Some(address) = address else { return orders };
    let member = |path: &[&str]| format!("lower(details ->> '$.{}')", path.join("."));
    let addresses = ADDRESSES.map(member).join(", ");
    let address = sql::<Bool>("lower(").bind::<Text, _>(address.to_owned());
    orders.filter(address.sql(&format!(") IN ({addresses})")))
}

/// Finds orders by bounded statements.
pub(crate) fn created_before(
    connection: &mut SqliteConnection,
    instant: OffsetDateTime,
    after: OrderId,
    limit: usize,
) -> Result<Vec<OrderId>, Failure> {
    let (mut found, mut after) = (Vec::new(), after);
    while let Some((look, has_more)) = next_look(connection, after)? {
        after = OrderId(*look.end());
        let kept = orders::table.filter(orders::erased_at.is_null());
        let old = kept.filter(orders::created_at.lt(Utc(instant)));
        let old = old.filter(orders::id.between(*look.start(), *look.end()));
        let old = old.order(orders::id).limit(row_limit(limit - found.len()));
        let old: Vec<i64> = Prepared(old.select(orders::id)).get_results(connection)?;
        found.extend(old.into_iter().map(OrderId));
        if found.len() == limit || !has_more {
            break;
        }
    }
    Ok(found)
}

/// Looks at the next orders for those that are due.
pub(crate) fn due(
    connection: &mut SqliteConnection,
    due: Due,
    after: OrderId,
    limit: usize,
) -> Result<FoundDue, Failure> {
    let Some((look, has_more)) = next_look(connection, after)? else {
        return Ok(FoundDue::default());
    };
    let found = orders::table.filter(IsDue::of(&due));
    let found = found.filter(orders::id.between(*look.start(), *look.end()));
    let found = found.order(orders::id).limit(row_limit(limit)).select(orders::id);
    let found: Vec<i64> = Prepared(found).get_results(connection)?;
    let looked_at = has_more.then_some(OrderId(*look.end()));
    Ok(FoundDue { orders: found.into_iter().map(OrderId).collect(), looked_at })
}

/// Looks at the next orders for those that may be late.
pub(crate) fn maybe_late(
    connection: &mut SqliteConnection,
    now: OffsetDateTime,
    after: OrderId,
    limit: usize,
) -> Result<FoundLate, Failure> {
    let Some((look, has_more)) = next_look(connection, after)? else {
        return Ok(FoundLate::default());
    };
    let found = orders::table.filter(Matching::maybe_late(now));
    let found = found.filter(orders::id.between(*look.start(), *look.end()));
    let found = found.order(orders::id).limit(row_limit(limit)).select(columns::<ListedRow>());
    let loaded = Prepared(found).get_results(connection);
    let rows: Vec<ListedRow> =
        loaded.map_err(|error| unreadable_order::<Failure>(error, &"that may be late"))?;
    let orders = rows.into_iter().filter_map(|row| row.into_known().transpose());
    let orders = orders.collect::<Result<Vec<_>, _>>()?;
    let last = orders.last().filter(|_| orders.len() == limit).map(|order| order.stored.id);
    let looked_at = last.or_else(|| has_more.then_some(OrderId(*look.end())));
    Ok(FoundLate { orders, looked_at })
}

/// Reads which orders have texts that are to be folded.
fn unfolded(connection: &mut SqliteConnection, limit: usize) -> Result<Vec<OrderId>, Failure> {
    let unfolded = orders::table.filter(Unfolded::up_to(limit)).order(orders::id);
    let ids: Vec<i64> = Prepared(unfolded.select(orders::id)).get_results(connection)?;
    Ok(ids.into_iter().map(OrderId).collect())
}

/// Reads orders whose texts are to be folded.
fn unfolded_rows(
    connection: &mut SqliteConnection,
    orders: &[OrderId],
) -> Result<Vec<UnfoldedRow>, Failure> {
    let ids: Vec<i64> = orders.iter().map(|order| order.0).collect();
    let rows = orders::table.filter(OneOf::new("orders.id", ids)).order(orders::id);
    Ok(Prepared(rows.select(columns::<UnfoldedRow>())).get_results(connection)?)
}

/// Stores the folded texts of orders, unless they have changed since they were read.
fn fold(connection: &mut SqliteConnection, rows: Vec<UnfoldedRow>) -> Result<(), Failure> {
    for (id, version, folded) in rows.into_iter().map(UnfoldedRow::folded) {
        let update = diesel::update(unfolded_order(id, version)).set(folded);
        Prepared(update).execute(connection)?;
    }
    Ok(())
}

/// Returns the identifiers of the next orders after one, of up to [`LOOKED_AT`], and whether there are later
/// ones; `None` if there are no orders. Few identifiers have no order.
fn next_look(
    connection: &mut SqliteConnection,
    after: OrderId,
) -> QueryResult<Option<(Ids, bool)>> {
    let later = || orders::table.filter(orders::id.gt(after.0)).select(orders::id);
    let next = Prepared(later().order(orders::id).limit(1)).get_result(connection).optional()?;
    let Some(next): Option<i64> = next else { return Ok(None) };
    let newest = Prepared(later().order(orders::id.desc()).limit(1));
    let newest: i64 = newest.get_result(connection)?;
    let end = next.saturating_add(LOOKED_AT - 1);
    Ok(Some((next..=end, newest > end)))
}
