//! Pages of orders, newest first.

use diesel::{
    dsl::{exists, not, select, sql},
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

/// The orders of a list, in one direction, up to a limit.
pub(crate) struct Listing<'a, F> {
    /// Returns a statement with the other conditions, and without an order.
    pub(crate) matching: F,
    pub(crate) client: Option<ClientId>,
    pub(crate) file_number: Option<&'a str>,
    pub(crate) newest_first: bool,
    pub(crate) limit: usize,
}

impl<'a, F: Fn() -> Orders<'a>> Listing<'a, F> {
    /// Reads the orders. One index has those that hold their file number, another one the others.
    pub(crate) fn load(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<ListedOrder>, Failure> {
        let Some(file_number) = self.file_number else {
            return load(connection, self.of_client());
        };
        // Few orders have a file number, which the planner does not know: it could walk over all
        // orders of the client. `+` keeps it from their index.
        let has_number = || {
            let equal = orders::file_number.eq(file_number);
            likelihood(equal, sql::<Double>("0.000001"))
        };
        let held = self.in_order().filter(has_number()).filter(orders::holds_file_number);
        let mut listed = match self.client {
            Some(client) => {
                let of_client = sql::<BigInt>("+client_id").eq(client.0);
                load(connection, held.filter(of_client))?
            }
            None => load(connection, held)?,
        };
        let others = self.of_client().filter(has_number()).filter(not(orders::holds_file_number));
        listed.extend(load(connection, others)?);
        listed.sort_by_key(|order| order.stored.id.0);
        if self.newest_first {
            listed.reverse();
        }
        listed.truncate(self.limit);
        Ok(listed)
    }

    fn of_client(&self) -> Orders<'a> {
        match self.client {
            Some(client) => self.in_order().filter(orders::client_id.eq(client.0)),
            None => self.in_order(),
        }
    }

    fn in_order(&self) -> Orders<'a> {
        let limited = (self.matching)().limit(row_limit(self.limit));
        if self.newest_first {
            limited.order(orders::id.desc())
        } else {
            limited.order(orders::id.asc())
        }
    }
}

fn load(connection: &mut SqliteConnection, query: Orders<'_>) -> Result<Vec<ListedOrder>, Failure> {
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
    let (page, others) = match query.cursor {
        Cursor::Newest => (range, None),
        Cursor::OlderThan(id) => (range.before(id.0), Some(range.from(id.0))),
        Cursor::NewerThan(id) => (range.after(id.0), Some(range.to(id.0))),
    };
    let mut load = |range: Range, limit: usize| {
        let listing = Listing {
            matching: || matching(query, range),
            client: Some(client),
            file_number: query.file_number.as_deref(),
            newest_first: !matches!(query.cursor, Cursor::NewerThan(_)),
            limit,
        };
        listing.load(connection)
    };
    let orders = load(page, query.limit.saturating_add(1))?;
    let has_others = match others {
        Some(others) => !load(others, 1)?.is_empty(),
        None => false,
    };
    Ok(Some(Page::of(query, orders, has_others)))
}

fn is_order_of(
    connection: &mut SqliteConnection,
    client: ClientId,
    id: OrderId,
) -> Result<bool, Failure> {
    let own = orders::table.find(id.0).filter(orders::client_id.eq(client.0));
    Ok(select(exists(own)).get_result(connection)?)
}

/// Returns the orders in a range of identifiers that were created between the instants of a query.
/// The indexes of pages leave out erased orders.
fn matching(query: &PageQuery, range: Range) -> Orders<'_> {
    let mut matching = orders::table
        .filter(orders::erased_at.is_null())
        .filter(orders::id.ge(range.low))
        .filter(orders::id.le(range.high))
        .into_boxed();
    if let Some(instant) = query.created_after {
        matching = matching.filter(orders::created_at.ge(Utc(instant)));
    }
    if let Some(instant) = query.created_before {
        matching = matching.filter(orders::created_at.lt(Utc(instant)));
    }
    matching
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
