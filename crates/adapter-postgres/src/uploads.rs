//! The upload ledger. A trigger on `documents` removes the uploads that an order adopts.

use async_trait::async_trait;
use diesel::{
    QueryableByName, sql_query,
    sql_types::{Array, BigInt, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    document::ObjectKey,
    ports::{StoreError, UploadLedger},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use sql_rows::{row_limit, schema::uploads};
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    batch::{Waiting, Work},
    failure::{Failure, Shared, store_error},
    statement::Prepared,
};

/// Locks uploads in the order of their keys, so that calls never deadlock. PostgreSQL may run a
/// subquery that locks rows more than once, but a common table expression only once.
const LOCKED: &str = "WITH chosen AS (\
    SELECT key FROM uploads WHERE key = ANY ($1) ORDER BY key FOR UPDATE)";

const CONDEMN: &str = "UPDATE uploads SET condemned = true \
    WHERE key = ANY (ARRAY(SELECT key FROM chosen)) RETURNING key";

/// Uploads condemned earlier come last: objects that cannot be deleted must not delay the others.
/// Skips uploads that another sweeper has locked.
const ABANDONED: &str = "WITH chosen AS (\
    SELECT key FROM uploads WHERE condemned OR recorded_at < $1 \
    ORDER BY condemned, recorded_at, key LIMIT $2 FOR UPDATE SKIP LOCKED)";

#[derive(QueryableByName)]
#[diesel(table_name = uploads)]
struct Condemned {
    key: String,
}

#[async_trait]
impl UploadLedger for PostgresStore {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        let recorded = Recorded { keys: texts(keys), at };
        self.threads.batches().records.run(recorded).await.map_err(store_error)
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let texts = texts(keys);
        let condemned = self.pool.run(move |connection| condemn(connection, texts).boxed()).await?;
        Ok(keys
            .iter()
            .filter(|key| condemned.iter().any(|condemned| condemned.key == key.as_str()))
            .cloned()
            .collect())
    }

    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError> {
        let keys = self
            .pool
            .run(move |connection| condemn_recorded_before(connection, instant, limit).boxed())
            .await?;
        Ok(keys.into_iter().map(|row| ObjectKey::from_stored(row.key)).collect())
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let keys = texts(keys);
        Ok(self.pool.run(move |connection| forget(connection, keys).boxed()).await?)
    }
}

fn texts(keys: &[ObjectKey]) -> Vec<String> {
    keys.iter().map(|key| key.as_str().to_owned()).collect()
}

/// The uploads that a request is about to make.
pub(crate) struct Recorded {
    keys: Vec<String>,
    at: OffsetDateTime,
}

impl Work for Recorded {
    type Done = ();
    type Error = Shared;

    fn commit(
        connection: &mut AsyncPgConnection,
        batch: Vec<Waiting<Self>>,
    ) -> BoxFuture<'_, Result<(), Shared>> {
        async move {
            let recorded = record(connection, batch.iter().map(|waiting| &waiting.work)).await;
            if batch.len() > 1 && recorded.as_ref().is_err_and(Failure::is_constraint) {
                // A key that is already recorded fails alone.
                let mut health = Ok(());
                for waiting in batch {
                    let recorded = record(connection, std::iter::once(&waiting.work))
                        .await
                        .map_err(Shared::from);
                    health = health.and(recorded.clone());
                    waiting.reply(recorded);
                }
                return health;
            }
            let recorded = recorded.map_err(Shared::from);
            for waiting in batch {
                waiting.reply(recorded.clone());
            }
            recorded
        }
        .boxed()
    }
}

async fn record(
    connection: &mut AsyncPgConnection,
    batch: impl Iterator<Item = &Recorded>,
) -> Result<(), Failure> {
    const RECORD: &str = "INSERT INTO uploads (key, recorded_at) SELECT key, at \
        FROM unnest($1, $2) AS recorded (key, at) ORDER BY key COLLATE \"C\"";
    let (keys, instants): (Vec<&str>, Vec<OffsetDateTime>) = batch
        .flat_map(|recorded| recorded.keys.iter().map(|key| (key.as_str(), recorded.at)))
        .unzip();
    let insert =
        sql_query(RECORD).bind::<Array<Text>, _>(keys).bind::<Array<Timestamptz>, _>(instants);
    Prepared(insert).execute(connection).await?;
    Ok(())
}

async fn condemn(
    connection: &mut AsyncPgConnection,
    keys: Vec<String>,
) -> Result<Vec<Condemned>, Failure> {
    let condemn = sql_query(format!("{LOCKED} {CONDEMN}")).bind::<Array<Text>, _>(keys);
    Ok(Prepared(condemn).get_results(connection).await?)
}

async fn condemn_recorded_before(
    connection: &mut AsyncPgConnection,
    instant: OffsetDateTime,
    limit: usize,
) -> Result<Vec<Condemned>, Failure> {
    let condemn = sql_query(format!("{ABANDONED} {CONDEMN}"))
        .bind::<Timestamptz, _>(instant)
        .bind::<BigInt, _>(row_limit(limit));
    Ok(Prepared(condemn).get_results(connection).await?)
}

async fn forget(connection: &mut AsyncPgConnection, keys: Vec<String>) -> Result<(), Failure> {
    let forget = format!(
        "{LOCKED} DELETE FROM uploads WHERE key = ANY (ARRAY(SELECT key FROM chosen)) AND condemned"
    );
    Prepared(sql_query(forget).bind::<Array<Text>, _>(keys)).execute(connection).await?;
    Ok(())
}
