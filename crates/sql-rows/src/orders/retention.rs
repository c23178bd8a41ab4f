//! Finds orders that a retention erases. Few are due at a time, and most orders are younger, so it looks into
//! blocks of identifiers as pages with filters do: a block without an order that is old enough costs one
//! look-up in `orders_created`, and one whose old orders have later appointments two more.

use diesel::{
    QueryResult,
    backend::Backend,
    expression::{AppearsOnTable, Expression, ValidGrouping, is_aggregate},
    query_builder::{AstPass, QueryFragment, QueryId},
    serialize::ToSql,
    sql_types::{BigInt, Bool, Text},
};
use domain::order::{Due, Retained};

use crate::{
    Instant, Utc,
    orders::find::{BLOCK, ListBackend, conditions},
    row_limit,
    schema::orders,
};

/// The condition of an order that is due: see [`Due::covers`].
#[derive(Clone)]
struct IsDue {
    what: Retained,
    before: Utc,
    now: Utc,
    last_date: String,
}

impl IsDue {
    fn of(due: &Due) -> Self {
        Self {
            what: due.what,
            before: Utc(due.before),
            now: Utc(due.now),
            last_date: due.last_date().to_string(),
        }
    }
}

impl<DB: Backend> QueryFragment<DB> for IsDue
where
    DB: ListBackend,
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
            out.push_sql(
                " AND EXISTS (SELECT 1 FROM documents WHERE documents.order_id = orders.id \
                AND documents.key IS NOT NULL)",
            );
        }
        out.push_sql(")");
        Ok(())
    }
}

/// The condition of an order that is one of a number of orders that are due. Which of them is not defined.
pub struct SomeDue {
    is_due: IsDue,
    last_begun_date: String,
    limit: i64,
}

impl SomeDue {
    /// Returns the condition of up to `limit` orders.
    pub fn of(due: &Due, limit: usize) -> Self {
        let last_begun_date = due.last_begun_date().to_string();
        Self { is_due: IsDue::of(due), last_begun_date, limit: row_limit(limit) }
    }

    /// Writes that `block.b` can have an order that is due. No planner makes a join of a single value.
    fn walk_block<'b, DB>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        DB: ListBackend,
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        let orders = DB::table_by("orders", "orders_created");
        out.push_sql(&format!(
            "(SELECT 1 FROM {orders} WHERE id >> {BLOCK} = block.b AND erased_at IS NULL \
            AND created_at < "
        ));
        out.push_bind_param::<Instant, _>(&self.is_due.before)?;
        out.push_sql(" LIMIT 1) IS NOT NULL AND coalesce(");
        for (index, status) in [("orders_new_date", "= 'NEW'"), ("orders_other_date", "<> 'NEW'")] {
            let orders = DB::table_by("orders", index);
            out.push_sql(&format!(
                "(SELECT 1 FROM {orders} WHERE id >> {BLOCK} = block.b AND erased_at IS NULL \
                AND status {status} AND signing_date <= "
            ));
            out.push_bind_param::<Text, _>(&self.last_begun_date)?;
            out.push_sql(" LIMIT 1), ");
        }
        out.push_sql("NULL) IS NOT NULL");
        if self.is_due.what == Retained::Documents {
            let documents = DB::table_by("documents", "documents_kept");
            out.push_sql(&format!(
                " AND (SELECT 1 FROM {documents} WHERE key IS NOT NULL \
                AND order_id >= block.b << {BLOCK} AND order_id < (block.b + 1) << {BLOCK} LIMIT 1) \
                IS NOT NULL"
            ));
        }
        Ok(())
    }

    fn walk_due<'b, DB>(&'b self, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        DB: ListBackend,
        String: ToSql<Text, DB>,
        Utc: ToSql<Instant, DB>,
    {
        out.push_sql(&format!("orders.id >> {BLOCK} = block.b AND "));
        self.is_due.walk_ast(out.reborrow())
    }
}

impl<DB> QueryFragment<DB> for SomeDue
where
    DB: ListBackend,
    i64: ToSql<BigInt, DB>,
    String: ToSql<Text, DB>,
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let orders = DB::table_by("orders", "orders_created");
        let next = |from: &str| {
            format!(
                "(SELECT id >> {BLOCK} FROM {orders} WHERE erased_at IS NULL{from} \
                ORDER BY id >> {BLOCK} LIMIT 1)"
            )
        };
        let (first, later) = (
            next(&format!(" AND id >> {BLOCK} >= 0")),
            next(&format!(" AND id >> {BLOCK} > block.b")),
        );
        out.push_sql(&format!(
            "orders.id{}WITH RECURSIVE block (b) AS (SELECT {first} UNION ALL SELECT {later} FROM block \
            WHERE block.b IS NOT NULL) SELECT orders.id FROM block CROSS JOIN ",
            DB::IN
        ));
        if DB::HAS_LATERAL {
            out.push_sql("LATERAL (SELECT orders.id FROM orders WHERE ");
            self.walk_due(&mut out)?;
            out.push_sql(" LIMIT ");
            out.push_bind_param::<BigInt, _>(&self.limit)?;
            out.push_sql(") AS orders WHERE ");
        } else {
            out.push_sql(&format!("{orders} ON "));
            self.walk_due(&mut out)?;
            out.push_sql(" WHERE ");
        }
        self.walk_block(&mut out)?;
        out.push_sql(" LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(DB::END);
        Ok(())
    }
}

conditions!(IsDue, SomeDue);
