//! The upload ledger.

use async_trait::async_trait;
use diesel::{dsl::not, prelude::*, sqlite::SqliteConnection};
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
        let record = move |connection: &mut SqliteConnection| {
            for key in &keys {
                let row = (uploads::key.eq(key.as_str()), uploads::recorded_at.eq(Utc(at)));
                diesel::insert_into(uploads::table).values(row).execute(connection)?;
            }
            Ok(())
        };
        self.write(record).await
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let keys = keys.to_vec();
        self.write(move |connection| condemn(connection, keys)).await
    }

    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError> {
        let condemn = move |connection: &mut SqliteConnection| {
            let keys: Vec<String> = uploads::table
                .filter(uploads::condemned.or(uploads::recorded_at.lt(Utc(instant))))
                // Keys condemned earlier come last: objects that cannot be deleted must not block
                // the others.
                .order((uploads::condemned, uploads::recorded_at, uploads::key))
                .limit(row_limit(limit))
                .select(uploads::key)
                .load(connection)?;
            condemn(connection, keys.into_iter().map(ObjectKey::from_stored).collect())
        };
        self.write(condemn).await
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let keys = keys.to_vec();
        let forget = move |connection: &mut SqliteConnection| {
            for key in &keys {
                diesel::delete(uploads::table.find(key.as_str()).filter(uploads::condemned))
                    .execute(connection)?;
            }
            Ok(())
        };
        self.write(forget).await
    }
}

fn condemn(
    connection: &mut SqliteConnection,
    keys: Vec<ObjectKey>,
) -> Result<Vec<ObjectKey>, Failure> {
    let mut condemned = Vec::with_capacity(keys.len());
    for key in keys {
        let upload = diesel::update(uploads::table.find(key.as_str()));
        if upload.set(uploads::condemned.eq(true)).execute(connection)? > 0 {
            condemned.push(key);
        }
    }
    Ok(condemned)
}

/// Removes an upload from the ledger for an order. Returns `false` if it is not in the ledger, or
/// condemned.
pub(crate) fn adopt(connection: &mut SqliteConnection, key: &str) -> Result<bool, Failure> {
    let live = uploads::table.find(key).filter(not(uploads::condemned));
    Ok(diesel::delete(live).execute(connection)? > 0)
}
