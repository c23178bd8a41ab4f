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
