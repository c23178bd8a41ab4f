//! Lists of orders. Each is read as ranges of an index.

use diesel::{
    dsl::{exists, not, select},
    prelude::*,
    sqlite::{Sqlite, SqliteConnection},
};
use domain::{
    api_key::Owner,
    ports::{ListFilter, ListedOrder, Page, PageQuery},
};
use sql_rows::{
    Prepared,
    orders::{
        ListedRow,
        find::{Matching, Walk},
        is_order_of,
        lists::{Ids, OrderList, PageRanges, compare_ids, compare_numbers, listed},
        unreadable_order,
    },
    row_limit,
    schema::orders,
};

use crate::failure::Failure;

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
    let mut rows: Vec<ListedRow> = Vec::new();
    for one in list.parts() {
        let number = one.as_ref().map(|(number, _)| &**number);
        let part = also(within(list, number, ids, Matching::of(list.filter)));
        // As the partial indexes have the condition.
        let part = match one {
            Some((_, true)) => part.filter(orders::holds_file_number),
            Some((_, false)) => part.filter(not(orders::holds_file_number)),
            None => part,
        };
        let part = part.order(list.order(newest_first)).limit(row_limit(limit));
        let loaded = Prepared(part.select(ListedRow::as_select())).get_results(connection);
        rows.extend(loaded.map_err(|error| unreadable_order::<Failure>(error, &"of a list"))?);
    }
    Ok(listed(rows, newest_first, limit)?)
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
    (ids, newest_first): (&Ids, bool),
    limit: usize,
    pace: Pace<'_>,
) -> Result<(Vec<ListedOrder>, Option<i64>), Failure> {
    if filter.file_number.is_some() {
        let list = OrderList { owner: Some(owner), filter };
        let all = load(connection, list, ids, |orders| orders, newest_first, limit)?;
        return Ok((all, None));
    }
    let Some(mut left) = filter.walked_orders() else {
        let walk = Walk::of(owner, ids, newest_first, limit);
        let all = matching(connection, &walk, filter, newest_first, limit)?;
        return Ok((all, None));
    };
    let (mut ids, mut found) = (ids.clone(), Vec::new());
    loop {
        let walk = Walk::of(owner, &ids, newest_first, left.min(pace.orders));
        let wanted = limit - found.len();
        found.extend(matching(connection, &walk, filter, newest_first, wanted)?);
        if found.len() == limit {
            return Ok((found, None));
        }
        let ends = Prepared(orders::table.filter(walk.end()).select(orders::id));
        let ends: Vec<i64> = ends.get_results(connection)?;
        let Some(last) = walk.stopped_at(&ends) else { return Ok((found, None)) };
        left = left.saturating_sub(pace.orders);
        if left == 0 {
            return Ok((found, Some(last)));
        }
        if !(pace.is_awaited)() {
            return Err(Failure::TimedOut);
        }
        ids = if newest_first {
            *ids.start()..=last.saturating_sub(1)
        } else {
            last.saturating_add(1)..=*ids.end()
        };
    }
}

/// Reads up to `limit` of the orders on a walk that match.
fn matching(
    connection: &mut SqliteConnection,
    walk: &Walk,
    filter: &ListFilter,
    newest_first: bool,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let found = orders::table.filter(walk.matching(Matching::of(filter), limit));
    let loaded = Prepared(found.select(ListedRow::as_select())).get_results(connection);
    let rows = loaded.map_err(|error| unreadable_order::<Failure>(error, &"of a list"))?;
    Ok(listed(rows, newest_first, limit)?)
}

/// Returns a page of an owner's orders; `None` if the cursor is no order of the owner. Orders are
/// committed in the order of their identifiers, so a page toward newer orders misses none.
pub(crate) fn page(
    connection: &mut SqliteConnection,
    owner: Owner,
    query: &PageQuery,
    pace: Pace<'_>,
) -> Result<Option<Page>, Failure> {
    let ranges = PageRanges::of(&query.cursor);
    if let Some(id) = ranges.cursor {
        let own = select(exists(orders::table.find(id).filter(is_order_of(owner))));
        if !Prepared(own).get_result::<bool>(connection)? {
            return Ok(None);
        }
    }
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
    let (filter, newest_first) = (&query.filter, ranges.newest_first);
    let limit = query.limit.saturating_add(1);
    let on_page = (&ranges.page, newest_first);
    let (orders, stopped_at) = find(connection, owner, filter, on_page, limit, pace)?;
    let has_others = match &ranges.others {
        Some(others) => {
            let others = (others, !newest_first);
            let (found, stopped_at) = find(connection, owner, filter, others, 1, pace)?;
            stopped_at.is_some() || !found.is_empty()
        }
        None => false,
    };
    let found = Page::of(query.limit, &query.cursor, orders, has_others);
    Ok(found.stopping(&query.cursor, stopped_at))
}
