//! The upload ledger.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    document::ObjectKey,
    ports::{StoreError, UploadLedger},
};
use sql_rows::{Utc, row_limit, schema::uploads};
use time::OffsetDateTime;

use crate::{failure::Failure, store::SqliteStore};

#[async_trait]
impl UploadLedger for SqliteStore {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        let keys = keys.to_vec();
        Ok(self.writer.run(move |connection| record(connection, &keys, at)).await?)
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let keys = keys.to_vec();
        Ok(self.writer.run(move |connection| condemn(connection, keys)).await?)
    }

    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError> {
        Ok(self
            .writer
            .run(move |connection| condemn_recorded_before(connection, instant, limit))
            .await?)
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let keys = keys.to_vec();
        Ok(self.writer.run(move |connection| forget(connection, &keys)).await?)
    }
}

fn record(
    connection: &mut SqliteConnection,
    keys: &[ObjectKey],
    at: OffsetDateTime,
) -> Result<(), Failure> {
    for key in keys {
        let row = (uploads::key.eq(key.as_str()), uploads::recorded_at.eq(Utc(at)));
        diesel::insert_into(uploads::table).values(row).execute(connection)?;
    }
    Ok(())
}

fn condemn(
    connection: &mut SqliteConnection,
    keys: Vec<ObjectKey>,
) -> Result<Vec<ObjectKey>, Failure> {
    let mut condemned = Vec::with_capacity(keys.len());
    for key in keys {
        if diesel::update(uploads::table.find(key.as_str()))
            .set(uploads::condemned.eq(true))
            .execute(connection)?
            > 0
        {
            condemned.push(key);
        }
    }
    Ok(condemned)
}

fn condemn_recorded_before(
    connection: &mut SqliteConnection,
    instant: OffsetDateTime,
    limit: usize,
) -> Result<Vec<ObjectKey>, Failure> {
    let keys: Vec<String> = uploads::table
        .filter(uploads::condemned.or(uploads::recorded_at.lt(Utc(instant))))
        // Keys condemned earlier come last: objects that cannot be deleted must not block the
        // others.
        .order((uploads::condemned, uploads::recorded_at, uploads::key))
        .limit(row_limit(limit))
        .select(uploads::key)
        .load(connection)?;
    condemn(connection, keys.into_iter().map(ObjectKey::from_stored).collect())
}

fn forget(connection: &mut SqliteConnection, keys: &[ObjectKey]) -> Result<(), Failure> {
    for key in keys {
        diesel::delete(uploads::table.find(key.as_str()).filter(uploads::condemned))
            .execute(connection)?;
    }
    Ok(())
}

/// Removes an upload from the ledger for an order. Returns `false` if it is not in the ledger, or
/// condemned.
pub(crate) fn adopt(connection: &mut SqliteConnection, key: &str) -> Result<bool, Failure> {
    let live = uploads::table.find(key).filter(diesel::dsl::not(uploads::condemned));
    Ok(diesel::delete(live).execute(connection)? > 0)
}
