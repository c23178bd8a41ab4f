//! Pages of orders, newest first.

use diesel::{
    dsl::{exists, select, sql},
    expression::SqlLiteral,
    prelude::*,
    sql_types::{BigInt, Bool, Double},
    sqlite::{Sqlite, SqliteConnection},
};
use domain::{
    api_key::ClientId,
    order::OrderId,
    ports::{Cursor, ListedOrder, Page, PageQuery},
};
use sql_rows::{DISORDER, KeptOrderRow, Prepared, Utc, row_limit, schema::orders};
use time::OffsetDateTime;

use crate::failure::Failure;

/// An order in a list.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub(crate) struct ListedRow {
    #[diesel(embed)]
    order: KeptOrderRow,
    #[diesel(select_expression = count_documents(), select_expression_type = SqlLiteral<BigInt>)]
    documents: i64,
}

fn count_documents() -> SqlLiteral<BigInt> {
    sql("(SELECT count(*) FROM documents WHERE order_id = orders.id)")
}

/// A query of orders whose conditions vary. Each text of it stays prepared.
pub(crate) type Orders<'a> = orders::BoxedQuery<'a, Sqlite>;

diesel::define_sql_function! {
    /// Tells the planner how likely a condition is. It returns the condition.
    fn likelihood(condition: Bool, probability: Double) -> Bool;
}

/// The condition of a file number. Few orders have it, which the planner does not know: it could
/// walk over all orders of the client.
pub(crate) fn has_file_number<'a>(
    file_number: &'a str,
) -> Box<dyn BoxableExpression<orders::table, Sqlite, SqlType = Bool> + 'a> {
    Box::new(likelihood(orders::file_number.eq(file_number), sql::<Double>("0.000001")))
}

/// Reads orders in lists.
pub(crate) fn load(
    connection: &mut SqliteConnection,
    query: Orders<'_>,
) -> Result<Vec<ListedOrder>, Failure> {
    let rows: Vec<ListedRow> = Prepared(query.select(ListedRow::as_select()))
        .load(connection)
        .map_err(|error| Failure::unreadable(error, &"of a page"))?;
    let listed = rows.into_iter().map(|row| row.order.into_listed(row.documents));
    Ok(listed.filter_map(Result::transpose).collect::<Result<_, _>>()?)
}

/// Returns a page of a client's orders; `None` if the cursor is no order of the client.
pub(crate) fn page(
    connection: &mut SqliteConnection,
    client: ClientId,
    query: &PageQuery,
) -> Result<Option<Page>, Failure> {
    let cursor = match query.cursor {
        Cursor::Newest => None,
        Cursor::OlderThan(id) | Cursor::NewerThan(id) => Some(id),
    };
    if let Some(id) = cursor
        && !is_order_of(connection, client, id)?
    {
        return Ok(None);
    }
    let range = Range::of(connection, query)?;
    let beyond = limit_plus_one(query.limit);
    let (page, others) = match query.cursor {
        Cursor::Newest => (range, None),
        Cursor::OlderThan(id) => (range.before(id.0), Some(range.from(id.0))),
        Cursor::NewerThan(id) => (range.after(id.0), Some(range.to(id.0))),
    };
    let matching = matching(client, query, page).limit(beyond);
    let orders = if matches!(query.cursor, Cursor::NewerThan(_)) {
        load(connection, matching.order(orders::id.asc()))?
    } else {
        load(connection, matching.order(orders::id.desc()))?
    };
    let has_others = match others {
        Some(others) => has_any(connection, client, query, others)?,
        None => false,
    };
    Ok(Some(Page::of(query, orders, has_others)))
}

fn limit_plus_one(limit: usize) -> i64 {
    row_limit(limit.saturating_add(1))
}

fn is_order_of(
    connection: &mut SqliteConnection,
    client: ClientId,
    id: OrderId,
) -> Result<bool, Failure> {
    let own = orders::table.find(id.0).filter(orders::client_id.eq(client.0));
    Ok(select(exists(own)).get_result(connection)?)
}

/// Returns the orders of a client in a range of identifiers that match the filters. The indexes of
/// pages leave out erased orders.
fn matching(client: ClientId, query: &PageQuery, range: Range) -> Orders<'_> {
    let mut matching = orders::table
        .filter(orders::client_id.eq(client.0))
        .filter(orders::erased_at.is_null())
        .filter(orders::id.ge(range.low))
        .filter(orders::id.le(range.high))
        .into_boxed();
    if let Some(file_number) = &query.file_number {
        matching = matching.filter(has_file_number(file_number));
    }
    if let Some(instant) = query.created_after {
        matching = matching.filter(orders::created_at.ge(Utc(instant)));
    }
    if let Some(instant) = query.created_before {
        matching = matching.filter(orders::created_at.lt(Utc(instant)));
    }
    matching
}

fn has_any(
    connection: &mut SqliteConnection,
    client: ClientId,
    query: &PageQuery,
    range: Range,
) -> Result<bool, Failure> {
    let any = matching(client, query, range).select(orders::id).limit(1);
    Ok(Prepared(any).get_result::<i64>(connection).optional()?.is_some())
}

/// A range of identifiers, with its ends.
#[derive(Clone, Copy)]
struct Range {
    low: i64,
    high: i64,
}

impl Range {
    /// Returns a range that has all orders of the query's time.
    fn of(connection: &mut SqliteConnection, query: &PageQuery) -> Result<Self, Failure> {
        let mut range = Self { low: i64::MIN, high: i64::MAX };
        if let Some(instant) = query.created_after {
            let earliest = instant.saturating_sub(DISORDER);
            range.low = first_created_from(connection, earliest)?;
        }
        if let Some(instant) = query.created_before {
            range.high = last_created_before(connection, instant)?;
        }
        Ok(range)
    }

    fn before(self, id: i64) -> Self {
        self.to(id.saturating_sub(1))
    }

    fn after(self, id: i64) -> Self {
        self.from(id.saturating_add(1))
    }

    fn from(self, id: i64) -> Self {
        Self { low: self.low.max(id), ..self }
    }

    fn to(self, id: i64) -> Self {
        Self { high: self.high.min(id), ..self }
    }
}

/// Returns an identifier after which no order was created before an instant.
pub(crate) fn last_created_before(
    connection: &mut SqliteConnection,
    instant: OffsetDateTime,
) -> Result<i64, Failure> {
    first_created_from(connection, instant.saturating_add(DISORDER))
}

/// Returns the first identifier of an order that was created at an instant or later, or the one
/// behind the last. Identifiers grow nearly as instants do, so a search by halves needs no index of
/// instants, for which each order would pay.
fn first_created_from(
    connection: &mut SqliteConnection,
    instant: OffsetDateTime,
) -> Result<i64, Failure> {
    let ends = (diesel::dsl::min(orders::id), diesel::dsl::max(orders::id));
    let (min, max): (Option<i64>, Option<i64>) = {
        let min = orders::table.select(ends.0).get_result(connection)?;
        (min, orders::table.select(ends.1).get_result(connection)?)
    };
    let (Some(mut low), Some(max)) = (min, max) else { return Ok(i64::MAX) };
    let mut high = max.saturating_add(1);
    while low < high {
        let middle = low.midpoint(high);
        let (id, created_at): (i64, Utc) = orders::table
            .filter(orders::id.ge(middle))
            .order(orders::id)
            .select((orders::id, orders::created_at))
            .first(connection)
            .map_err(|error| Failure::unreadable(error, &middle))?;
        if created_at.0 < instant {
            low = id.saturating_add(1);
        } else {
            high = middle;
        }
    }
    Ok(low)
}
