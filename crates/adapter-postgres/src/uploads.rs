//! The upload ledger. An order takes its uploads out of it by a trigger on the table of documents.

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    document::ObjectKey,
    ports::{StoreError, UploadLedger},
};
use futures_util::FutureExt as _;
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    failure::Failure,
    rows::row_limit,
    schema::uploads,
    statement::{Prepared, With},
};

diesel::table! {
    /// Uploads that a statement has locked.
    chosen (key) {
        key -> Text,
    }
}

diesel::allow_tables_to_appear_in_same_query!(uploads, chosen);

/// The part that both ways to condemn have in common; its type is too long to be written down.
macro_rules! condemn_chosen {
    () => {
        diesel::update(uploads::table.filter(uploads::key.eq_any(chosen::table.select(chosen::key)))).set(uploads::condemned.eq(true)).returning(uploads::key)
    };
}

#[async_trait]
impl UploadLedger for PostgresStore {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        let keys = texts(keys);
        Ok(self.pool.run(move |connection| record(connection, keys, at).boxed()).await?)
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let texts = texts(keys);
        let condemned = self.pool.run(move |connection| condemn(connection, texts).boxed()).await?;
        Ok(keys.iter().filter(|key| condemned.iter().any(|condemned| condemned == key.as_str())).cloned().collect())
    }

    async fn condemn_recorded_before(&self, instant: OffsetDateTime, limit: usize) -> Result<Vec<ObjectKey>, StoreError> {
        let keys = self.pool.run(move |connection| condemn_recorded_before(connection, instant, limit).boxed()).await?;
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

async fn record(connection: &mut AsyncPgConnection, keys: Vec<String>, at: OffsetDateTime) -> Result<(), Failure> {
    let rows: Vec<_> = keys.into_iter().map(|key| (uploads::key.eq(key), uploads::recorded_at.eq(at))).collect();
    Prepared(diesel::insert_into(uploads::table).values(rows)).execute(connection).await?;
    Ok(())
}

/// Rows are locked in the order of their keys, so that two that condemn the same never wait for each other.
async fn condemn(connection: &mut AsyncPgConnection, keys: Vec<String>) -> Result<Vec<String>, Failure> {
    let locked = uploads::table.filter(uploads::key.eq_any(keys)).order(uploads::key).select(uploads::key).for_update();
    Ok(Prepared(With { name: "chosen", common: locked, body: condemn_chosen!() }).get_results(connection).await?)
}

async fn condemn_recorded_before(connection: &mut AsyncPgConnection, instant: OffsetDateTime, limit: usize) -> Result<Vec<String>, Failure> {
    let due = uploads::table
        .filter(uploads::condemned.or(uploads::recorded_at.lt(instant)))
        // Those condemned earlier come last: objects that cannot be deleted must not keep the sweeper from the others.
        .order((uploads::condemned, uploads::recorded_at, uploads::key))
        .limit(row_limit(limit))
        .select(uploads::key)
        // What another sweeper is at is left to it.
        .for_update()
        .skip_locked();
    Ok(Prepared(With { name: "chosen", common: due, body: condemn_chosen!() }).get_results(connection).await?)
}

async fn forget(connection: &mut AsyncPgConnection, keys: Vec<String>) -> Result<(), Failure> {
    diesel::delete(uploads::table.filter(uploads::key.eq_any(keys)).filter(uploads::condemned)).execute(connection).await?;
    Ok(())
}
