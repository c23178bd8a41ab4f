//! Wraps diesel's queries so that each call takes one round trip.

use diesel::{
    pg::Pg,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    result::QueryResult,
};

/// A condition that is true, and makes the commit durable, whatever the settings of the session
/// are. It runs once, not for each row.
pub(crate) const DURABLE: &str = "(SELECT set_config('synchronous_commit', \
    coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)) IS NOT NULL";

/// A statement that stays prepared on its connection, identified by its text. Diesel would prepare
/// it for each call, which costs a round trip.
pub(crate) struct Prepared<Q>(pub(crate) Q);

impl<Q> QueryId for Prepared<Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: Query> Query for Prepared<Q> {
    type SqlType = Q::SqlType;
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for Prepared<Q> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _backend: &Pg) -> QueryResult<bool> {
        Ok(true)
    }
}
