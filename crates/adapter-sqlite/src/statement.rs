//! Keeps diesel's queries prepared.

use diesel::{
    QueryResult, RunQueryDsl, SqliteConnection,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    sqlite::Sqlite,
};

/// A statement that stays prepared on its connection, identified by its text. Diesel would prepare
/// one with literal SQL for each call, which takes longer than to read an order.
pub(crate) struct Prepared<Q>(pub(crate) Q);

impl<Q> QueryId for Prepared<Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: Query> Query for Prepared<Q> {
    type SqlType = Q::SqlType;
}

impl<Q> RunQueryDsl<SqliteConnection> for Prepared<Q> {}

impl<Q: QueryFragment<Sqlite>> QueryFragment<Sqlite> for Prepared<Q> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _backend: &Sqlite) -> QueryResult<bool> {
        Ok(true)
    }
}
