//! The filters of a list, and how their indexes find the orders of a page.
//!
//! A page is in the order of identifiers, and each filter is a range of another column. So the index of a
//! filter has the orders of an owner in blocks of identifiers, and inside a block by that column. A page
//! looks into the owner's blocks one after the other until it is full: it costs one look-up a block, and
//! reads at most one block too many, wherever the matching orders are.

use diesel::{
    QueryResult,
    backend::Backend,
    expression::{AppearsOnTable, Expression, ValidGrouping, is_aggregate},
    query_builder::{AstPass, QueryFragment, QueryId},
    serialize::ToSql,
    sql_types::{BigInt, Bool, HasSqlType, Text},
};
use domain::{api_key::Owner, ports::ListFilter};

use crate::{Ids, Instant, Utc, orders::rows::party_column, row_limit, schema::orders};

/// Identifiers of a block: two to the power of this. The indexes of `migrations/` have it too.
const BLOCK: i64 = 11;

/// The parts of statements in which the databases differ.
pub trait ListBackend: Backend + HasSqlType<Bool> + HasSqlType<Instant> {
    /// Before a query of the values that an expression may have. A join with it could read whole tables.
    const IN: &str;
    /// After it.
    const END: &str;
    /// Whether an index serves a comparison of rows up to its last column.
    const COMPARES_ROWS: bool;
    /// The function of a text and a part of it that tells where the part is, from 1.
    const CONTAINS: &str;
}

#[cfg(feature = "postgres")]
impl ListBackend for diesel::pg::Pg {
    const IN: &str = " = ANY (ARRAY(";
    const END: &str = "))";
    const COMPARES_ROWS: bool = true;
    const CONTAINS: &str = "strpos";
}

#[cfg(feature = "sqlite")]
impl ListBackend for diesel::sqlite::Sqlite {
    const IN: &str = " IN (";
    const END: &str = ")";
    const COMPARES_ROWS: bool = false;
    const CONTAINS: &str = "instr";
}

/// A range of a column, or a set of its values.
enum Part {
    Statuses(Vec<String>),
    Dates(Option<String>, Option<String>),
    Updated(Utc),
    Created(Option<Utc>, Option<Utc>),
}

/// The condition of the orders that match the filters of a list, besides the file number.
pub struct Matching {
    parts: Vec<Part>,
    search: Option<String>,
}

impl Matching {
    /// Returns the condition of a list's filters.
    pub fn of(filter: &ListFilter) -> Self {
        let ListFilter { created_after, created_before, updated_after, .. } = *filter;
        let mut parts = Vec::new();
        // The most selective ones come first.
        if filter.signing_date_from.is_some() || filter.signing_date_to.is_some() {
            let text = |date: Option<time::Date>| date.map(|date| date.to_string());
            parts.push(Part::Dates(text(filter.signing_date_from), text(filter.signing_date_to)));
        }
        parts.extend(updated_after.map(|at| Part::Updated(Utc(at))));
        if created_after.is_some() || created_before.is_some() {
            parts.push(Part::Created(created_after.map(Utc), created_before.map(Utc)));
        }
        if !filter.statuses.is_empty() {
            let texts = filter.statuses.iter().map(|status| status.as_str().to_owned());
            parts.push(Part::Statuses(texts.collect()));
        }
        let search = filter.search.as_ref().map(|text| text.as_str().to_owned());
        Self { parts, search }
    }

    /// Returns whether indexes find the orders.
    pub fn has_indexes(&self) -> bool {
        self.search.is_none() && !self.parts.is_empty()
    }
}

impl Part {
    /// Writes the conditions of the part, each after `AND`.
    fn walk<'b, DB: ListBackend>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        match self {
            Self::Statuses(statuses) => {
                for (number, status) in statuses.iter().enumerate() {
                    out.push_sql(if number == 0 { " AND status IN (" } else { ", " });
                    out.push_bind_param::<Text, _>(status)?;
                }
                out.push_sql(")");
            }
            Self::Dates(from, to) => {
                compare::<Text, _, _>(out, " AND signing_date >= ", from.as_ref())?;
                compare::<Text, _, _>(out, " AND signing_date <= ", to.as_ref())?;
            }
            Self::Updated(at) => compare::<Instant, _, _>(out, " AND updated_at >= ", Some(at))?,
            Self::Created(after, before) => {
                compare::<Instant, _, _>(out, " AND created_at >= ", after.as_ref())?;
                compare::<Instant, _, _>(out, " AND created_at < ", before.as_ref())?;
            }
        }
        Ok(())
    }
}

/// Writes a comparison with a value, if there is one.
fn compare<'b, T, V: ToSql<T, DB>, DB: Backend + HasSqlType<T>>(
    out: &mut AstPass<'_, 'b, DB>,
    comparison: &str,
    value: Option<&'b V>,
) -> QueryResult<()> {
    let Some(value) = value else { return Ok(()) };
    out.push_sql(comparison);
    out.push_bind_param::<T, _>(value)
}

impl<DB: ListBackend> QueryFragment<DB> for Matching
where
    String: ToSql<Text, DB>,
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        // As the partial indexes have the condition.
        out.push_sql("erased_at IS NULL");
        for part in &self.parts {
            part.walk(&mut out)?;
        }
        if let Some(search) = &self.search {
            out.push_sql(" AND ");
            out.push_sql(DB::CONTAINS);
            out.push_sql("(search_text, ");
            out.push_bind_param::<Text, _>(search)?;
            out.push_sql(") > 0");
        }
        Ok(())
    }
}

/// The condition of the orders of one page: the first ones of an owner in a range of identifiers that
/// match.
///
/// The recursion names the owner's blocks, each with the number of matching orders in those before it, and
/// ends when the page is full.
pub struct OnPage {
    column: &'static str,
    party: i64,
    is_test: bool,
    low: i64,
    high: i64,
    newest_first: bool,
    limit: i64,
    matching: Matching,
}

impl OnPage {
    /// Returns the condition of up to `limit` orders.
    pub fn of(
        owner: Owner,
        matching: Matching,
        ids: &Ids,
        newest_first: bool,
        limit: usize,
    ) -> Self {
        let (column, party) = party_column(owner.party);
        let (low, high, limit) = (*ids.start(), *ids.end(), row_limit(limit));
        Self { column, party, is_test: owner.is_test, low, high, newest_first, limit, matching }
    }

    /// Writes the first of the owner's blocks in the range, or the first behind `block.b`.
    fn walk_block<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
        is_first: bool,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
    {
        out.push_sql(&format!("(SELECT id >> {BLOCK} FROM orders WHERE erased_at IS NULL"));
        if !DB::COMPARES_ROWS {
            self.walk_owner(out)?;
        }
        // One bound a side: an index begins at any one of several.
        match (is_first, self.newest_first) {
            (false, false) => {
                self.walk_bound(out, ">=", Err(&format!("(block.b + 1) << {BLOCK}")))?;
            }
            _ => self.walk_bound(out, ">=", Ok(&self.low))?,
        }
        match (is_first, self.newest_first) {
            (false, true) => self.walk_bound(out, "<", Err(&format!("block.b << {BLOCK}")))?,
            _ => self.walk_bound(out, "<=", Ok(&self.high))?,
        }
        let way = if self.newest_first { " DESC" } else { "" };
        let column = self.column;
        out.push_sql(&format!(" ORDER BY {column}{way}, is_test{way}, id{way} LIMIT 1)"));
        Ok(())
    }

    /// Compares the identifier with a value or a text of SQL. No other index can serve a comparison of rows,
    /// whatever the planner knows about the owners.
    fn walk_bound<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
        way: &str,
        bound: Result<&'b i64, &str>,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
    {
        if DB::COMPARES_ROWS {
            out.push_sql(&format!(" AND ({}, is_test, id) {way} (", self.column));
            out.push_bind_param::<BigInt, _>(&self.party)?;
            out.push_sql(", ");
            out.push_bind_param::<Bool, _>(&self.is_test)?;
            out.push_sql(", ");
        } else {
            out.push_sql(&format!(" AND id {way} ("));
        }
        match bound {
            Ok(id) => out.push_bind_param::<BigInt, _>(id)?,
            Err(sql) => out.push_sql(sql),
        }
        out.push_sql(")");
        Ok(())
    }

    fn walk_owner<'b, DB: ListBackend>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
    {
        out.push_sql(&format!(" AND {} = ", self.column));
        out.push_bind_param::<BigInt, _>(&self.party)?;
        out.push_sql(" AND is_test = ");
        out.push_bind_param::<Bool, _>(&self.is_test)
    }

    /// Selects the matching orders of some blocks. `+ 0` keeps the databases from a walk in the order of
    /// identifiers.
    fn walk_in_blocks<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
        selected: &str,
        blocks: impl FnOnce(&mut AstPass<'_, 'b, DB>) -> QueryResult<()>,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        out.push_sql(&format!("SELECT {selected} FROM orders WHERE "));
        self.matching.walk_ast(out.reborrow())?;
        self.walk_owner(out)?;
        out.push_sql(&format!(" AND id >> {BLOCK}"));
        blocks(out)?;
        out.push_sql(" AND id + 0 >= ");
        out.push_bind_param::<BigInt, _>(&self.low)?;
        out.push_sql(" AND id + 0 <= ");
        out.push_bind_param::<BigInt, _>(&self.high)
    }

    /// Writes that the block has an order for each filter, if there are several: it is read only then.
    fn walk_each_filter<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        let parts = &self.matching.parts;
        for part in parts.iter().filter(|_| parts.len() > 1) {
            out.push_sql(" AND EXISTS (SELECT 1 FROM orders WHERE erased_at IS NULL");
            self.walk_owner(out)?;
            out.push_sql(&format!(" AND id >> {BLOCK} = block.b"));
            part.walk(out)?;
            out.push_sql(")");
        }
        Ok(())
    }
}

impl<DB: ListBackend> QueryFragment<DB> for OnPage
where
    i64: ToSql<BigInt, DB>,
    bool: ToSql<Bool, DB>,
    String: ToSql<Text, DB>,
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let way = if self.newest_first { " DESC" } else { "" };
        out.push_sql("orders.id");
        out.push_sql(DB::IN);
        out.push_sql("WITH RECURSIVE block (b, n) AS (SELECT ");
        self.walk_block(&mut out, true)?;
        out.push_sql(", CAST(0 AS bigint) UNION ALL SELECT ");
        self.walk_block(&mut out, false)?;
        out.push_sql(", n + CASE WHEN b IS NOT NULL");
        self.walk_each_filter(&mut out)?;
        out.push_sql(" THEN (SELECT count(*) FROM (");
        self.walk_in_blocks(&mut out, "1", |out| {
            out.push_sql(" = block.b");
            Ok(())
        })?;
        out.push_sql(" LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(") AS matching) ELSE 0 END FROM block WHERE b IS NOT NULL AND n < ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(") ");
        self.walk_in_blocks(&mut out, "id", |out| {
            out.push_sql(DB::IN);
            out.push_sql("SELECT b FROM block WHERE n < ");
            out.push_bind_param::<BigInt, _>(&self.limit)?;
            self.walk_each_filter(out)?;
            out.push_sql(DB::END);
            Ok(())
        })?;
        out.push_sql(&format!(" ORDER BY id + 0{way} LIMIT "));
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(DB::END);
        Ok(())
    }
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

conditions!(Matching, OnPage);
