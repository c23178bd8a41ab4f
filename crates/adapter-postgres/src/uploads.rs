//! The upload ledger. A trigger on `documents` removes the uploads that an order adopts.

use async_trait::async_trait;
use diesel::{
    QueryableByName, sql_query,
    sql_types::{Array, BigInt, Text, Timestamptz},
};
use domain::{
    document::ObjectKey,
    ports::{StoreError, UploadLedger},
};
use sql_rows::{row_limit, schema::uploads};
use time::OffsetDateTime;

use crate::store::PostgresStore;

const RECORD: &str = "INSERT INTO uploads (key, recorded_at) \
    SELECT key, $2 FROM unnest($1) AS recorded (key) ORDER BY key COLLATE \"C\"";

/// Locks uploads in the order of their keys, so that calls never deadlock. PostgreSQL may run a
/// subquery that locks rows more than once, but a common table expression only once.
const LOCKED: &str = "WITH chosen AS (\
    SELECT key FROM uploads WHERE key = ANY ($1) ORDER BY key FOR UPDATE)";

/// Uploads condemned earlier come last: objects that cannot be deleted must not delay the others.
/// Skips uploads that another sweeper has locked.
const ABANDONED: &str = "WITH chosen AS (\
    SELECT key FROM uploads WHERE condemned OR recorded_at < $1 \
    ORDER BY condemned, recorded_at, key LIMIT $2 FOR UPDATE SKIP LOCKED)";

const CONDEMN: &str = "UPDATE uploads SET condemned = true \
    WHERE key = ANY (ARRAY(SELECT key FROM chosen)) RETURNING key";

const FORGET: &str =
    "DELETE FROM uploads WHERE key = ANY (ARRAY(SELECT key FROM chosen)) AND condemned";

#[derive(QueryableByName)]
#[diesel(table_name = uploads)]
struct Condemned {
    key: String,
}

#[async_trait]
impl UploadLedger for PostgresStore {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        let record =
            sql_query(RECORD).bind::<Array<Text>, _>(texts(keys)).bind::<Timestamptz, _>(at);
        self.pool.write(record).await?;
        Ok(())
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let condemn = sql_query(format!("{LOCKED} {CONDEMN}")).bind::<Array<Text>, _>(texts(keys));
        let condemned: Vec<Condemned> = self.pool.rows(condemn).await?;
        let is_condemned =
            |key: &&ObjectKey| condemned.iter().any(|condemned| condemned.key == key.as_str());
        Ok(keys.iter().filter(is_condemned).cloned().collect())
    }

    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError> {
        let condemn = sql_query(format!("{ABANDONED} {CONDEMN}"))
            .bind::<Timestamptz, _>(instant)
            .bind::<BigInt, _>(row_limit(limit));
        let condemned: Vec<Condemned> = self.pool.rows(condemn).await?;
        Ok(condemned.into_iter().map(|row| ObjectKey::from_stored(row.key)).collect())
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let forget = sql_query(format!("{LOCKED} {FORGET}")).bind::<Array<Text>, _>(texts(keys));
        self.pool.write(forget).await?;
        Ok(())
    }
}

fn texts(keys: &[ObjectKey]) -> Vec<&str> {
    keys.iter().map(ObjectKey::as_str).collect()
}
