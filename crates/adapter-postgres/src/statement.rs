//! What diesel's queries lack for one round trip per call.

use diesel::{
    pg::Pg,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    result::QueryResult,
};

/// A statement that stays prepared on its connection. Diesel prepares anew, at the price of a round
/// trip, each statement whose text it cannot tell from its type; these are told by their text.
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

/// `WITH name AS (common) body`. PostgreSQL runs a common part that locks rows exactly once, which
/// it does not promise of a subquery.
pub(crate) struct With<C, Q> {
    pub(crate) name: &'static str,
    pub(crate) common: C,
    pub(crate) body: Q,
}

impl<C, Q> QueryId for With<C, Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C, Q: Query> Query for With<C, Q> {
    type SqlType = Q::SqlType;
}

impl<C: QueryFragment<Pg>, Q: QueryFragment<Pg>> QueryFragment<Pg> for With<C, Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH ");
        out.push_identifier(self.name)?;
        out.push_sql(" AS (");
        self.common.walk_ast(out.reborrow())?;
        out.push_sql(") ");
        self.body.walk_ast(out)
    }
}
