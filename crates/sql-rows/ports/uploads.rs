//! The upload ledger.

use async_trait::async_trait;
use diesel::prelude::*;
use domain::{
    document::ObjectKey,
    ports::{StoreError, UploadLedger},
    use_cases::sweep_uploads::SweepUploads,
};
use sql_rows::{Utc, row_limit, schema::uploads};
use time::OffsetDateTime;

use crate::{
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

#[async_trait]
impl UploadLedger for Store {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        let row = |key: String| (uploads::key.eq(key), uploads::recorded_at.eq(Utc(at)));
        let rows: Vec<_> = sorted(keys).into_iter().map(row).collect();
        self.execute(diesel::insert_into(uploads::table).values(rows)).await.map(drop)
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let keys = sorted(keys);
        self.transaction_ported(async move |connection| condemn(connection, keys).await).await
    }

    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError> {
        let sweep = async move |connection: &mut Connection| {
            let is_old = uploads::recorded_at.lt(Utc(instant));
            let ahead = Utc(instant.saturating_add(2 * SweepUploads::ABANDONED_AFTER));
            let abandoned = uploads::table
                .filter(uploads::condemned.or(is_old).or(uploads::recorded_at.gt(ahead)))
                // Keys condemned earlier come last: objects that cannot be deleted must not block
                // the others.
                .order((uploads::condemned, uploads::recorded_at, uploads::key))
                .limit(row_limit(limit))
                .select(uploads::key);
            let keys = abandoned.get_results(connection).await?;
            condemn(connection, keys).await
        };
        self.transaction_ported(sweep).await
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let keys = sorted(keys);
        let forget = async move |connection: &mut Connection| {
            dialect::lock_uploads(connection, &keys).await?;
            let condemned = uploads::table.filter(uploads::key.eq_any(keys));
            diesel::delete(condemned.filter(uploads::condemned)).execute(connection).await?;
            Ok(())
        };
        self.transaction_ported(forget).await
    }
}

async fn condemn(
    connection: &mut Connection,
    keys: Vec<String>,
) -> Result<Vec<ObjectKey>, Failure> {
    dialect::lock_uploads(connection, &keys).await?;
    let condemned = diesel::update(uploads::table.filter(uploads::key.eq_any(keys)))
        .set(uploads::condemned.eq(true))
        .returning(uploads::key);
    let condemned: Vec<String> = condemned.get_results(connection).await?;
    Ok(condemned.into_iter().map(ObjectKey::from_stored).collect())
}

/// Returns keys in the order in which every call writes them, so that calls never deadlock.
fn sorted(keys: &[ObjectKey]) -> Vec<String> {
    let mut keys: Vec<_> = keys.iter().map(|key| key.as_str().to_owned()).collect();
    keys.sort();
    keys
}
