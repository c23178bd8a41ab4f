//! Pages of orders.
//!
//! A page is a range of identifiers in one index. Two statements read it: the first finds the
//! range, the second the orders. The first page without instants needs no first statement.

use diesel::{
    QueryableByName, sql_query,
    sql_types::{BigInt, Bool, Nullable, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Owner,
    order::OrderId,
    ports::{Cursor, ListedOrder, Page, PageQuery},
};
use sql_rows::{KeptOrderRow, party_column, row_limit};

use super::insert::ANNOUNCED;
use crate::{failure::Failure, ports::read::unreadable, statement::Prepared};

/// A direction in which the orders of a page are read from its cursor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Toward {
    Older,
    Newer,
}

/// Where the orders of a page are.
#[derive(QueryableByName)]
struct Range {
    #[diesel(sql_type = BigInt)]
    low: i64,
    #[diesel(sql_type = BigInt)]
    high: i64,
    /// Whether the cursor is an order of the owner.
    #[diesel(sql_type = Bool)]
    is_known: bool,
    /// Whether orders match on the other side of the cursor, or at it.
    #[diesel(sql_type = Bool)]
    has_others: bool,
}

/// An order in a list.
#[derive(QueryableByName)]
pub(crate) struct ListedRow {
    #[diesel(embed)]
    order: KeptOrderRow,
    #[diesel(sql_type = BigInt)]
    documents: i64,
}

impl ListedRow {
    /// Returns the orders of rows, without erased ones.
    pub(crate) fn all_listed(rows: Vec<Self>) -> Result<Vec<ListedOrder>, Failure> {
        let listed = rows.into_iter().map(|row| row.order.into_listed(row.documents));
        Ok(listed.filter_map(Result::transpose).collect::<Result<_, _>>()?)
    }
}

/// The columns of an order `o` in a result.
const COLUMNS: &str = "o.id, o.erased_at, o.client_id, o.api_key_id, o.signing_service_id, \
    o.notary_id, o.starts_at, o.ends_at, o.created_at, o.updated_at, o.is_test, \
    o.holds_file_number, o.file_number, o.status, o.details::text AS details";

/// Returns the columns of an order `o` in a list.
pub(crate) fn listed_columns() -> String {
    format!("{COLUMNS}, (SELECT count(*) FROM documents WHERE order_id = o.id) AS documents")
}

/// Returns a page of an owner's orders; `None` if the cursor is no order of the owner.
pub(crate) async fn page(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    query: &PageQuery,
) -> Result<Option<Page>, Failure> {
    let (toward, cursor) = match query.cursor {
        Cursor::Newest => (Toward::Older, None),
        Cursor::OlderThan(OrderId(id)) => (Toward::Older, Some(id)),
        Cursor::NewerThan(OrderId(id)) => (Toward::Newer, Some(id)),
    };
    let mut range = Range { low: i64::MIN, high: i64::MAX, is_known: true, has_others: false };
    if cursor.is_some() || has_instants(query) {
        range = find_range(connection, owner, query, toward, cursor).await?;
    }
    if !range.is_known {
        return Ok(None);
    }
    let (low, high) = match (toward, cursor) {
        (_, None) => (range.low, range.high),
        (Toward::Older, Some(id)) => (range.low, range.high.min(id.saturating_sub(1))),
        (Toward::Newer, Some(id)) => (range.low.max(id.saturating_add(1)), range.high),
    };
    let rows = orders(connection, owner, query, toward, (low, high)).await?;
    let orders = ListedRow::all_listed(rows)?;
    Ok(Some(Page::of(query.limit, &query.cursor, orders, range.has_others)))
}

fn has_instants(query: &PageQuery) -> bool {
    query.created_after.is_some() || query.created_before.is_some()
}

/// Returns the orders `o` of a list. Of those with a file number, one index has the orders that hold
/// it, and another one the others.
pub(crate) fn source(file_number: Option<&str>) -> &'static str {
    match file_number {
        Some(_) => {
            "(SELECT * FROM orders WHERE holds_file_number \
            UNION ALL SELECT * FROM orders WHERE NOT holds_file_number) AS o"
        }
        None => "orders AS o",
    }
}

/// Returns the columns of the index that a page reads, and their values. Bounds are compared as
/// rows: no other index can serve them, whatever the planner knows about the clients. `$1`
/// and `$2` are the owner, and `$3` the file number if there is one.
fn index(owner: Owner, query: &PageQuery) -> (String, &'static str) {
    let (column, _) = party_column(owner.party);
    if query.file_number.is_some() {
        (format!("file_number, {column}, is_test"), "$3, $1, $2")
    } else {
        (format!("{column}, is_test"), "$1, $2")
    }
}

/// Returns the condition of orders that match a query and have identifiers from `low` to `high`.
/// `$4` and `$5` are the instants.
fn matching(owner: Owner, query: &PageQuery, low: &str, high: &str) -> String {
    let (columns, values) = index(owner, query);
    format!(
        "({columns}, id) >= ({values}, {low}) AND ({columns}, id) <= ({values}, {high}) \
        AND erased_at IS NULL AND ($4 IS NULL OR created_at >= $4) \
        AND ($5 IS NULL OR created_at < $5)"
    )
}

fn order_by(owner: Owner, query: &PageQuery, ascending: bool) -> String {
    let way = if ascending { "" } else { " DESC" };
    let columns = index(owner, query).0.replace(", ", &format!("{way}, "));
    format!("ORDER BY {columns}{way}, id{way}")
}

/// Returns a query of the smallest and the largest identifier of the owner's orders between the
/// instants, so that a page is searched only there. If clocks were wrong, there are others between.
/// `+ 0` keeps PostgreSQL from a walk in the order of identifiers. The index of instants has both
/// columns.
fn bounds(owner: Owner, query: &PageQuery) -> String {
    if query.file_number.is_some() || !has_instants(query) {
        return "SELECT -9223372036854775808 AS low, 9223372036854775807 AS high".to_owned();
    }
    let (column, _) = party_column(owner.party);
    format!(
        "SELECT coalesce(min(id + 0), 9223372036854775807) AS low, \
            coalesce(max(id + 0), -9223372036854775808) AS high FROM orders \
        WHERE ({column}, is_test, created_at) >= ($1, $2, coalesce($4, '-infinity')) \
            AND ({column}, is_test, created_at) < ($1, $2, coalesce($5, 'infinity')) \
            AND erased_at IS NULL"
    )
}

/// Finds the range of a page, and whether orders match beside it.
///
/// Toward newer orders, the range ends at the horizon: the last identifier before which no order
/// can appear any more. A transaction that has drawn an identifier up to the newest order of this
/// statement's snapshot had announced itself before that. So it stands in `pg_locks`, which is read
/// after the snapshot was taken, or it has ended, and the next statement sees its orders.
async fn find_range(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    query: &PageQuery,
    toward: Toward,
    cursor: Option<i64>,
) -> Result<Range, Failure> {
    let (others, horizon) = match toward {
        Toward::Older => (matching(owner, query, "$6", "high"), "NULL::bigint".to_owned()),
        Toward::Newer => (
            matching(owner, query, "low", "$6"),
            format!("least((SELECT max(id) FROM orders), {ANNOUNCED})"),
        ),
    };
    let (source, order_by) =
        (source(query.file_number.as_deref()), order_by(owner, query, toward == Toward::Older));
    let (column, party) = party_column(owner.party);
    let text = format!(
        "WITH range AS MATERIALIZED ({}) SELECT low, least(high, {horizon}) AS high, \
            $6 IS NULL OR EXISTS (SELECT 1 FROM orders WHERE id = $6 AND {column} = $1 \
                AND is_test = $2) AS is_known, \
            (SELECT id FROM {source} WHERE {others} {order_by} LIMIT 1) IS NOT NULL AS has_others \
        FROM range",
        bounds(owner, query)
    );
    let query = sql_query(text)
        .bind::<BigInt, _>(party)
        .bind::<Bool, _>(owner.is_test)
        .bind::<Nullable<Text>, _>(query.file_number.as_deref())
        .bind::<Nullable<Timestamptz>, _>(query.created_after)
        .bind::<Nullable<Timestamptz>, _>(query.created_before)
        .bind::<Nullable<BigInt>, _>(cursor);
    Ok(Prepared(query).get_result(connection).await?)
}

/// Returns one order more than the page may have.
async fn orders(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    query: &PageQuery,
    toward: Toward,
    (low, high): (i64, i64),
) -> Result<Vec<ListedRow>, Failure> {
    let (columns, matching) = (listed_columns(), matching(owner, query, "$6", "$7"));
    let (source, order_by) =
        (source(query.file_number.as_deref()), order_by(owner, query, toward == Toward::Newer));
    let text = format!("SELECT {columns} FROM {source} WHERE {matching} {order_by} LIMIT $8");
    let (_, party) = party_column(owner.party);
    let statement = sql_query(text)
        .bind::<BigInt, _>(party)
        .bind::<Bool, _>(owner.is_test)
        .bind::<Nullable<Text>, _>(query.file_number.as_deref())
        .bind::<Nullable<Timestamptz>, _>(query.created_after)
        .bind::<Nullable<Timestamptz>, _>(query.created_before)
        .bind::<BigInt, _>(low)
        .bind::<BigInt, _>(high)
        .bind::<BigInt, _>(row_limit(query.limit.saturating_add(1)));
    let rows = Prepared(statement).get_results(connection).await;
    rows.map_err(|error| unreadable(error, &format!("of {}", owner.party)))
}
