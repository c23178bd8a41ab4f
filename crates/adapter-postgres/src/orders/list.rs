//! Lists of orders. Each is read as ranges of an index.

use diesel::{
    dsl::{not, select, sql},
    pg::Pg,
    prelude::*,
    sql_types::{BigInt, Nullable},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Owner,
    order::{OrderId, OrderStatus},
    ports::{ListFilter, ListPlace, ListedOrder, Page, PageQuery},
};
use sql_rows::{
    Prepared, Utc,
    orders::{
        PageRow,
        find::{Matching, Walk},
        is_order_of,
        lists::{Ids, OrderList, compare_ids, compare_numbers, ids, known_status, listed},
        places::{Found, PageRanges, Place, Span, starts},
        unreadable_order,
    },
    row_limit,
    schema::orders,
};

use crate::{failure::Failure, pool::transaction, statement::columns};

/// The last identifier before which no order can appear any more: the newest order, or the smallest
/// identifier that a transaction has announced, which draws only larger ones. Reads the locks once: a
/// transaction announces the table and the identifier.
pub(super) const HORIZON: &str = "least((SELECT max(id) FROM orders), (\
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

/// Selects the matching orders of a list with identifiers in a range, whatever their number, or with a file
/// number.
fn within<'a>(
    list: OrderList<'a>,
    number: Option<&str>,
    ids: &Ids,
    matching: Matching,
) -> Orders<'a> {
    let orders = orders::table.filter(matching).into_boxed();
    let (low, high) = (*ids.start(), *ids.end());
    match (list.owner, number) {
        (Some(owner), None) => {
            orders.filter(compare_ids(owner, ">=", low)).filter(compare_ids(owner, "<=", high))
        }
        (Some(owner), Some(number)) => orders
            .filter(compare_numbers(owner, number, ">=", low))
            .filter(compare_numbers(owner, number, "<=", high)),
        (None, None) => orders.filter(orders::id.between(low, high)),
        (None, Some(number)) => {
            let is_number = orders::file_number.eq(number.to_owned());
            orders.filter(orders::id.between(low, high)).filter(is_number)
        }
    }
}

/// Returns the queries of the parts of a list with identifiers in a range, in the order of their identifiers.
fn parts<'a>(list: OrderList<'a>, ids: &Ids, newest_first: bool) -> Vec<Orders<'a>> {
    let part = |one: Option<(String, bool)>| {
        let number = one.as_ref().map(|(number, _)| &**number);
        let part = within(list, number, ids, Matching::of(list.filter));
        // As the partial indexes have the condition.
        let part = match one {
            Some((_, true)) => part.filter(orders::holds_file_number),
            Some((_, false)) => part.filter(not(orders::holds_file_number)),
            None => part,
        };
        part.order(list.order(newest_first))
    };
    list.parts().into_iter().map(part).collect()
}

/// Returns the newest order of an owner's list by file number, and its status.
pub(super) async fn newest(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    filter: &ListFilter,
) -> Result<Option<(OrderId, OrderStatus)>, Failure> {
    let list = OrderList { owner: Some(owner), filter };
    let mut newest: Option<(i64, String)> = None;
    for part in parts(list, &(0..=i64::MAX), true) {
        let part = part.select((orders::id, orders::status)).limit(1);
        let found: Option<(i64, String)> =
            Prepared(part).get_result(connection).await.optional()?;
        newest = newest.max(found);
    }
    Ok(newest.map(known_status).transpose()?)
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
    let mut rows: Vec<PageRow> = Vec::new();
    for part in parts(list, ids, newest_first) {
        let part = also(part).limit(row_limit(limit));
        let loaded = Prepared(part.select(columns::<PageRow>())).get_results(connection).await;
        rows.extend(loaded.map_err(|error| unreadable_order::<Failure>(error, &"of a list"))?);
    }
    let found = listed(rows, false, newest_first, limit)?;
    Ok(found.into_iter().map(|found| found.order).collect())
}

/// Number of orders that one statement looks at for those that may be late: it may find many, and reads more.
const LOOKED_AT_ONCE: usize = 10_000;

/// Reads up to `limit` of an owner's orders in a range that match. Returns also the last order that it looked
/// at, if it stopped at the limit of a walk before.
async fn find(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    filter: &ListFilter,
    (span, descends): (&Span, bool),
    limit: usize,
) -> Result<(Vec<ListedOrder>, Option<ListPlace>), Failure> {
    let Some(mut left) = filter.walked_orders() else {
        let list = OrderList { owner: Some(owner), filter };
        let all = load(connection, list, &ids(span), |orders| orders, descends, limit).await?;
        return Ok((all, None));
    };
    let piece = if filter.attention.is_some() { LOOKED_AT_ONCE } else { left };
    let (mut span, mut orders) = (span.clone(), Vec::new());
    loop {
        let walk = Walk::of(owner, filter, &span, descends, left.min(piece));
        let at_once = filter.read_at_once(limit - orders.len());
        let found = matching(connection, &walk, filter, descends, at_once).await?;
        let last = if found.len() == at_once {
            found.last().map(|found| found.place)
        } else {
            let ends = orders::table.filter(walk.end()).select((starts(), orders::id));
            let ends: Vec<(Utc, i64)> = Prepared(ends).get_results(connection).await?;
            walk.stopped_at(&ends)
        };
        let found = found.into_iter().map(|found| found.order);
        orders.extend(found.filter(|order| filter.matches(order)).take(limit - orders.len()));
        left = left.saturating_sub(piece);
        match last {
            Some(last) if orders.len() < limit => {
                if left == 0 {
                    return Ok((orders, Some(last.told(filter.by_appointment))));
                }
                span = walk.behind(last);
            }
            _ => return Ok((orders, None)),
        }
    }
}

/// Reads up to `limit` of the orders on a walk that match.
async fn matching(
    connection: &mut AsyncPgConnection,
    walk: &Walk,
    filter: &ListFilter,
    descends: bool,
    limit: usize,
) -> Result<Vec<Found>, Failure> {
    let found = orders::table.filter(walk.matching(Matching::of(filter), limit));
    let loaded = Prepared(found.select(columns::<PageRow>())).get_results(connection).await;
    let rows = loaded.map_err(|error| unreadable_order::<Failure>(error, &"of a list"))?;
    Ok(listed(rows, filter.by_appointment, descends, limit)?)
}

/// Begins a transaction whose statements see one state: no erasure between them moves the end of a walk.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Returns a page of an owner's orders; `None` if the cursor has no start and is no order of the owner.
///
/// Toward newer orders, a page ends at the horizon: no order can appear before it any more.
pub(crate) async fn page(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    query: &PageQuery,
) -> Result<Option<Page>, Failure> {
    let by_appointment = query.filter.by_appointment;
    let mut at = None;
    if let Some(id) = PageRanges::order_at(&query.cursor) {
        let begin = if let Some(starts) = query.cursor_starts {
            Utc(starts)
        } else {
            let own = orders::table.find(id).filter(is_order_of(owner)).select(starts());
            let own: Option<Utc> = Prepared(own).get_result(connection).await.optional()?;
            let Some(starts) = own else { return Ok(None) };
            starts
        };
        at = Some(Place::of(by_appointment, begin, id));
    }
    let mut ranges = PageRanges::of(&query.cursor, at, by_appointment);
    // In the order of appointments, an order can appear anywhere.
    if !ranges.descends && !by_appointment {
        ranges.end_at(horizon(connection).await?);
    }
    let read =
        async |connection: &mut AsyncPgConnection| page_of(connection, owner, query, &ranges).await;
    let page = if query.filter.walked_orders().is_some() {
        transaction(connection, SNAPSHOT, read).await
    } else {
        read(connection).await
    };
    page.map(Some)
}

async fn page_of(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    query: &PageQuery,
    ranges: &PageRanges,
) -> Result<Page, Failure> {
    let (filter, descends) = (&query.filter, ranges.descends);
    let limit = query.limit.saturating_add(1);
    let (orders, stopped_at) =
        find(connection, owner, filter, (&ranges.page, descends), limit).await?;
    let has_others = match &ranges.others {
        Some(others) => {
            let (found, stopped_at) =
                find(connection, owner, filter, (others, !descends), 1).await?;
            stopped_at.is_some() || !found.is_empty()
        }
        None => false,
    };
    let page = Page::of(query.limit, &query.cursor, orders, has_others);
    Ok(page.stopping(&query.cursor, stopped_at))
}
