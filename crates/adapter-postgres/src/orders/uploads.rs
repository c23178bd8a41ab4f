//! The upload ledger.

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Party,
    document::ObjectKey,
    order::OrderId,
    ports::{StoreError, UploadLedger},
    use_cases::upkeep::sweep_uploads::SweepUploads,
};
use sql_rows::{
    Utc,
    orders::erase::unerased_order,
    row_limit,
    schema::uploads,
    uploads::{abandoned_uploads, sorted_keys, uploads_for},
};
use time::OffsetDateTime;

use crate::{failure::Failure, locks, store::PostgresStore};

#[async_trait]
impl UploadLedger for PostgresStore {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        let row = |key: String| (uploads::key.eq(key), uploads::recorded_at.eq(Utc(at)));
        let rows: Vec<_> = sorted_keys(keys).into_iter().map(row).collect();
        self.execute(diesel::insert_into(uploads::table).values(rows)).await.map(drop)
    }

    async fn record_for(
        &self,
        party: Party,
        order: OrderId,
        keys: &[ObjectKey],
        at: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let rows = uploads_for(order, keys, at);
        let record = async move |connection: &mut AsyncPgConnection| {
            // An erasure waits for this lock, and condemns the keys.
            locks::lock(connection, "orders", &[order.0]).await?;
            if unerased_order(order).get_result::<i64>(connection).await.optional()?.is_none() {
                return Ok(false);
            }
            diesel::insert_into(uploads::table).values(&rows).execute(connection).await?;
            Ok(true)
        };
        Ok(self.pool.change_in_transaction(Some(party), record).await?)
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let keys = sorted_keys(keys);
        let condemn = async move |connection: &mut AsyncPgConnection| {
            let condemned = condemn(connection, keys).await?;
            // The request that was storing them has ended: the erasure of its order need not wait.
            let keys: Vec<_> = condemned.iter().map(|key| key.as_str().to_owned()).collect();
            let ended = diesel::update(uploads::table.filter(uploads::key.eq_any(keys)));
            ended.set(uploads::order_id.eq(None::<i64>)).execute(connection).await?;
            Ok(condemned)
        };
        self.transaction(condemn).await
    }

    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        after: Option<ObjectKey>,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError> {
        let ahead = instant.saturating_add(2 * SweepUploads::ABANDONED_AFTER);
        let sweep = async move |connection: &mut AsyncPgConnection| {
            let abandoned = abandoned_uploads(instant, ahead, after).limit(row_limit(limit));
            let keys = abandoned.select(uploads::key).get_results(connection).await?;
            let mut condemned = condemn(connection, keys).await?;
            condemned.sort_unstable();
            Ok(condemned)
        };
        self.transaction(sweep).await
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let keys = sorted_keys(keys);
        let forget = async move |connection: &mut AsyncPgConnection| {
            locks::lock_uploads(connection, &keys).await?;
            let condemned = uploads::table.filter(uploads::key.eq_any(keys));
            diesel::delete(condemned.filter(uploads::condemned)).execute(connection).await?;
            Ok(())
        };
        self.transaction(forget).await
    }
}

async fn condemn(
    connection: &mut AsyncPgConnection,
    keys: Vec<String>,
) -> Result<Vec<ObjectKey>, Failure> {
    locks::lock_uploads(connection, &keys).await?;
    let condemned: Vec<String> = diesel::update(uploads::table.filter(uploads::key.eq_any(keys)))
        .set(uploads::condemned.eq(true))
        .returning(uploads::key)
        .get_results(connection)
        .await?;
    Ok(condemned.into_iter().map(ObjectKey::from_stored).collect())
}
