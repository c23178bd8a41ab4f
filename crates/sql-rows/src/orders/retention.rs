//! Orders that a retention erases.

use diesel::{
    QueryResult,
    backend::Backend,
    expression::{AppearsOnTable, Expression, ValidGrouping, is_aggregate},
    query_builder::{AstPass, QueryFragment, QueryId},
    serialize::ToSql,
    sql_types::{Bool, HasSqlType, Text},
};
use domain::order::{Due, Retained};

use crate::{Instant, Utc, orders::find::conditions, schema::orders};

/// The condition of an order that is due: see [`Due::covers`].
#[derive(Clone)]
pub struct IsDue {
    what: Retained,
    before: Utc,
    now: Utc,
    last_date: String,
}

impl IsDue {
    /// Returns the condition.
    pub fn of(due: &Due) -> Self {
        Self {
            what: due.what,
            before: Utc(due.before),
            now: Utc(due.now),
            last_date: due.last_date().to_string(),
        }
    }
}

impl<DB: Backend + HasSqlType<Instant>> QueryFragment<DB> for IsDue
where
    String: ToSql<Text, DB>,
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql("(orders.erased_at IS NULL AND orders.created_at < ");
        out.push_bind_param::<Instant, _>(&self.before)?;
        out.push_sql(" AND (orders.updated_at < ");
        out.push_bind_param::<Instant, _>(&self.before)?;
        if self.what == Retained::Orders {
            out.push_sql(
                " OR orders.updated_at = orders.documents_erased_at AND orders.last_change_at < ",
            );
            out.push_bind_param::<Instant, _>(&self.before)?;
        }
        out.push_sql(") AND coalesce(orders.ends_at < ");
        out.push_bind_param::<Instant, _>(&self.before)?;
        out.push_sql(", orders.starts_at < ");
        out.push_bind_param::<Instant, _>(&self.before)?;
        out.push_sql(", orders.signing_date <= ");
        out.push_bind_param::<Text, _>(&self.last_date)?;
        out.push_sql(", TRUE) AND NOT coalesce(orders.held_until > ");
        out.push_bind_param::<Instant, _>(&self.now)?;
        out.push_sql(", FALSE)");
        if self.what == Retained::Documents {
            // A planner may read all documents to find out for which orders there `EXISTS` one.
            out.push_sql(
                " AND (SELECT 1 FROM documents WHERE documents.order_id = orders.id \
                AND documents.key IS NOT NULL LIMIT 1) IS NOT NULL",
            );
        }
        out.push_sql(")");
        Ok(())
    }
}

conditions!(IsDue);
