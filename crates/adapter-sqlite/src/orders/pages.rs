//! Pages of orders, newest first.

use std::ops::RangeInclusive;

use diesel::{
    dsl::{exists, select, sql},
    expression::SqlLiteral,
    prelude::*,
    sql_types::{BigInt, Bool, Double, Nullable},
    sqlite::{Sqlite, SqliteConnection},
};
use domain::{
    api_key::Owner,
    ports::{Cursor, ListedOrder, Page, PageQuery},
};
use sql_rows::{KeptOrderRow, Utc, is_order_of, row_limit, schema::orders};

use crate::{dialect, failure::Failure, ports::read::unreadable};

/// An order in a list.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
struct ListedRow {
    #[diesel(embed)]
    order: KeptOrderRow,
    #[diesel(select_expression = count_documents(), select_expression_type = SqlLiteral<BigInt>)]
    documents: i64,
}

fn count_documents() -> SqlLiteral<BigInt> {
    sql("(SELECT count(*) FROM documents WHERE order_id = orders.id)")
}

diesel::define_sql_function! {
    /// Tells the planner how likely a condition is. It returns the condition.
    fn likelihood(condition: Bool, probability: Double) -> Bool;
}

/// A query of orders whose conditions vary.
pub(crate) type Orders<'a> = orders::BoxedQuery<'a, Sqlite>;

/// Selects the orders of an owner, or of all, with a file number, or all. The indexes leave out
/// erased orders.
pub(crate) fn kept_orders(owner: Option<Owner>, file_number: Option<&str>) -> Orders<'_> {
    let mut kept = orders::table.filter(orders::erased_at.is_null()).into_boxed();
    if let Some(owner) = owner {
        kept = kept.filter(is_order_of(owner));
    }
    if let Some(file_number) = file_number {
        // Few orders have a file number, which the planner does not know: it could walk over all
        // orders of the owner.
        let has_number = orders::file_number.eq(file_number);
        kept = kept.filter(likelihood(has_number, sql::<Double>("0.000001")));
    }
    kept
}

/// Reads up to `limit` of the orders, in the order of their identifiers.
pub(crate) fn load(
    connection: &mut SqliteConnection,
    orders: Orders<'_>,
    newest_first: bool,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let limited = orders.limit(row_limit(limit));
    let ordered = if newest_first {
        limited.order(orders::id.desc())
    } else {
        limited.order(orders::id.asc())
    };
    let rows: Vec<ListedRow> = ordered
        .select(ListedRow::as_select())
        .load(connection)
        .map_err(|error| unreadable(error, &"of a page"))?;
    let listed = rows.into_iter().map(|row| row.order.into_listed(row.documents));
    Ok(listed.filter_map(Result::transpose).collect::<Result<_, _>>()?)
}

/// Returns a page of an owner's orders; `None` if the cursor is no order of the owner.
pub(crate) async fn page(
    connection: &mut SqliteConnection,
    owner: Owner,
    query: &PageQuery,
) -> Result<Option<Page>, Failure> {
    let (page, others) = match query.cursor {
        Cursor::Newest => (i64::MIN..=i64::MAX, None),
        Cursor::OlderThan(id) => (i64::MIN..=id.0.saturating_sub(1), Some(id.0..=i64::MAX)),
        Cursor::NewerThan(id) => (id.0.saturating_add(1)..=i64::MAX, Some(i64::MIN..=id.0)),
    };
    if let Cursor::OlderThan(id) | Cursor::NewerThan(id) = query.cursor {
        let own = orders::table.find(id.0).filter(is_order_of(owner));
        if !dialect::RunQueryDsl::get_result(select(exists(own)), connection).await? {
            return Ok(None);
        }
    }
    let bounds = bounds(connection, owner, query)?;
    let newest_first = !matches!(query.cursor, Cursor::NewerThan(_));
    let mut load = |range: RangeInclusive<i64>, limit| {
        let range = *range.start().max(bounds.start())..=*range.end().min(bounds.end());
        load(connection, matching(owner, query, &range), newest_first, limit)
    };
    let orders = load(page, query.limit.saturating_add(1))?;
    let has_others = match others {
        Some(others) => !load(others, 1)?.is_empty(),
        None => false,
    };
    Ok(Some(Page::of(query.limit, &query.cursor, orders, has_others)))
}

/// Selects the orders of a page in a range of identifiers.
fn matching<'a>(owner: Owner, query: &'a PageQuery, range: &RangeInclusive<i64>) -> Orders<'a> {
    let matching = kept_orders(Some(owner), query.file_number.as_deref());
    between(matching.filter(orders::id.between(*range.start(), *range.end())), query)
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
fn bounds(
    connection: &mut SqliteConnection,
    owner: Owner,
    query: &PageQuery,
) -> Result<RangeInclusive<i64>, Failure> {
    let has_instants = query.created_after.is_some() || query.created_before.is_some();
    if query.file_number.is_some() || !has_instants {
        return Ok(i64::MIN..=i64::MAX);
    }
    // `+` keeps SQLite from a walk in the order of identifiers. The index of instants has both
    // columns.
    let bound = |function| sql::<Nullable<BigInt>>(function);
    let bounds: (Option<i64>, Option<i64>) = between(kept_orders(Some(owner), None), query)
        .select((bound("min(+id)"), bound("max(+id)")))
        .get_result(connection)?;
    // No identifier is in the range of none.
    Ok(bounds.0.unwrap_or(i64::MAX)..=bounds.1.unwrap_or(i64::MIN))
}
