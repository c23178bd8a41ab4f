//! Lists of orders, which are read as ranges of identifiers in an index.

use std::ops::RangeInclusive;

use diesel::{
    dsl::{AsExprOf, sql},
    expression::{SqlLiteral, UncheckedBind},
    sql_types::{BigInt, Bool, Text},
};
use domain::{
    api_key::{ClientId, Owner},
    order::{FileNumber, OrderId, OrderStatus},
    ports::ListFilter,
};

use crate::{
    Unreadable,
    orders::{
        PageRow, party_column,
        places::{Found, Span},
    },
};

/// Identifiers of orders.
pub type Ids = RangeInclusive<i64>;

type Bound<E, V, T> = SqlLiteral<Bool, UncheckedBind<E, AsExprOf<V, T>>>;

/// A comparison of an owner and a value with the columns of an index.
pub type OwnerComparison<V, T> =
    Bound<Bound<Bound<SqlLiteral<Bool>, i64, BigInt>, bool, Bool>, V, T>;

/// A comparison of a file number, an owner and an identifier with the columns of an index.
pub type NumberComparison = Bound<
    Bound<Bound<Bound<SqlLiteral<Bool>, String, Text>, i64, BigInt>, bool, Bool>,
    i64,
    BigInt,
>;

/// Orders that one index has in this order: those of an owner, or of all, with a file number, or any.
#[derive(Clone, Copy)]
pub struct OrderList<'a> {
    /// The owner; `None` for the orders of all.
    pub owner: Option<Owner>,
    /// The filters.
    pub filter: &'a ListFilter,
}

impl OrderList<'_> {
    /// Returns the order of the index.
    pub fn order(self, newest_first: bool) -> SqlLiteral<BigInt> {
        let column = self.owner.map(|owner| party_column(owner.party).0);
        let columns = match (column, &self.filter.file_number) {
            (Some(column), Some(_)) => format!("file_number, {column}, is_test, id"),
            (Some(column), None) => format!("{column}, is_test, id"),
            (None, _) => "id".to_owned(),
        };
        let way = if newest_first { " DESC" } else { "" };
        sql(&(columns.replace(", ", &format!("{way}, ")) + way))
    }

    /// Returns the parts in which the list is read: a file number in a form in which orders may have it, and
    /// whether the orders hold it. One index has the holders, another one the others. Without a file number, all
    /// are read at once.
    pub fn parts(self) -> Vec<Option<(String, bool)>> {
        let Some(number) = &self.filter.file_number else { return vec![None] };
        let forms = FileNumber::stored_forms(number).into_iter();
        forms.flat_map(|form| [true, false].map(|holds| Some((form.clone(), holds)))).collect()
    }
}

/// Returns the owners whose lists have the orders of a client, or of all clients: the indexes have its
/// live and its test orders apart.
pub fn owners(client: Option<ClientId>) -> Vec<Option<Owner>> {
    client.map_or_else(
        || vec![None],
        |client| [false, true].map(|is_test| Some(Owner::client(client, is_test))).to_vec(),
    )
}

/// Compares the identifiers of an owner's orders as rows: no other index can serve that, whatever the
/// planner knows about the clients. diesel has no such comparison.
pub fn compare_ids(owner: Owner, way: &str, id: i64) -> OwnerComparison<i64, BigInt> {
    let (column, party) = party_column(owner.party);
    let row = sql::<Bool>(&format!("({column}, is_test, id) {way} ("));
    let row = row.bind::<BigInt, _>(party).sql(", ").bind::<Bool, _>(owner.is_test);
    row.sql(", ").bind::<BigInt, _>(id).sql(")")
}

/// Compares the identifiers of an owner's orders with a file number like [`compare_ids`].
pub fn compare_numbers(owner: Owner, number: &str, way: &str, id: i64) -> NumberComparison {
    let (column, party) = party_column(owner.party);
    let row = sql::<Bool>(&format!("(file_number, {column}, is_test, id) {way} ("));
    let row = row.bind::<Text, _>(number.to_owned()).sql(", ").bind::<BigInt, _>(party);
    row.sql(", ").bind::<Bool, _>(owner.is_test).sql(", ").bind::<BigInt, _>(id).sql(")")
}

/// Returns an order by its identifier and status.
pub fn known_status(row: (i64, String)) -> Result<(OrderId, OrderStatus), Unreadable> {
    let (id, status) = row;
    let status = OrderStatus::from_stored(status);
    let status = status.ok_or_else(|| Unreadable::new("orders", &id, &"status"))?;
    Ok((OrderId(id), status))
}

/// Returns the identifiers of a range.
pub fn ids(span: &Span) -> Ids {
    span.start().id..=span.end().id
}

/// Returns the orders of a list's rows by place, those that cannot be read as far as columns know them. A row may
/// stand there twice: an order may have lost its file number between two statements.
pub fn listed(
    rows: Vec<PageRow>,
    by_appointment: bool,
    descends: bool,
    limit: usize,
) -> Result<Vec<Found>, Unreadable> {
    let found = rows.into_iter().filter_map(|row| row.into_found(by_appointment).transpose());
    let mut found = found.collect::<Result<Vec<Found>, _>>()?;
    found.sort_unstable_by_key(|found| found.place);
    found.dedup_by_key(|found| found.place);
    if descends {
        found.reverse();
    }
    found.truncate(limit);
    Ok(found)
}
