//! The upload ledger.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
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
    pieces, row_limit,
    schema::uploads,
    uploads::{abandoned_uploads, sorted_keys, uploads_for},
};
use time::OffsetDateTime;

use crate::{failure::Failure, store::SqliteStore};

#[async_trait]
impl UploadLedger for SqliteStore {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        let row = |key: String| (uploads::key.eq(key), uploads::recorded_at.eq(Utc(at)));
        let rows: Vec<_> = sorted_keys(keys).into_iter().map(row).collect();
        self.execute(diesel::insert_into(uploads::table).values(rows)).await.map(drop)
    }

    async fn record_for(
        &self,
        _: Party,
        order: OrderId,
        keys: &[ObjectKey],
        at: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let rows = uploads_for(order, keys, at);
        let record = move |connection: &mut SqliteConnection| {
            if unerased_order(order).get_result::<i64>(connection).optional()?.is_none() {
                return Ok(false);
            }
            diesel::insert_into(uploads::table).values(rows).execute(connection)?;
            Ok(true)
        };
        self.transaction(record).await
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let keys = sorted_keys(keys);
        let condemn = move |connection: &mut SqliteConnection| {
            let condemned = condemn(connection, keys)?;
            // The request that was storing them has ended: the erasure of its order need not wait.
            let keys: Vec<_> = condemned.iter().map(|key| key.as_str().to_owned()).collect();
            let ended = diesel::update(uploads::table.filter(uploads::key.eq_any(keys)));
            ended.set(uploads::order_id.eq(None::<i64>)).execute(connection)?;
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
        let sweep = move |connection: &mut SqliteConnection| {
            let abandoned = abandoned_uploads(instant, ahead, after).limit(row_limit(limit));
            let keys = abandoned.select(uploads::key).get_results(connection)?;
            let mut condemned = condemn(connection, keys)?;
            condemned.sort_unstable();
            Ok(condemned)
        };
        self.transaction(sweep).await
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let keys = sorted_keys(keys);
        let forget = move |connection: &mut SqliteConnection| {
            for keys in pieces(keys) {
                let condemned = uploads::table.filter(uploads::key.eq_any(keys));
                diesel::delete(condemned.filter(uploads::condemned)).execute(connection)?;
            }
            Ok(())
        };
        self.transaction(forget).await
    }
}

fn condemn(
    connection: &mut SqliteConnection,
    keys: Vec<String>,
) -> Result<Vec<ObjectKey>, Failure> {
    let mut condemned: Vec<String> = Vec::with_capacity(keys.len());
    for keys in pieces(keys) {
        let piece = diesel::update(uploads::table.filter(uploads::key.eq_any(keys)))
            .set(uploads::condemned.eq(true))
            .returning(uploads::key);
        condemned.extend(piece.get_results::<String>(connection)?);
    }
    Ok(condemned.into_iter().map(ObjectKey::from_stored).collect())
}
