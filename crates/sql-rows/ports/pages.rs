//! Lists of orders. Each is read as ranges of identifiers in an index.

use std::ops::RangeInclusive;

use diesel::{
    dsl::{exists, not, select, sql},
    prelude::*,
    sql_types::{BigInt, Bool, Nullable, Text},
};
use domain::{
    api_key::Owner,
    ports::{Cursor, ListedOrder, Page, PageQuery},
};
use sql_rows::{Instant, ListedRow, Prepared, Utc, is_order_of, row_limit, schema::orders};
use time::macros::datetime;

use super::read::unreadable;
use crate::{
    dialect::{self, Backend, Connection, RunQueryDsl},
    failure::Failure,
};

/// Identifiers of orders.
type Ids = RangeInclusive<i64>;

/// A query of orders whose conditions vary.
pub(crate) type Orders<'a> = orders::BoxedQuery<'a, Backend>;

/// Orders that one index has in this order: those of an owner, or of all, with a file number, or any.
#[derive(Clone, Copy)]
pub(crate) struct List<'a> {
    pub(crate) owner: Option<Owner>,
    pub(crate) file_number: Option<&'a str>,
}

impl<'a> List<'a> {
    /// Selects the orders with identifiers in a range. Compares rows: no other index can serve that,
    /// whatever the planner knows about the clients. diesel has no such comparison.
    fn within(self, ids: &Ids) -> Orders<'a> {
        let kept = orders::table.filter(orders::erased_at.is_null()).into_boxed();
        let (low, high) = (*ids.start(), *ids.end());
        match (self.owner, self.file_number) {
            (Some(Owner { client, is_test }), None) => {
                let compare = |rows: &str, id: i64| {
                    let row = sql::<Bool>(rows).bind::<BigInt, _>(client.0).sql(", ");
                    row.bind::<Bool, _>(is_test).sql(", ").bind::<BigInt, _>(id).sql(")")
                };
                kept.filter(compare("(client_id, is_test, id) >= (", low))
                    .filter(compare("(client_id, is_test, id) <= (", high))
            }
            (Some(Owner { client, is_test }), Some(number)) => {
                let compare = |rows: &str, id: i64| {
                    let row = sql::<Bool>(rows).bind::<Text, _>(number).sql(", ");
                    let row = row.bind::<BigInt, _>(client.0).sql(", ").bind::<Bool, _>(is_test);
                    row.sql(", ").bind::<BigInt, _>(id).sql(")")
                };
                kept.filter(compare("(file_number, client_id, is_test, id) >= (", low))
                    .filter(compare("(file_number, client_id, is_test, id) <= (", high))
            }
            (None, None) => kept.filter(orders::id.between(low, high)),
            (None, Some(number)) => {
                kept.filter(orders::id.between(low, high)).filter(orders::file_number.eq(number))
            }
        }
    }

    /// Returns the columns of the index.
    fn columns(self) -> &'static str {
        match (self.owner, self.file_number) {
            (Some(_), Some(_)) => "file_number, client_id, is_test, id",
            (Some(_), None) => "client_id, is_test, id",
            (None, _) => "id",
        }
    }

    /// Reads up to `limit` of the orders in a range that match, in the order of their identifiers.
    /// Of those with a file number, one index has the orders that hold it, another one the others.
    pub(crate) async fn load(
        self,
        connection: &mut Connection,
        ids: &Ids,
        matching: impl Fn(Orders<'a>) -> Orders<'a>,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<ListedOrder>, Failure> {
        let all = || matching(self.within(ids));
        let parts = if self.file_number.is_some() {
            let (holding, others) = (orders::holds_file_number, not(orders::holds_file_number));
            vec![all().filter(holding), all().filter(others)]
        } else {
            vec![all()]
        };
        let way = if newest_first { " DESC" } else { "" };
        let order = self.columns().replace(", ", &format!("{way}, ")) + way;
        let mut listed = Vec::new();
        for part in parts {
            let part = part.order(sql::<BigInt>(&order));
            let part = part.limit(row_limit(limit)).select(ListedRow::as_select());
            let rows: QueryResult<Vec<ListedRow>> = Prepared(part).get_results(connection).await;
            for row in rows.map_err(|error| unreadable(error, &"of a list"))? {
                listed.extend(row.into_listed()?);
            }
        }
        listed.sort_unstable_by_key(|order| order.stored.id.0);
        // An order may have lost its file number between the two queries.
        listed.dedup_by_key(|order| order.stored.id);
        if newest_first {
            listed.reverse();
        }
        listed.truncate(limit);
        Ok(listed)
    }
}

/// Returns a page of an owner's orders; `None` if the cursor is no order of the owner.
///
/// Toward newer orders, a page ends at the horizon: no order can appear before it any more.
pub(crate) async fn page(
    connection: &mut Connection,
    owner: Owner,
    query: &PageQuery,
) -> Result<Option<Page>, Failure> {
    let (page, others) = match query.cursor {
        Cursor::Newest => (i64::MIN..=i64::MAX, None),
        Cursor::OlderThan(id) => (i64::MIN..=id.0.saturating_sub(1), Some(id.0..=i64::MAX)),
        Cursor::NewerThan(id) => (id.0.saturating_add(1)..=i64::MAX, Some(i64::MIN..=id.0)),
    };
    let (mut horizon, mut newest_first) = (i64::MAX, true);
    if let Cursor::OlderThan(id) | Cursor::NewerThan(id) = query.cursor {
        let own = select(exists(orders::table.find(id.0).filter(is_order_of(owner))));
        if !Prepared(own).get_result::<bool>(connection).await? {
            return Ok(None);
        }
        if matches!(query.cursor, Cursor::NewerThan(_)) {
            (horizon, newest_first) = (dialect::horizon(connection).await?, false);
        }
    }
    let bounds = bounds(connection, owner, query).await?;
    let list = List { owner: Some(owner), file_number: query.file_number.as_deref() };
    let within = |ids: &Ids, last: i64| {
        *ids.start().max(bounds.start())..=*ids.end().min(bounds.end()).min(&last)
    };
    let matching = |orders| between(orders, query);
    let limit = query.limit.saturating_add(1);
    let ids = within(&page, horizon);
    let orders = list.load(connection, &ids, matching, newest_first, limit).await?;
    let has_others = match others {
        Some(others) => {
            let ids = within(&others, i64::MAX);
            !list.load(connection, &ids, matching, !newest_first, 1).await?.is_empty()
        }
        None => false,
    };
    Ok(Some(Page::of(query.limit, &query.cursor, orders, has_others)))
}

/// Keeps the orders that were created between the instants of a query.
fn between<'a>(mut orders: Orders<'a>, query: &PageQuery) -> Orders<'a> {
    if let Some(instant) = query.created_after {
        orders = orders.filter(orders::created_at.ge(Utc(instant)));
    }
    if let Some(instant) = query.created_before {
        orders = orders.filter(orders::created_at.lt(Utc(instant)));
    }
    orders
}

/// Returns the smallest and the largest identifier of the owner's orders between the instants of a
/// query, so that a page is searched only there. If clocks were wrong, there are others between.
async fn bounds(
    connection: &mut Connection,
    owner: Owner,
    query: &PageQuery,
) -> Result<Ids, Failure> {
    let has_instants = query.created_after.is_some() || query.created_before.is_some();
    if query.file_number.is_some() || !has_instants {
        return Ok(i64::MIN..=i64::MAX);
    }
    let after = query.created_after.unwrap_or(datetime!(0000-01-01 0:00 UTC));
    let before = query.created_before.unwrap_or(datetime!(9999-12-31 23:59:59 UTC));
    // As rows, like the ranges of identifiers.
    let compare = |rows: &str, at| {
        let row = sql::<Bool>(rows).bind::<BigInt, _>(owner.client.0).sql(", ");
        row.bind::<Bool, _>(owner.is_test).sql(", ").bind::<Instant, _>(Utc(at)).sql(")")
    };
    // `+ 0` keeps the databases from a walk in the order of identifiers. The index of instants has
    // both columns.
    let bounds = orders::table
        .filter(orders::erased_at.is_null())
        .filter(compare("(client_id, is_test, created_at) >= (", after))
        .filter(compare("(client_id, is_test, created_at) < (", before))
        .select(sql::<(Nullable<BigInt>, Nullable<BigInt>)>("min(id + 0), max(id + 0)"));
    let bounds: (Option<i64>, Option<i64>) = Prepared(bounds).get_result(connection).await?;
    // No identifier is in the range of none.
    Ok(bounds.0.unwrap_or(i64::MAX)..=bounds.1.unwrap_or(i64::MIN))
}
