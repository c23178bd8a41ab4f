//! What the modules that both databases share need of this one: its connection, and the
//! statements that differ.

use std::future::{Ready, ready};

use diesel::{
    QueryResult,
    dsl::sql,
    sql_query,
    sql_types::{Array, BigInt, Nullable, Text},
};
use sql_rows::{DocumentRow, schema::documents};

pub(crate) use diesel::pg::Pg as Backend;
pub(crate) use diesel_async::{AsyncPgConnection as Connection, RunQueryDsl};

pub(crate) use crate::statement::DURABLE;
use crate::statement::{IdRow, Prepared};
pub(crate) use crate::store::PostgresStore as Store;
pub(crate) use crate::webhooks::wake;

/// The last identifier before which no order can appear any more: the newest order, or the smallest
/// identifier that a transaction has announced, which draws only larger ones. Other programs have
/// locks with other upper 16 bits.
const HORIZON: &str = "least((SELECT max(id) FROM orders), (\
    SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) FROM pg_locks \
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = 28530 \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))";

/// Returns the horizon of pages. A transaction that has drawn an identifier up to the newest order of
/// this statement's snapshot had announced itself before that. So it stands in `pg_locks`, which is
/// read after the snapshot was taken, or it has ended, and the next statement sees its orders.
pub(crate) async fn horizon(connection: &mut Connection) -> QueryResult<i64> {
    let horizon: Option<i64> =
        Prepared(diesel::select(sql::<Nullable<BigInt>>(HORIZON))).get_result(connection).await?;
    Ok(horizon.unwrap_or(i64::MAX))
}

/// Returns the SQL of a text in the details of an order.
pub(crate) fn member(path: &[&str]) -> String {
    format!("details #>> '{{{}}}'", path.join(","))
}

/// Marks nothing: `VACUUM` removes what an erased order has left.
pub(crate) fn mark_erasure(_: &mut Connection) -> Ready<QueryResult<()>> {
    ready(Ok(()))
}

/// Locks rows by identifier, so that two calls never deadlock. Makes the commit durable.
pub(crate) async fn lock(connection: &mut Connection, table: &str, ids: &[i64]) -> QueryResult<()> {
    let lock =
        format!("SELECT id FROM {table} WHERE id = ANY ($1) AND {DURABLE} ORDER BY id FOR UPDATE");
    let lock = sql_query(lock).bind::<Array<BigInt>, _>(ids);
    Prepared(lock).execute(connection).await.map(drop)
}

/// Locks those of the rows that are not locked, and returns them. The commit does not wait for the
/// disk: after a crash, a delivery whose lease was lost is only attempted again.
pub(crate) async fn lock_free(
    connection: &mut Connection,
    table: &str,
    ids: Vec<i64>,
) -> QueryResult<Vec<i64>> {
    let lock = format!(
        "SELECT id FROM {table} WHERE id = ANY ($1) \
        AND (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL \
        ORDER BY id FOR UPDATE SKIP LOCKED"
    );
    let lock = sql_query(lock).bind::<Array<BigInt>, _>(ids);
    let locked: Vec<IdRow> = Prepared(lock).get_results(connection).await?;
    Ok(locked.into_iter().map(|row| row.id).collect())
}

/// Locks uploads by key, so that two calls never deadlock.
pub(crate) async fn lock_uploads(connection: &mut Connection, keys: &[String]) -> QueryResult<()> {
    let lock = "SELECT key FROM uploads WHERE key = ANY ($1) ORDER BY key FOR UPDATE";
    let lock = sql_query(lock).bind::<Array<Text>, _>(keys);
    Prepared(lock).execute(connection).await.map(drop)
}

/// Stores documents. A trigger adopts their uploads.
pub(crate) async fn store_documents(
    connection: &mut Connection,
    rows: Vec<DocumentRow>,
) -> QueryResult<()> {
    diesel::insert_into(documents::table).values(rows).execute(connection).await.map(drop)
}

/// Makes the transactions that take a lock of this name wait for each other. The number is `hook` in
/// ASCII.
pub(crate) async fn lock_name(connection: &mut Connection, name: &str) -> QueryResult<()> {
    let lock = sql_query("SELECT pg_advisory_xact_lock(1752133483, hashtext($1))");
    Prepared(lock.bind::<Text, _>(name)).execute(connection).await.map(drop)
}
