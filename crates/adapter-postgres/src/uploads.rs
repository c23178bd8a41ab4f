//! The upload ledger. A trigger on `documents` removes the uploads that an order adopts.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    sql_query,
    sql_types::{Array, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    document::ObjectKey,
    ports::{StoreError, UploadLedger},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    batch::{Waiting, Work},
    failure::{Failure, Shared, store_error},
    rows::row_limit,
    schema::uploads,
    statement::{Prepared, With},
};

diesel::table! {
    /// The uploads that a statement has locked.
    chosen (key) {
        key -> Text,
    }
}

diesel::allow_tables_to_appear_in_same_query!(uploads, chosen);

/// The uploads that a statement has locked. A macro, because the type is too long to write.
macro_rules! chosen_uploads {
    () => {
        uploads::table.filter(uploads::key.eq_any(chosen::table.select(chosen::key)))
    };
}

/// The uploads of these keys, locked in the order of the keys, so that calls never deadlock.
macro_rules! locked_uploads {
    ($keys:expr) => {
        uploads::table
            .filter(uploads::key.eq_any($keys))
            .order(uploads::key)
            .select(uploads::key)
            .for_update()
    };
}

#[async_trait]
impl UploadLedger for PostgresStore {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        self.records.run(Recorded { keys: texts(keys), at }).await.map_err(store_error)
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let texts = texts(keys);
        let condemned = self.pool.run(move |connection| condemn(connection, texts).boxed()).await?;
        Ok(keys
            .iter()
            .filter(|key| condemned.iter().any(|condemned| condemned == key.as_str()))
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
        Ok(keys.into_iter().map(ObjectKey::from_stored).collect())
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

    fn fits_with(&self, _other: &Self) -> bool {
        true
    }

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
) -> Result<Vec<String>, Failure> {
    let body =
        diesel::update(chosen_uploads!()).set(uploads::condemned.eq(true)).returning(uploads::key);
    Ok(Prepared(With { name: "chosen", common: locked_uploads!(keys), body })
        .get_results(connection)
        .await?)
}

async fn condemn_recorded_before(
    connection: &mut AsyncPgConnection,
    instant: OffsetDateTime,
    limit: usize,
) -> Result<Vec<String>, Failure> {
    let due = uploads::table
        .filter(uploads::condemned.or(uploads::recorded_at.lt(instant)))
        // Uploads condemned earlier come last: objects that cannot be deleted must not delay the
        // others.
        .order((uploads::condemned, uploads::recorded_at, uploads::key))
        .limit(row_limit(limit))
        .select(uploads::key)
        // Skips uploads that another sweeper has locked.
        .for_update()
        .skip_locked();
    let body =
        diesel::update(chosen_uploads!()).set(uploads::condemned.eq(true)).returning(uploads::key);
    Ok(Prepared(With { name: "chosen", common: due, body }).get_results(connection).await?)
}

async fn forget(connection: &mut AsyncPgConnection, keys: Vec<String>) -> Result<(), Failure> {
    let body = diesel::delete(chosen_uploads!().filter(uploads::condemned));
    Prepared(With { name: "chosen", common: locked_uploads!(keys), body })
        .execute(connection)
        .await?;
    Ok(())
}
