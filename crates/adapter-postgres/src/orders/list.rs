//! Lists of orders. Each is read as ranges of an index.

use diesel::{
    dsl::{exists, not, select, sql},
    pg::Pg,
    prelude::*,
    sql_types::{BigInt, Nullable},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Owner,
    order::OrderId,
    ports::{ListFilter, ListedOrder, Page, PageQuery},
};
use sql_rows::{
    Ids, ListedRow, Matching, OnPage, OrderList, PageRanges, Prepared, SEARCH_ENDS, Searched,
    common, compare_ids, compare_numbers, is_order_of, listed, row_limit, schema::orders,
    searched_before, unreadable_order,
};
use time::OffsetDateTime;

use crate::failure::Failure;

/// The last identifier before which no order can appear any more: the newest order, or the smallest
/// identifier that a transaction has announced, which draws only larger ones. Reads the locks once: a
/// transaction announces the table and the identifier.
const HORIZON: &str = "least((SELECT max(id) FROM orders), (\
    SELECT min(announced) FROM (\
        SELECT min(((classid::bigint << 32) | objid::bigint) # (28530::bigint << 48)) \
                FILTER (WHERE objsubid = 1) AS announced, \
            bool_or(objsubid = 2 AND classid = 28530 AND objid = 'orders'::regclass) AS is_ours \
        FROM pg_locks WHERE locktype = 'advisory' \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
        GROUP BY virtualtransaction\
    ) AS transactions WHERE is_ours))";

/// Returns the horizon of pages. A transaction that has drawn an identifier up to the newest order of
/// this statement's snapshot had announced itself before that. So it stands in `pg_locks`, which is
/// read after the snapshot was taken, or it has ended, and the next statement sees its orders.
async fn horizon(connection: &mut AsyncPgConnection) -> QueryResult<i64> {
    let horizon: Option<i64> =
        Prepared(select(sql::<Nullable<BigInt>>(HORIZON))).get_result(connection).await?;
    Ok(horizon.unwrap_or(i64::MAX))
}

/// A query of orders whose conditions vary.
pub(crate) type Orders<'a> = orders::BoxedQuery<'a, Pg>;

/// Selects the matching orders of a list with identifiers in a range, whatever their number.
fn within<'a>(list: OrderList<'a>, ids: &Ids, matching: Matching) -> Orders<'a> {
    let orders = orders::table.filter(matching).into_boxed();
    let (low, high) = (*ids.start(), *ids.end());
    match (list.owner, &list.filter.file_number) {
        (Some(owner), None) => {
            orders.filter(compare_ids(owner, ">=", low)).filter(compare_ids(owner, "<=", high))
        }
        (Some(owner), Some(number)) => orders
            .filter(compare_numbers(owner, number, ">=", low))
            .filter(compare_numbers(owner, number, "<=", high)),
        (None, None) => orders.filter(orders::id.between(low, high)),
        (None, Some(number)) => {
            orders.filter(orders::id.between(low, high)).filter(orders::file_number.eq(number))
        }
    }
}

/// Reads up to `limit` of the orders in a range that match, in the order of their identifiers. `also` is a
/// condition that no index serves.
pub(crate) async fn load<'a>(
    connection: &mut AsyncPgConnection,
    list: OrderList<'a>,
    ids: &Ids,
    also: impl Fn(Orders<'a>) -> Orders<'a>,
    newest_first: bool,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let mut rows: Vec<ListedRow> = Vec::new();
    for holds in list.holders() {
        let part = also(within(list, ids, Matching::of(list.filter)));
        // As the partial indexes have the condition.
        let part = match holds {
            Some(true) => part.filter(orders::holds_file_number),
            Some(false) => part.filter(not(orders::holds_file_number)),
            None => part,
        };
        let part = part.order(list.order(newest_first)).limit(row_limit(limit));
        let loaded = Prepared(part.select(ListedRow::as_select())).get_results(connection).await;
        rows.extend(loaded.map_err(|error| unreadable_order::<Failure>(error, &"of a list"))?);
    }
    Ok(listed(rows, newest_first, limit)?)
}

/// Reads up to `limit` of an owner's orders in a range that match: by the indexes of the filters, if they
/// have all of them, and else one after the other.
async fn find(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    filter: &ListFilter,
    ids: &Ids,
    newest_first: bool,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let list = OrderList { owner: Some(owner), filter };
    let matching = Matching::of(filter);
    if filter.file_number.is_some() || !matching.has_indexes() {
        return load(connection, list, ids, |orders| orders, newest_first, limit).await;
    }
    let found = OnPage::of(owner, matching, ids, newest_first, limit);
    let found = orders::table.filter(found).select(ListedRow::as_select());
    let loaded = Prepared(found).get_results(connection).await;
    let rows = loaded.map_err(|error| unreadable_order::<Failure>(error, &"of a list"))?;
    Ok(listed(rows, newest_first, limit)?)
}

/// Returns the part of a range that a search reads for one page. A file number finds its few orders.
async fn searched(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    filter: &ListFilter,
    ids: Ids,
    newest_first: bool,
) -> Result<Searched, Failure> {
    if filter.search.is_none() || filter.file_number.is_some() {
        return Ok(Searched { ids, stopped_at: None });
    }
    let all = ListFilter::default();
    let list = OrderList { owner: Some(owner), filter: &all };
    let ends = within(list, &ids, Matching::of(&all))
        .order(list.order(newest_first))
        .offset(searched_before())
        .limit(SEARCH_ENDS)
        .select(orders::id);
    let ends: Vec<i64> = Prepared(ends).get_results(connection).await?;
    Ok(Searched::of(&ids, newest_first, &ends))
}

/// Returns a page of an owner's orders; `None` if the cursor is no order of the owner.
///
/// Toward newer orders, a page ends at the horizon: no order can appear before it any more.
pub(crate) async fn page(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    query: &PageQuery,
) -> Result<Option<Page>, Failure> {
    let mut ranges = PageRanges::of(&query.cursor);
    if let Some(id) = ranges.cursor {
        let own = select(exists(orders::table.find(id).filter(is_order_of(owner))));
        if !Prepared(own).get_result::<bool>(connection).await? {
            return Ok(None);
        }
    }
    if !ranges.newest_first {
        ranges.page = common(&ranges.page, &(i64::MIN..=horizon(connection).await?));
    }
    let (filter, newest_first) = (&query.filter, ranges.newest_first);
    let Searched { ids, stopped_at } =
        searched(connection, owner, filter, ranges.page, newest_first).await?;
    let limit = query.limit.saturating_add(1);
    let orders = find(connection, owner, filter, &ids, newest_first, limit).await?;
    let has_others = match ranges.others {
        Some(others) => {
            let others = searched(connection, owner, filter, others, !newest_first).await?;
            others.stopped_at.is_some()
                || !find(connection, owner, filter, &others.ids, !newest_first, 1).await?.is_empty()
        }
        None => false,
    };
    let page = Page::of(query.limit, &query.cursor, orders, has_others);
    Ok(Some(page.stopping(&query.cursor, stopped_at)))
}

/// Returns up to `limit` of the owner's orders after an identifier that were created before an instant, the
/// smallest first.
pub(crate) async fn created_before(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    instant: OffsetDateTime,
    after: OrderId,
    limit: usize,
) -> Result<Vec<i64>, Failure> {
    let filter = ListFilter { created_before: Some(instant), ..ListFilter::default() };
    let later = after.0.saturating_add(1)..=i64::MAX;
    let found = OnPage::of(owner, Matching::of(&filter), &later, false, limit);
    Ok(Prepared(orders::table.filter(found).select(orders::id)).get_results(connection).await?)
}
