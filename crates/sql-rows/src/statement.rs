//! Keeps diesel's queries prepared.

use std::fmt::Debug;

use diesel::{
    QueryResult, QueryableByName, RunQueryDsl,
    backend::Backend,
    expression::{AppearsOnTable, Expression, ValidGrouping, is_aggregate},
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    sql_types::{BigInt, Bool},
};
use serde_json::json;

use crate::{Instant, Utc};

/// The identifier of a row.
#[derive(QueryableByName)]
pub struct IdRow {
    /// The identifier.
    #[diesel(sql_type = BigInt)]
    pub id: i64,
}

/// A statement that stays prepared on its connection, identified by its text. Diesel would prepare
/// one with literal SQL for each call, which costs a round trip on PostgreSQL.
///
/// Its text must not depend on the number of values: connections never forget a text. [`OneOf`] is a list
/// with a constant text.
pub struct Prepared<Q>(pub Q);

impl<Q> QueryId for Prepared<Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: Query> Query for Prepared<Q> {
    type SqlType = Q::SqlType;
}

impl<Q, C> RunQueryDsl<C> for Prepared<Q> {}

impl<DB: Backend, Q: QueryFragment<DB>> QueryFragment<DB> for Prepared<Q> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _backend: &DB) -> QueryResult<bool> {
        Ok(true)
    }
}

/// The condition that a column has one of some values. Its text is the same for any number of them. Diesel's
/// `eq_any` has a text for each number on SQLite.
pub struct OneOf<V> {
    column: &'static str,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "PostgreSQL binds an array"))]
    values: Vec<V>,
    /// A JSON array.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "SQLite binds a text"))]
    json: String,
}

impl<V: ListedValue> OneOf<V> {
    /// Returns the condition of a column, which has the name of its table before it.
    pub fn new(column: &'static str, values: Vec<V>) -> Self {
        let numbers: Vec<i64> = values.iter().map(ListedValue::number).collect();
        Self { column, values, json: json!(numbers).to_string() }
    }
}

/// A value that both databases store, and SQLite as a number.
pub trait ListedValue: Debug {
    /// The type of its column.
    type SqlType: 'static;

    /// Returns how SQLite stores it.
    fn number(&self) -> i64;
}

impl ListedValue for i64 {
    type SqlType = BigInt;

    fn number(&self) -> i64 {
        *self
    }
}

impl ListedValue for Utc {
    type SqlType = Instant;

    fn number(&self) -> i64 {
        self.micros()
    }
}

impl<V> Expression for OneOf<V> {
    type SqlType = Bool;
}

impl<V, Table> AppearsOnTable<Table> for OneOf<V> {}

impl<V> ValidGrouping<()> for OneOf<V> {
    type IsAggregate = is_aggregate::Never;
}

impl<V> QueryId for OneOf<V> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

#[cfg(feature = "postgres")]
mod postgres {
    use diesel::{
        QueryResult,
        pg::Pg,
        query_builder::{AstPass, QueryFragment},
        serialize::ToSql,
        sql_types::{Array, HasSqlType},
    };

    use super::{ListedValue, OneOf};

    impl<V: ListedValue> QueryFragment<Pg> for OneOf<V>
    where
        Pg: HasSqlType<Array<V::SqlType>>,
        Vec<V>: ToSql<Array<V::SqlType>, Pg>,
    {
        fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
            out.push_sql(self.column);
            out.push_sql(" = ANY (");
            out.push_bind_param::<Array<V::SqlType>, _>(&self.values)?;
            out.push_sql(")");
            Ok(())
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use diesel::{
        QueryResult,
        query_builder::{AstPass, QueryFragment},
        sql_types::Text,
        sqlite::Sqlite,
    };

    use super::OneOf;

    impl<V> QueryFragment<Sqlite> for OneOf<V> {
        fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
            out.push_sql(self.column);
            out.push_sql(" IN (SELECT value FROM json_each(");
            out.push_bind_param::<Text, _>(&self.json)?;
            out.push_sql("))");
            Ok(())
        }
    }
}

/// Maximum number of rows or identifiers of one statement. A row has up to 16 values, and a statement at
/// most 65,535 on PostgreSQL and 32,766 on SQLite.
const PIECE: usize = 1_000;

/// Divides rows or identifiers into pieces of which one statement takes each: clients decide how many there
/// are.
pub fn pieces<T>(rows: Vec<T>) -> impl Iterator<Item = Vec<T>> + Send
where
    T: Send,
{
    let mut rows = rows.into_iter();
    std::iter::from_fn(move || {
        let piece: Vec<T> = rows.by_ref().take(PIECE).collect();
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_all_rows_in_their_order() {
        for count in [0, 1, PIECE, PIECE + 1, 9_363] {
            let rows: Vec<_> = (0..count).collect();
            let pieces: Vec<_> = pieces(rows.clone()).collect();
            assert!(pieces.iter().all(|piece| (1..=PIECE).contains(&piece.len())));
            assert_eq!(pieces.concat(), rows);
        }
    }
}
