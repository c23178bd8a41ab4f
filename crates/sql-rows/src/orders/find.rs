//! The filters of a list, and the walk that finds the orders of a page.
//!
//! A page is in the order of identifiers, or of appointments. It reads the entries of an owner's index in that
//! order, up to a number that the domain sets, and takes those that match. The index of identifiers has the columns
//! of the filters, so no row is read; a search reads rows, because its text is in no index, and so does a list in
//! the order of appointments, because its index has nothing else.
//!
//! Filters that are not set are bound as `NULL`: their combinations share one statement text.

use diesel::{
    QueryResult,
    backend::Backend,
    dsl::sql,
    expression::{AppearsOnTable, Expression, SqlLiteral, ValidGrouping, is_aggregate},
    query_builder::{AstPass, QueryFragment, QueryId},
    serialize::ToSql,
    sql_types::{BigInt, Bool, HasSqlType, Nullable, SingleValue, SqlType, Text, is_nullable},
};
use domain::{
    api_key::{Owner, Party},
    order::{
        FileNumber, OrderStatus,
        attention::{Attention, AttentionFilter},
        search::{SearchedName, SearchedText, SearchedWord},
    },
    ports::ListFilter,
};
use serde_json::json;
use time::{Date, OffsetDateTime};

use crate::{
    Instant, Utc,
    orders::{
        party_column,
        places::{Place, STARTS, Span},
    },
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
    /// The character that ends a line.
    const LINE_END: &str;

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
    const LINE_END: &str = "chr(10)";

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
    const LINE_END: &str = "char(10)";

    fn orders_by(index: &str) -> String {
        format!("orders INDEXED BY {index}")
    }
}

/// The condition of the orders that match the filters of a list: besides the file number, unless the list walks, and
/// of attention that they may be late.
pub struct Matching {
    is_filtered: bool,
    /// The forms of the file number, a JSON array.
    numbers: Option<String>,
    /// A JSON array.
    statuses: Option<String>,
    signing_date_from: Option<String>,
    signing_date_to: Option<String>,
    updated_after: Option<Utc>,
    created_after: Option<Utc>,
    created_before: Option<Utc>,
    search: Vec<SearchedWord>,
    signing_service: Option<i64>,
    client_name: Option<String>,
    notary: Option<String>,
    /// Of a name with parts: see [`SearchedName::joined`].
    joined_notary: Option<String>,
    /// The last date of an order that may be late.
    late_until: Option<String>,
    /// The status without which, and the one with which, no order has an asked code.
    late_in: Option<String>,
    never_late_in: Option<String>,
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
            signing_service,
            client_name,
            notary,
            attention,
            by_appointment,
        } = filter;
        let others = ListFilter {
            file_number: file_number.clone(),
            by_appointment: *by_appointment,
            ..ListFilter::default()
        };
        let texts: Vec<_> = statuses.iter().map(OrderStatus::as_str).collect();
        let signed = |is_set: bool| is_set.then(|| OrderStatus::SIGNED.as_str().to_owned());
        let number = file_number.as_deref().filter(|_| filter.walked_orders().is_some());
        Self {
            is_filtered: *filter != others || number.is_some(),
            numbers: number.map(|number| json!(FileNumber::stored_forms(number)).to_string()),
            statuses: (!texts.is_empty()).then(|| json!(texts).to_string()),
            signing_date_from: signing_date_from.map(|date| date.to_string()),
            signing_date_to: signing_date_to.map(|date| date.to_string()),
            updated_after: updated_after.map(Utc),
            created_after: created_after.map(Utc),
            created_before: created_before.map(Utc),
            search: search.as_ref().map(SearchedText::words).unwrap_or_default().to_vec(),
            signing_service: signing_service.map(|service| service.0),
            client_name: client_name.clone(),
            notary: notary.as_ref().and_then(SearchedName::folded).map(str::to_owned),
            joined_notary: notary.as_ref().and_then(SearchedName::joined),
            late_until: attention.as_ref().map(|it| Attention::last_date(it.now).to_string()),
            late_in: signed(attention.as_ref().is_some_and(|it| !it.asks_for_open())),
            never_late_in: signed(attention.as_ref().is_some_and(|it| !it.asks_for_signed())),
        }
    }

    /// Returns the condition of orders that may be late at an instant.
    pub fn maybe_late(now: OffsetDateTime) -> Self {
        let attention = Some(AttentionFilter { codes: Attention::ALL.to_vec(), now });
        Self::of(&ListFilter { attention, ..ListFilter::default() })
    }

    /// Writes the filters, each after `AND`.
    fn walk_filters<'b, DB: ListBackend>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        i64: ToSql<BigInt, DB>,
        bool: ToSql<Bool, DB>,
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
        compare::<BigInt, _, _>(out, "signing_service_id = ", &self.signing_service)?;
        let client = "client_id IN (SELECT k.id FROM api_keys AS k \
            WHERE k.client_id IS NULL AND coalesce(k.client_name, k.name) = ";
        unless_null::<Text, _, _>(out, &self.client_name, client)?;
        out.push_sql("))");
        let (contains, line_end) = (DB::CONTAINS, DB::LINE_END);
        let joined_notary = "replace(notary_text, ' ', '')";
        for (text, part) in [("notary_text", &self.notary), (joined_notary, &self.joined_notary)] {
            unless_null::<Text, _, _>(out, part, &format!("{contains}({text}, "))?;
            // The name is the first line.
            out.push_sql(&format!(") BETWEEN 1 AND {contains}({text}, {line_end}))"));
        }
        let never = Attention::NEVER.map(|status| format!("'{}'", status.as_str())).join(", ");
        let may_be_late = format!("status NOT IN ({never}) AND signing_date <= ");
        compare::<Text, _, _>(out, &may_be_late, &self.late_until)?;
        compare::<Text, _, _>(out, "status = ", &self.late_in)?;
        compare::<Text, _, _>(out, "status <> ", &self.never_late_in)?;
        // What follows has statements of its own, because it reads rows.
        if let Some(numbers) = &self.numbers {
            out.push_sql(&format!(" AND file_number IN ({before}"));
            out.push_bind_param::<Text, _>(numbers)?;
            out.push_sql(&format!("{after})"));
        }
        for SearchedWord { folded, lowercase, is_joined } in &self.search {
            out.push_sql(&format!(" AND ({contains}(search_text, "));
            out.push_bind_param::<Text, _>(folded)?;
            // In a text of version 0.1.0.
            out.push_sql(&format!(") > 0 OR {contains}(search_text, "));
            out.push_bind_param::<Text, _>(lowercase)?;
            out.push_sql(&format!(") > 0 OR {contains}(notary_text, "));
            out.push_bind_param::<Text, _>(folded)?;
            out.push_sql(&format!(") > 0 OR {contains}(CAST(id AS TEXT), "));
            out.push_bind_param::<Text, _>(folded)?;
            out.push_sql(") > 0 OR (");
            out.push_bind_param::<Bool, _>(is_joined)?;
            out.push_sql(&format!(" AND ({contains}(replace(search_text, ' ', ''), "));
            out.push_bind_param::<Text, _>(folded)?;
            out.push_sql(&format!(") > 0 OR {contains}({joined_notary}, "));
            out.push_bind_param::<Text, _>(folded)?;
            out.push_sql(") > 0)))");
        }
        Ok(())
    }

    /// Returns the columns that the filters compare.
    fn columns(&self) -> String {
        let own = "id, status, signing_date, created_at, updated_at, client_id, \
            signing_service_id, notary_text";
        let number = self.numbers.as_ref().map(|_| ", file_number").unwrap_or_default();
        let search = if self.search.is_empty() { "" } else { ", search_text" };
        format!("{own}{number}{search}")
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
    i64: ToSql<BigInt, DB>,
    bool: ToSql<Bool, DB>,
    String: ToSql<Text, DB>,
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        // As the partial indexes have the condition.
        out.push_sql("erased_at IS NULL");
        self.walk_filters(&mut out)
    }
}

/// The orders of an owner in a range of places, up to a number of them.
#[derive(Clone)]
pub struct Walk {
    column: &'static str,
    index: &'static str,
    party: i64,
    is_test: bool,
    low: Place,
    high: Place,
    by_appointment: bool,
    descends: bool,
    /// The number.
    entries: i64,
}

impl Walk {
    /// Returns the walk through up to `entries` orders, in the order of a filter or against it.
    pub fn of(
        owner: Owner,
        filter: &ListFilter,
        span: &Span,
        descends: bool,
        entries: usize,
    ) -> Self {
        let (column, party) = party_column(owner.party);
        let by_appointment = filter.by_appointment;
        let index = match (owner.party, by_appointment) {
            (Party::Client(_), false) => "orders_client",
            (Party::Client(_), true) => "orders_client_appointment",
            (Party::Service(_), false) => "orders_service",
            (Party::Service(_), true) => "orders_service_appointment",
        };
        let (mut low, mut high) = (*span.start(), *span.end());
        if by_appointment {
            // In any zone, a date begins less than a day before it does in UTC, and ends less than a day after.
            let day = |date: Date| Utc(date.midnight().assume_utc());
            if let Some(date) = filter.signing_date_from.and_then(Date::previous_day) {
                low = low.max(Place { starts: day(date), id: i64::MIN });
            }
            let after = filter.signing_date_to.and_then(Date::next_day).and_then(Date::next_day);
            if let Some(date) = after {
                high = high.min(Place { starts: day(date), id: i64::MAX });
            }
        }
        let (is_test, entries) = (owner.is_test, row_limit(entries));
        Self { column, index, party, is_test, low, high, by_appointment, descends, entries }
    }

    /// Returns the condition of the first `limit` orders on the walk that match.
    pub fn matching(&self, matching: Matching, limit: usize) -> OnPage {
        OnPage { walk: self.clone(), matching, limit: row_limit(limit) }
    }

    /// Returns the condition of the last order of the walk and the one behind it, if there are so many.
    pub fn end(&self) -> AtEnd {
        AtEnd { before: self.entries - 1, walk: self.clone() }
    }

    /// Returns the last order of the walk, if there are more orders behind it. `ends` are the starts and the
    /// identifiers of the orders at its end.
    pub fn stopped_at(&self, ends: &[(Utc, i64)]) -> Option<Place> {
        let [one, other] = *ends else { return None };
        let [one, other] =
            [one, other].map(|(starts, id)| Place::of(self.by_appointment, starts, id));
        Some(if self.descends { one.max(other) } else { one.min(other) })
    }

    /// Returns what is behind a place.
    pub fn behind(&self, place: Place) -> Span {
        if self.descends { self.low..=place.before() } else { place.behind()..=self.high }
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
        Utc: ToSql<Instant, DB>,
    {
        let (column, orders) = (self.column, DB::orders_by(self.index));
        let starts = self.by_appointment.then_some(STARTS);
        let key = [Some(column), Some("is_test"), starts, Some("id")];
        let key: Vec<_> = key.into_iter().flatten().collect();
        out.push_sql(&format!("SELECT {columns} FROM {orders} WHERE erased_at IS NULL"));
        if !DB::COMPARES_ROWS {
            out.push_sql(&format!(" AND {column} = "));
            out.push_bind_param::<BigInt, _>(&self.party)?;
            out.push_sql(" AND is_test = ");
            out.push_bind_param::<Bool, _>(&self.is_test)?;
        }
        for (way, place) in [(">=", &self.low), ("<=", &self.high)] {
            // No other index can serve a comparison of rows, whatever the planner knows about the owners.
            if DB::COMPARES_ROWS {
                out.push_sql(&format!(" AND ({}) {way} (", key.join(", ")));
                out.push_bind_param::<BigInt, _>(&self.party)?;
                out.push_sql(", ");
                out.push_bind_param::<Bool, _>(&self.is_test)?;
                if self.by_appointment {
                    out.push_sql(", ");
                    out.push_bind_param::<Instant, _>(&place.starts)?;
                }
                out.push_sql(", ");
                out.push_bind_param::<BigInt, _>(&place.id)?;
                out.push_sql(")");
                continue;
            }
            if self.by_appointment {
                out.push_sql(&format!(" AND {STARTS} {way} "));
                out.push_bind_param::<Instant, _>(&place.starts)?;
                out.push_sql(&format!(" AND ({STARTS} <> "));
                out.push_bind_param::<Instant, _>(&place.starts)?;
                out.push_sql(&format!(" OR id {way} "));
                out.push_bind_param::<BigInt, _>(&place.id)?;
                out.push_sql(")");
            } else {
                out.push_sql(&format!(" AND id {way} "));
                out.push_bind_param::<BigInt, _>(&place.id)?;
            }
        }
        let way = if self.descends { " DESC" } else { "" };
        out.push_sql(&format!(" ORDER BY {}{way}", key.join(&format!("{way}, "))));
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
        self.walk.walk_orders(&mut out, &self.matching.columns())?;
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
    Utc: ToSql<Instant, DB>,
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

/// The condition of orders of which version 0.1.0 or another system has changed what a search looks at: the newest
/// ones.
pub struct Unfolded {
    limit: i64,
}

impl Unfolded {
    /// Returns the condition of up to `limit` orders.
    pub fn up_to(limit: usize) -> Self {
        Self { limit: row_limit(limit) }
    }
}

impl<DB: ListBackend> QueryFragment<DB> for Unfolded
where
    i64: ToSql<BigInt, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let orders = DB::orders_by("orders_unfolded");
        out.push_sql("orders.id");
        out.push_sql(DB::IN);
        // As the partial index has the condition: texts of this version begin with a line end.
        out.push_sql(&format!(
            "SELECT id FROM {orders} WHERE search_text > ' ' ORDER BY id DESC LIMIT "
        ));
        out.push_bind_param::<BigInt, _>(&self.limit)?;
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

conditions!(Matching, OnPage, AtEnd, Unfolded);

/// Selects the text of an order as it is, marked by [`FOLDED`](domain::order::search::FOLDED), a line end.
pub fn kept_text<DB: ListBackend>() -> SqlLiteral<Nullable<Text>> {
    sql(&format!("{} || search_text", DB::LINE_END))
}
