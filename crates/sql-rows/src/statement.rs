//! Keeps diesel's queries prepared.

use diesel::{
    QueryResult, QueryableByName, RunQueryDsl,
    backend::Backend,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    sql_types::BigInt,
};

/// The identifier of a row.
#[derive(QueryableByName)]
pub struct IdRow {
    /// The identifier.
    #[diesel(sql_type = BigInt)]
    pub id: i64,
}

/// A statement that stays prepared on its connection, identified by its text. Diesel would prepare
/// one with literal SQL for each call, which costs a round trip on PostgreSQL.
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
