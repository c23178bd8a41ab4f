//! What the modules that both databases share need of this one: its connection, and the
//! statements that differ.

use diesel::{
    QueryResult, sql_query,
    sql_types::{Array, BigInt, Text, Timestamptz},
};
use diesel_async::SimpleAsyncConnection as _;
use domain::{
    api_key::{ApiKeyId, Party},
    ports::StoreError,
};
use sql_rows::{DocumentRow, schema::documents, stored_party};
use time::OffsetDateTime;

pub(crate) use diesel_async::{AsyncPgConnection as Connection, RunQueryDsl};

pub(crate) use crate::statement::DURABLE;
use crate::statement::{IdRow, Prepared, column};
pub(crate) use crate::store::PostgresStore as Store;

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

/// Makes additions of keys wait for each other.
pub(crate) async fn lock_keys(connection: &mut Connection) -> QueryResult<()> {
    connection.batch_execute("LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE").await
}

/// Makes the additions of endpoints of a party wait for each other. The number is `hook` in ASCII.
pub(crate) async fn lock_endpoints(connection: &mut Connection, party: Party) -> QueryResult<()> {
    let lock = sql_query("SELECT pg_advisory_xact_lock(1752133483, hashint8($1))");
    Prepared(lock.bind::<BigInt, _>(stored_party(party))).execute(connection).await.map(drop)
}

/// Locks the keys by identifier, so that two instances never deadlock.
const NOTE_USES: &str = "WITH locked AS (\
        SELECT id FROM api_keys WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE\
    ) UPDATE api_keys SET last_used_at = used.at \
    FROM locked JOIN unnest($1, $2) AS used (id, at) USING (id) \
    WHERE api_keys.id = locked.id AND (last_used_at IS NULL OR last_used_at < used.at)";

pub(crate) async fn note_uses(
    store: &Store,
    uses: &[(ApiKeyId, OffsetDateTime)],
) -> Result<(), StoreError> {
    let note = sql_query(NOTE_USES)
        .bind::<Array<BigInt>, _>(column(uses, |(id, _)| id.0))
        .bind::<Array<Timestamptz>, _>(column(uses, |(_, at)| *at));
    store.execute(note).await.map(drop)
}
