//! The filters of a list, and the walk that finds the orders of a page.
//!
//! A page is in the order of identifiers. It reads the entries of an owner's index in that order, up to a
//! number that the domain sets, and takes those that match. The index has the columns of the filters, so
//! no row is read; a search reads rows, because its text is in no index.
//!
//! Filters that are not set are bound as `NULL`: their combinations share one statement text.

use diesel::{
    QueryResult,
    backend::Backend,
    expression::{AppearsOnTable, Expression, ValidGrouping, is_aggregate},
    query_builder::{AstPass, QueryFragment, QueryId},
    serialize::ToSql,
    sql_types::{BigInt, Bool, HasSqlType, Nullable, SingleValue, SqlType, Text, is_nullable},
};
use domain::{
    api_key::{Owner, Party},
    order::OrderStatus,
    ports::ListFilter,
};
use serde_json::json;

use crate::{
    Instant, Utc,
    orders::{lists::Ids, party_column},
    row_limit,
    schema::orders,
};

/// The parts of statements in which the databases differ.
pub trait ListBackend: Backend + HasSqlType<Bool> + HasSqlType<Instant> {
    /// Before a query of the identifiers on a page. A join with it could read whole tables.
    const IN: &str;
    /// After it.
    const END: &str;
    /// Whether an index serves a comparison of rows up to its last column.
    const COMPARES_ROWS: bool;
    /// The query of the texts in a JSON array: what stands before and after the array.
    const TEXTS_OF: [&str; 2];
    /// The function of a text and a part of it that tells where the part is, from 1.
    const CONTAINS: &str;

    /// Returns the table of orders, and which index to use if the planner does not find it by itself.
    fn orders_by(index: &str) -> String;
}

#[cfg(feature = "postgres")]
impl ListBackend for diesel::pg::Pg {
    const IN: &str = " = ANY (ARRAY(";
    const END: &str = "))";
    const COMPARES_ROWS: bool = true;
    const TEXTS_OF: [&str; 2] = ["SELECT json_array_elements_text(CAST(", " AS json))"];
    const CONTAINS: &str = "strpos";

    fn orders_by(_: &str) -> String {
        "orders".to_owned()
    }
}

#[cfg(feature = "sqlite")]
impl ListBackend for diesel::sqlite::Sqlite {
    const IN: &str = " IN (";
    const END: &str = ")";
    const COMPARES_ROWS: bool = false;
    const TEXTS_OF: [&str; 2] = ["SELECT value FROM json_each(", ")"];
    const CONTAINS: &str = "instr";

    fn orders_by(index: &str) -> String {
        format!("orders INDEXED BY {index}")
    }
}

/// The condition of the orders that match the filters of a list, besides the file number.
pub struct Matching {
    is_filtered: bool,
    /// A JSON array.
    statuses: Option<String>,
    signing_date_from: Option<String>,
    signing_date_to: Option<String>,
    updated_after: Option<Utc>,
    created_after: Option<Utc>,
    created_before: Option<Utc>,
    search: Option<String>,
}

impl Matching {
    /// Returns the condition of a list's filters.
    pub fn of(filter: &ListFilter) -> Self {
        let ListFilter {
            file_number,
            created_after,
            created_before,
            statuses,
            signing_date_from,
            signing_date_to,
            updated_after,
            search,
        } = filter;
        let others = ListFilter { file_number: file_number.clone(), ..ListFilter::default() };
        let texts: Vec<_> = statuses.iter().map(OrderStatus::as_str).collect();
        Self {
            is_filtered: *filter != others,
            statuses: (!texts.is_empty()).then(|| json!(texts).to_string()),
            signing_date_from: signing_date_from.map(|date| date.to_string()),
            signing_date_to: signing_date_to.map(|date| date.to_string()),
            updated_after: updated_after.map(Utc),
            created_after: created_after.map(Utc),
            created_before: created_before.map(Utc),
            search: search.as_ref().map(|text| text.as_str().to_owned()),
        }
    }

    /// Writes the filters, each after `AND`.
    fn walk_filters<'b, DB: ListBackend>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        if !self.is_filtered {
            return Ok(());
        }
        let [before, after] = DB::TEXTS_OF;
        unless_null::<Text, _, _>(out, &self.statuses, &format!("status IN ({before}"))?;
        out.push_sql(after);
        out.push_sql("))");
        compare::<Text, _, _>(out, "signing_date >= ", &self.signing_date_from)?;
        compare::<Text, _, _>(out, "signing_date <= ", &self.signing_date_to)?;
        compare::<Instant, _, _>(out, "updated_at >= ", &self.updated_after)?;
        compare::<Instant, _, _>(out, "created_at >= ", &self.created_after)?;
        compare::<Instant, _, _>(out, "created_at < ", &self.created_before)?;
        // Alone in a statement of its own, because it reads rows.
        if let Some(search) = &self.search {
            out.push_sql(&format!(" AND {}(search_text, ", DB::CONTAINS));
            out.push_bind_param::<Text, _>(search)?;
            out.push_sql(") > 0");
        }
        Ok(())
    }
}

/// Writes a comparison that holds for each order if the value is `NULL`.
#[expect(clippy::ref_option, reason = "a statement borrows the values that it binds")]
fn compare<'b, T, V, DB>(
    out: &mut AstPass<'_, 'b, DB>,
    comparison: &str,
    value: &'b Option<V>,
) -> QueryResult<()>
where
    T: SqlType<IsNull = is_nullable::NotNull> + SingleValue,
    V: ToSql<T, DB>,
    DB: Backend + HasSqlType<T>,
{
    unless_null::<T, _, _>(out, value, comparison)?;
    out.push_sql(")");
    Ok(())
}

/// Writes `AND`, and a condition up to its value, unless the value is `NULL`. The parenthesis stays open.
#[expect(clippy::ref_option, reason = "a statement borrows the values that it binds")]
fn unless_null<'b, T, V, DB>(
    out: &mut AstPass<'_, 'b, DB>,
    value: &'b Option<V>,
    condition: &str,
) -> QueryResult<()>
where
    T: SqlType<IsNull = is_nullable::NotNull> + SingleValue,
    V: ToSql<T, DB>,
    DB: Backend + HasSqlType<T>,
{
    out.push_sql(" AND (");
    out.push_bind_param::<Nullable<T>, _>(value)?;
    out.push_sql(" IS NULL OR ");
    out.push_sql(condition);
    out.push_bind_param::<Nullable<T>, _>(value)
}

impl<DB: ListBackend> QueryFragment<DB> for Matching
where
    String: ToSql<Text, DB>,
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        // As the partial indexes have the condition.
        out.push_sql("erased_at IS NULL");
        self.walk_filters(&mut out)
    }
}

/// The orders of an owner in a range of identifiers, up to a number of them.
#[derive(Clone)]
pub struct Walk {
    column: &'static str,
    index: &'static str,
    party: i64,
    is_test: bool,
    low: i64,
    high: i64,
    newest_first: bool,
    /// The number.
    entries: i64,
}

impl Walk {
    /// Returns the walk through up to `entries` orders.
    pub fn of(owner: Owner, ids: &Ids, newest_first: bool, entries: usize) -> Self {
        let (column, party) = party_column(owner.party);
        let index = match owner.party {
            Party::Client(_) => "orders_client",
            Party::Service(_) => "orders_service",
        };
        let (low, high, entries) = (*ids.start(), *ids.end(), row_limit(entries));
        Self { column, index, party, is_test: owner.is_test, low, high, newest_first, entries }
    }

    /// Returns the condition of the first `limit` orders on the walk that match.
    pub fn matching(&self, matching: Matching, limit: usize) -> OnPage {
        OnPage { walk: self.clone(), matching, limit: row_limit(limit) }
    }

    /// Returns the condition of the last order of the walk and the one behind it, if there are so many.
    pub fn end(&self) -> AtEnd {
        AtEnd { before: self.entries - 1, walk: self.clone() }
    }

    /// Returns the last order of the walk, if there are more orders behind it. `ends` are the orders at its
    /// end.
    pub fn stopped_at(&self, ends: &[i64]) -> Option<i64> {
        let [one, other] = *ends else { return None };
        Some(if self.newest_first { one.max(other) } else { one.min(other) })
    }

    /// Writes the query of columns, in the order of the index.
    fn walk_orders<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
        columns: &str,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
    {
        let (column, orders) = (self.column, DB::orders_by(self.index));
        out.push_sql(&format!("SELECT {columns} FROM {orders} WHERE erased_at IS NULL"));
        if !DB::COMPARES_ROWS {
            out.push_sql(&format!(" AND {column} = "));
            out.push_bind_param::<BigInt, _>(&self.party)?;
            out.push_sql(" AND is_test = ");
            out.push_bind_param::<Bool, _>(&self.is_test)?;
        }
        for (way, id) in [(">=", &self.low), ("<=", &self.high)] {
            // No other index can serve a comparison of rows, whatever the planner knows about the owners.
            if DB::COMPARES_ROWS {
                out.push_sql(&format!(" AND ({column}, is_test, id) {way} ("));
                out.push_bind_param::<BigInt, _>(&self.party)?;
                out.push_sql(", ");
                out.push_bind_param::<Bool, _>(&self.is_test)?;
                out.push_sql(", ");
                out.push_bind_param::<BigInt, _>(id)?;
                out.push_sql(")");
            } else {
                out.push_sql(&format!(" AND id {way} "));
                out.push_bind_param::<BigInt, _>(id)?;
            }
        }
        let way = if self.newest_first { " DESC" } else { "" };
        out.push_sql(&format!(" ORDER BY {column}{way}, is_test{way}, id{way}"));
        Ok(())
    }
}

/// The condition of the orders of one page. See [`Walk::matching`].
pub struct OnPage {
    walk: Walk,
    matching: Matching,
    limit: i64,
}

impl<DB: ListBackend> QueryFragment<DB> for OnPage
where
    i64: ToSql<BigInt, DB>,
    bool: ToSql<Bool, DB>,
    String: ToSql<Text, DB>,
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql("orders.id");
        out.push_sql(DB::IN);
        out.push_sql("SELECT id FROM (");
        let columns = "id, status, signing_date, created_at, updated_at";
        let columns = match self.matching.search {
            Some(_) => format!("{columns}, search_text"),
            None => columns.to_owned(),
        };
        self.walk.walk_orders(&mut out, &columns)?;
        walk_number(&mut out, " LIMIT ", &self.walk.entries)?;
        out.push_sql(") AS walked WHERE TRUE");
        self.matching.walk_filters(&mut out)?;
        out.push_sql(" LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(DB::END);
        Ok(())
    }
}

/// The condition of the orders at the end of a walk. See [`Walk::end`].
pub struct AtEnd {
    walk: Walk,
    before: i64,
}

impl<DB: ListBackend> QueryFragment<DB> for AtEnd
where
    i64: ToSql<BigInt, DB>,
    bool: ToSql<Bool, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql("orders.id");
        out.push_sql(DB::IN);
        self.walk.walk_orders(&mut out, "id")?;
        out.push_sql(" LIMIT 2");
        walk_number(&mut out, " OFFSET ", &self.before)?;
        out.push_sql(DB::END);
        Ok(())
    }
}

/// Writes a number of orders that the planner does not see. If it did, it would sort all orders of a table
/// that it takes for a small one, instead of reading the index in its order.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "a statement borrows the values that it binds"
)]
fn walk_number<'b, DB: ListBackend>(
    out: &mut AstPass<'_, 'b, DB>,
    before: &str,
    number: &'b i64,
) -> QueryResult<()>
where
    i64: ToSql<BigInt, DB>,
{
    out.push_sql(before);
    out.push_sql("(SELECT ");
    out.push_bind_param::<BigInt, _>(number)?;
    out.push_sql(")");
    Ok(())
}

/// Makes conditions of a query on orders.
macro_rules! conditions {
    ($($name:ident),+) => {$(
        impl Expression for $name {
            type SqlType = Bool;
        }

        impl AppearsOnTable<orders::table> for $name {}

        impl ValidGrouping<()> for $name {
            type IsAggregate = is_aggregate::Never;
        }

        impl QueryId for $name {
            type QueryId = ();
            const HAS_STATIC_QUERY_ID: bool = false;
        }
    )+};
}

pub(crate) use conditions;

conditions!(Matching, OnPage, AtEnd);
