//! Locks of rows and of names.

use diesel::{
    QueryResult,
    dsl::sql,
    sql_query,
    sql_types::{Array, BigInt, Bool, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use crate::statement::{DURABLE, IdRow, Prepared};

/// Locks rows by identifier, so that two calls never deadlock. Makes the commit durable.
pub(crate) async fn lock(
    connection: &mut AsyncPgConnection,
    table: &str,
    ids: &[i64],
) -> QueryResult<()> {
    let lock =
        format!("SELECT id FROM {table} WHERE id = ANY ($1) AND {DURABLE} ORDER BY id FOR UPDATE");
    let lock = sql_query(lock).bind::<Array<BigInt>, _>(ids);
    Prepared(lock).execute(connection).await.map(drop)
}

/// Locks those of the orders that are not locked, and returns them. Makes the commit durable.
pub(crate) async fn lock_free_orders(
    connection: &mut AsyncPgConnection,
    ids: &[i64],
) -> QueryResult<Vec<i64>> {
    let lock = format!(
        "SELECT id FROM orders WHERE id = ANY ($1) AND {DURABLE} ORDER BY id FOR UPDATE SKIP LOCKED"
    );
    let lock = sql_query(lock).bind::<Array<BigInt>, _>(ids);
    let locked: Vec<IdRow> = Prepared(lock).get_results(connection).await?;
    Ok(locked.into_iter().map(|row| row.id).collect())
}

/// Locks those of the rows that are not locked, and returns them. The commit does not wait for the
/// disk: after a crash, a delivery whose lease was lost is only attempted again.
pub(crate) async fn lock_free(
    connection: &mut AsyncPgConnection,
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
pub(crate) async fn lock_uploads(
    connection: &mut AsyncPgConnection,
    keys: &[String],
) -> QueryResult<()> {
    let lock = "SELECT key FROM uploads WHERE key = ANY ($1) ORDER BY key FOR UPDATE";
    let lock = sql_query(lock).bind::<Array<Text>, _>(keys);
    Prepared(lock).execute(connection).await.map(drop)
}

/// Makes the transactions on this table of orders that take a lock of this name wait for each other.
/// The number is `hook` in ASCII.
pub(crate) async fn lock_name(connection: &mut AsyncPgConnection, name: &str) -> QueryResult<()> {
    let lock = sql_query(
        "SELECT pg_advisory_xact_lock(1752133483, hashtext(concat('orders'::regclass::oid, ' ', $1)))",
    );
    Prepared(lock.bind::<Text, _>(name)).execute(connection).await.map(drop)
}

/// Takes such a lock, unless another transaction has it. Returns whether it did.
pub(crate) async fn try_lock_name(
    connection: &mut AsyncPgConnection,
    name: &str,
) -> QueryResult<bool> {
    let lock = sql::<Bool>(
        "SELECT pg_try_advisory_xact_lock(1752133483, hashtext(concat('orders'::regclass::oid, ' ', ",
    );
    lock.bind::<Text, _>(name).sql(")))").get_result(connection).await
}
