//! The filters of a list, and how their indexes find the orders of a page.
//!
//! A page is in the order of identifiers, and each filter is a range of another column. So the index of a
//! filter has the orders in blocks of identifiers, and inside a block by that column. A page looks into the
//! owner's blocks one after the other until it is full. It skips a block without an order that matches, and
//! searches the others in the index of the owner: wherever the matching orders are, it costs some look-ups
//! a block.

use diesel::{
    QueryResult,
    backend::Backend,
    expression::{AppearsOnTable, Expression, ValidGrouping, is_aggregate},
    query_builder::{AstPass, QueryFragment, QueryId},
    serialize::ToSql,
    sql_types::{BigInt, Bool, HasSqlType, Text},
};
use domain::{
    api_key::{Owner, Party},
    order::OrderStatus,
    ports::ListFilter,
};

use crate::{Ids, Instant, Utc, orders::rows::party_column, row_limit, schema::orders};

/// Identifiers of a block: two to the power of this. The indexes of `migrations/` have it too.
pub(crate) const BLOCK: i64 = 11;

/// The parts of statements in which the databases differ.
pub trait ListBackend: Backend + HasSqlType<Bool> + HasSqlType<Instant> {
    /// Before a query of the identifiers on a page. A join with it could read whole tables.
    const IN: &str;
    /// After it.
    const END: &str;
    /// Whether an index serves a comparison of rows up to its last column.
    const COMPARES_ROWS: bool;
    /// Whether a query in `FROM` may name the tables before it.
    const HAS_LATERAL: bool;
    /// The function of a text and a part of it that tells where the part is, from 1.
    const CONTAINS: &str;

    /// Returns the table, and which index to use if the planner does not find it by itself.
    fn orders_by(index: &str) -> String {
        Self::table_by("orders", index)
    }

    /// Like [`Self::orders_by`], for any table.
    fn table_by(table: &str, index: &str) -> String;
}

#[cfg(feature = "postgres")]
impl ListBackend for diesel::pg::Pg {
    const IN: &str = " = ANY (ARRAY(";
    const END: &str = "))";
    const COMPARES_ROWS: bool = true;
    const HAS_LATERAL: bool = true;
    const CONTAINS: &str = "strpos";

    fn table_by(table: &str, _: &str) -> String {
        table.to_owned()
    }
}

#[cfg(feature = "sqlite")]
impl ListBackend for diesel::sqlite::Sqlite {
    const IN: &str = " IN (";
    const END: &str = ")";
    const COMPARES_ROWS: bool = false;
    const HAS_LATERAL: bool = false;
    const CONTAINS: &str = "instr";

    fn table_by(table: &str, index: &str) -> String {
        format!("{table} INDEXED BY {index}")
    }
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

    /// Writes that `block.b` has an order of the part, whatever its owner. Each index of blocks answers a
    /// question of its own.
    fn walk_block<'b, DB: ListBackend>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        out.push_sql(" AND (FALSE");
        let [new, other] =
            ["=", "<>"].map(|way| format!(" AND status {way} '{}'", OrderStatus::NEW.as_str()));
        match self {
            Self::Dates(..) => {
                walk_any(out, &new, |out| self.walk(out))?;
                walk_any(out, &other, |out| self.walk(out))?;
            }
            Self::Statuses(statuses) => {
                let is_new = |status: &String| status == OrderStatus::NEW.as_str();
                if statuses.iter().any(is_new) {
                    walk_any(out, &new, |_| Ok(()))?;
                }
                if !statuses.iter().all(is_new) {
                    walk_any(out, &other, |out| self.walk(out))?;
                }
            }
            Self::Created(..) => walk_any(out, "", |out| self.walk(out))?,
            Self::Updated(at) => {
                let created = " AND created_at >= ";
                walk_any(out, "", |out| compare::<Instant, _, _>(out, created, Some(at)))?;
                walk_any(out, " AND updated_at > created_at", |out| self.walk(out))?;
            }
        }
        out.push_sql(")");
        Ok(())
    }
}

/// Writes that `block.b` has an order with conditions. A query of one row, because a planner can turn
/// `EXISTS` into a walk through all orders.
fn walk_any<'b, DB: ListBackend>(
    out: &mut AstPass<'_, 'b, DB>,
    of_index: &str,
    conditions: impl FnOnce(&mut AstPass<'_, 'b, DB>) -> QueryResult<()>,
) -> QueryResult<()> {
    let block = format!("id >> {BLOCK} = block.b AND erased_at IS NULL{of_index}");
    out.push_sql(&format!(" OR (SELECT 1 FROM orders WHERE {block}"));
    conditions(out)?;
    out.push_sql(" LIMIT 1) IS NOT NULL");
    Ok(())
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
    index: &'static str,
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
        let index = match owner.party {
            Party::Client(_) => "orders_client",
            Party::Service(_) => "orders_service",
        };
        let (low, high, limit) = (*ids.start(), *ids.end(), row_limit(limit));
        let is_test = owner.is_test;
        Self { column, index, party, is_test, low, high, newest_first, limit, matching }
    }

    /// Returns the order of the page.
    fn order(&self) -> String {
        let (column, way) = (self.column, self.way());
        format!(" ORDER BY {column}{way}, is_test{way}, id{way}")
    }

    fn way(&self) -> &'static str {
        if self.newest_first { " DESC" } else { "" }
    }

    /// Writes the first of the owner's blocks in the range, or the first behind `block.b`.
    fn walk_next<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
        is_first: bool,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
    {
        let orders = DB::orders_by(self.index);
        out.push_sql(&format!("(SELECT id >> {BLOCK} FROM {orders} WHERE erased_at IS NULL"));
        // One bound a side: an index begins at any one of several.
        let from = match (is_first, self.newest_first) {
            (false, false) => Err(format!("(block.b + 1) << {BLOCK}")),
            _ => Ok(&self.low),
        };
        let to = match (is_first, self.newest_first) {
            (false, true) => (" < ", Err(format!("block.b << {BLOCK}"))),
            _ => (" <= ", Ok(&self.high)),
        };
        self.walk_owner(out, from, to)?;
        out.push_sql(&self.order());
        out.push_sql(" LIMIT 1)");
        Ok(())
    }

    /// Writes that an order is one of the owner, with an identifier between two values or texts of SQL.
    /// No other index can serve a comparison of rows, whatever the planner knows about the owners.
    fn walk_owner<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
        from: Result<&'b i64, String>,
        (way, to): (&str, Result<&'b i64, String>),
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
    {
        let column = self.column;
        if !DB::COMPARES_ROWS {
            self.walk_party(out)?;
        }
        for (way, bound) in [(" >= ", from), (way, to)] {
            if DB::COMPARES_ROWS {
                out.push_sql(&format!(" AND ({column}, is_test, id){way}("));
                out.push_bind_param::<BigInt, _>(&self.party)?;
                out.push_sql(", ");
                out.push_bind_param::<Bool, _>(&self.is_test)?;
                out.push_sql(", ");
            } else {
                out.push_sql(&format!(" AND id{way}("));
            }
            match bound {
                Ok(id) => out.push_bind_param::<BigInt, _>(id)?,
                Err(sql) => out.push_sql(&sql),
            }
            out.push_sql(")");
        }
        Ok(())
    }

    fn walk_party<'b, DB: ListBackend>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
    {
        out.push_sql(&format!(" AND {} = ", self.column));
        out.push_bind_param::<BigInt, _>(&self.party)?;
        out.push_sql(" AND is_test = ");
        out.push_bind_param::<Bool, _>(&self.is_test)
    }

    /// Writes the condition of the matching orders of `block.b`. `+ 0` leaves the bounds of the block to
    /// the index.
    fn walk_matching<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        self.matching.walk_ast(out.reborrow())?;
        self.walk_party(out)?;
        // PostgreSQL would compare rows up to the end of the owner's orders, not of the block.
        out.push_sql(&format!(" AND id >= block.b << {BLOCK} AND id < (block.b + 1) << {BLOCK}"));
        out.push_sql(" AND id + 0 >= ");
        out.push_bind_param::<BigInt, _>(&self.low)?;
        out.push_sql(" AND id + 0 <= ");
        out.push_bind_param::<BigInt, _>(&self.high)
    }

    /// Selects the first matching orders of `block.b`. Their order and the limit keep a planner without
    /// statistics from a walk through all orders.
    fn walk_first_of_block<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        out.push_sql(&format!("SELECT id FROM {} WHERE ", DB::orders_by(self.index)));
        self.walk_matching(out)?;
        out.push_sql(&self.order());
        self.walk_limit(out, " LIMIT ")
    }

    fn walk_limit<'b, DB: ListBackend>(
        &'b self,
        out: &mut AstPass<'_, 'b, DB>,
        before: &str,
    ) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
    {
        out.push_sql(before);
        out.push_bind_param::<BigInt, _>(&self.limit)
    }

    /// Writes that `block.b` has an order for each filter.
    fn walk_filters<'b, DB: ListBackend>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        self.matching.parts.iter().try_for_each(|part| part.walk_block(out))
    }

    /// Selects the first matching orders of the owner's blocks.
    fn walk_blocks<'b, DB: ListBackend>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        out.push_sql("WITH RECURSIVE block (b, n) AS (SELECT ");
        self.walk_next(out, true)?;
        out.push_sql(", CAST(0 AS bigint) UNION ALL SELECT ");
        self.walk_next(out, false)?;
        out.push_sql(", n + CASE WHEN b IS NOT NULL");
        self.walk_filters(out)?;
        out.push_sql(" THEN (SELECT count(*) FROM (");
        self.walk_first_of_block(out)?;
        out.push_sql(") AS matching) ELSE 0 END FROM block WHERE b IS NOT NULL");
        self.walk_limit(out, " AND n < ")?;
        out.push_sql(") SELECT orders.id FROM block CROSS JOIN ");
        if DB::HAS_LATERAL {
            out.push_sql("LATERAL (");
            self.walk_first_of_block(out)?;
            out.push_sql(") AS orders");
        } else {
            out.push_sql(&format!("{} ON ", DB::orders_by(self.index)));
            self.walk_matching(out)?;
        }
        self.walk_limit(out, " WHERE n < ")?;
        self.walk_filters(out)?;
        out.push_sql(&format!(" ORDER BY orders.id{}", self.way()));
        self.walk_limit(out, " LIMIT ")?;
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
        out.push_sql("orders.id");
        out.push_sql(DB::IN);
        if self.matching.has_indexes() {
            self.walk_blocks(&mut out)?;
        } else {
            let orders = DB::orders_by(self.index);
            out.push_sql(&format!("SELECT id FROM {orders} WHERE "));
            self.matching.walk_ast(out.reborrow())?;
            self.walk_owner(&mut out, Ok(&self.low), (" <= ", Ok(&self.high)))?;
            out.push_sql(&self.order());
            self.walk_limit(&mut out, " LIMIT ")?;
        }
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

pub(crate) use conditions;

conditions!(Matching, OnPage);
