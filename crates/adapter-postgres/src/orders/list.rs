//! Lists of orders. Each is read as ranges of identifiers in an index.

use diesel::{
    dsl::{exists, not, select, sql},
    pg::Pg,
    prelude::*,
    sql_types::{BigInt, Nullable},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Owner,
    ports::{ListedOrder, Page, PageQuery},
};
use sql_rows::{
    Ids, ListedRow, OrderList, PageRanges, Prepared, Utc, common, compare_ids, compare_instants,
    compare_numbers, is_order_of, least_and_greatest, listed, row_limit, schema::orders,
    searched_instants, unreadable_order,
};

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

/// Selects the orders of a list with identifiers in a range.
fn within<'a>(list: OrderList<'a>, ids: &Ids) -> Orders<'a> {
    let kept = orders::table.filter(orders::erased_at.is_null()).into_boxed();
    let (low, high) = (*ids.start(), *ids.end());
    match (list.owner, list.file_number) {
        (Some(owner), None) => {
            kept.filter(compare_ids(owner, ">=", low)).filter(compare_ids(owner, "<=", high))
        }
        (Some(owner), Some(number)) => kept
            .filter(compare_numbers(owner, number, ">=", low))
            .filter(compare_numbers(owner, number, "<=", high)),
        (None, None) => kept.filter(orders::id.between(low, high)),
        (None, Some(number)) => {
            kept.filter(orders::id.between(low, high)).filter(orders::file_number.eq(number))
        }
    }
}

/// Reads up to `limit` of the orders in a range that match, in the order of their identifiers.
pub(crate) async fn load<'a>(
    connection: &mut AsyncPgConnection,
    list: OrderList<'a>,
    ids: &Ids,
    matching: impl Fn(Orders<'a>) -> Orders<'a>,
    newest_first: bool,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let mut rows: Vec<ListedRow> = Vec::new();
    for holds in list.holders() {
        let part = matching(within(list, ids));
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
        if !ranges.newest_first {
            ranges.page = common(&ranges.page, &(i64::MIN..=horizon(connection).await?));
        }
    }
    let bounds = bounds(connection, owner, query).await?;
    let list = OrderList { owner: Some(owner), file_number: query.file_number.as_deref() };
    let matching = |orders| between(orders, query);
    let (ids, limit) = (common(&ranges.page, &bounds), query.limit.saturating_add(1));
    let orders = load(connection, list, &ids, matching, ranges.newest_first, limit).await?;
    let has_others = match &ranges.others {
        Some(others) => {
            let ids = common(others, &bounds);
            !load(connection, list, &ids, matching, !ranges.newest_first, 1).await?.is_empty()
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
    connection: &mut AsyncPgConnection,
    owner: Owner,
    query: &PageQuery,
) -> Result<Ids, Failure> {
    let Some((after, before)) = searched_instants(query) else { return Ok(i64::MIN..=i64::MAX) };
    let bounds = orders::table
        .filter(orders::erased_at.is_null())
        .filter(compare_instants(owner, ">=", after))
        .filter(compare_instants(owner, "<", before))
        .select(least_and_greatest());
    let bounds: (Option<i64>, Option<i64>) = Prepared(bounds).get_result(connection).await?;
    // No identifier is in the range of none.
    Ok(bounds.0.unwrap_or(i64::MAX)..=bounds.1.unwrap_or(i64::MIN))
}
