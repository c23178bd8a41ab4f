//! Lists of orders. Each is read as ranges of an index.

use diesel::{
    dsl::not,
    prelude::*,
    sqlite::{Sqlite, SqliteConnection},
};
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

use crate::{failure::Failure, store::columns};

/// A query of orders whose conditions vary.
pub(crate) type Orders<'a> = orders::BoxedQuery<'a, Sqlite>;

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
pub(super) fn newest(
    connection: &mut SqliteConnection,
    owner: Owner,
    filter: &ListFilter,
) -> Result<Option<(OrderId, OrderStatus)>, Failure> {
    let list = OrderList { owner: Some(owner), filter };
    let mut newest: Option<(i64, String)> = None;
    for part in parts(list, &(0..=i64::MAX), true) {
        let part = part.select((orders::id, orders::status)).limit(1);
        let found: Option<(i64, String)> = Prepared(part).get_result(connection).optional()?;
        newest = newest.max(found);
    }
    Ok(newest.map(known_status).transpose()?)
}

/// Reads up to `limit` of the orders in a range that match, in the order of their identifiers. `also` is a
/// condition that no index serves.
pub(crate) fn load<'a>(
    connection: &mut SqliteConnection,
    list: OrderList<'a>,
    ids: &Ids,
    also: impl Fn(Orders<'a>) -> Orders<'a>,
    newest_first: bool,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let mut rows: Vec<PageRow> = Vec::new();
    for part in parts(list, ids, newest_first) {
        let part = also(part).limit(row_limit(limit));
        let loaded = Prepared(part.select(columns::<PageRow>())).get_results(connection);
        rows.extend(loaded.map_err(|error| unreadable_order::<Failure>(error, &"of a list"))?);
    }
    let found = listed(rows, false, newest_first, limit)?;
    Ok(found.into_iter().map(|found| found.order).collect())
}

/// How a long walk ends early. diesel cannot interrupt a statement of SQLite.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'a> {
    /// Number of orders that one statement looks at.
    pub(crate) orders: usize,
    /// Returns whether the caller still waits.
    pub(crate) is_awaited: &'a dyn Fn() -> bool,
}

/// Reads up to `limit` of an owner's orders in a range that match. Returns also the last order that it looked
/// at, if it stopped at the limit of a walk before.
fn find(
    connection: &mut SqliteConnection,
    owner: Owner,
    filter: &ListFilter,
    (span, descends): (&Span, bool),
    limit: usize,
    pace: Pace<'_>,
) -> Result<(Vec<ListedOrder>, Option<ListPlace>), Failure> {
    let Some(mut left) = filter.walked_orders() else {
        if filter.file_number.is_some() {
            let list = OrderList { owner: Some(owner), filter };
            let all = load(connection, list, &ids(span), |orders| orders, descends, limit)?;
            return Ok((all, None));
        }
        let walk = Walk::of(owner, filter, span, descends, limit);
        let all = matching(connection, &walk, filter, descends, limit)?;
        return Ok((all.into_iter().map(|found| found.order).collect(), None));
    };
    let (mut span, mut orders) = (span.clone(), Vec::new());
    loop {
        let walk = Walk::of(owner, filter, &span, descends, left.min(pace.orders));
        let at_once = filter.read_at_once(limit - orders.len());
        let found = matching(connection, &walk, filter, descends, at_once)?;
        let last = if found.len() == at_once {
            found.last().map(|found| found.place)
        } else {
            let ends = orders::table.filter(walk.end()).select((starts(), orders::id));
            let ends: Vec<(Utc, i64)> = Prepared(ends).get_results(connection)?;
            walk.stopped_at(&ends)
        };
        let found = found.into_iter().map(|found| found.order);
        orders.extend(found.filter(|order| filter.matches(order)).take(limit - orders.len()));
        left = left.saturating_sub(pace.orders);
        match last {
            Some(last) if orders.len() < limit => {
                if left == 0 {
                    return Ok((orders, Some(last.told(filter.by_appointment))));
                }
                span = walk.behind(last);
            }
            _ => return Ok((orders, None)),
        }
        if !(pace.is_awaited)() {
            return Err(Failure::TimedOut);
        }
    }
}

/// Reads up to `limit` of the orders on a walk that match.
fn matching(
    connection: &mut SqliteConnection,
    walk: &Walk,
    filter: &ListFilter,
    descends: bool,
    limit: usize,
) -> Result<Vec<Found>, Failure> {
    let found = orders::table.filter(walk.matching(Matching::of(filter), limit));
    let loaded = Prepared(found.select(columns::<PageRow>())).get_results(connection);
    let rows = loaded.map_err(|error| unreadable_order::<Failure>(error, &"of a list"))?;
    Ok(listed(rows, filter.by_appointment, descends, limit)?)
}

/// Returns a page of an owner's orders; `None` if the cursor has no start and is no order of the owner. Orders are
/// committed in the order of their identifiers, so a page toward newer orders misses none.
pub(crate) fn page(
    connection: &mut SqliteConnection,
    owner: Owner,
    query: &PageQuery,
    pace: Pace<'_>,
) -> Result<Option<Page>, Failure> {
    let by_appointment = query.filter.by_appointment;
    let mut at = None;
    if let Some(id) = PageRanges::order_at(&query.cursor) {
        let begin = if let Some(starts) = query.cursor_starts {
            Utc(starts)
        } else {
            let own = orders::table.find(id).filter(is_order_of(owner)).select(starts());
            let own: Option<Utc> = Prepared(own).get_result(connection).optional()?;
            let Some(starts) = own else { return Ok(None) };
            starts
        };
        at = Some(Place::of(by_appointment, begin, id));
    }
    let ranges = PageRanges::of(&query.cursor, at, by_appointment);
    let read = |connection: &mut SqliteConnection| page_of(connection, owner, query, &ranges, pace);
    let found = if query.filter.walked_orders().is_some() {
        // Its statements see one state: no erasure between them moves the end of a walk.
        connection.transaction(read)
    } else {
        read(connection)
    };
    found.map(Some)
}

fn page_of(
    connection: &mut SqliteConnection,
    owner: Owner,
    query: &PageQuery,
    ranges: &PageRanges,
    pace: Pace<'_>,
) -> Result<Page, Failure> {
    let (filter, descends) = (&query.filter, ranges.descends);
    let limit = query.limit.saturating_add(1);
    let on_page = (&ranges.page, descends);
    let (orders, stopped_at) = find(connection, owner, filter, on_page, limit, pace)?;
    let has_others = match &ranges.others {
        Some(others) => {
            let others = (others, !descends);
            let (found, stopped_at) = find(connection, owner, filter, others, 1, pace)?;
            stopped_at.is_some() || !found.is_empty()
        }
        None => false,
    };
    let found = Page::of(query.limit, &query.cursor, orders, has_others);
    Ok(found.stopping(&query.cursor, stopped_at))
}
