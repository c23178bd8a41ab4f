//! Counts of rejected requests.

use std::collections::BTreeMap;

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    api_key::ApiKeyId,
    ports::{MailClaim, RejectedLog, StoreError},
    rejected::Rejected,
};
use sql_rows::{
    Prepared, Utc,
    rejected_requests::{
        GrownColumns, RejectedRow, UntoldRow, by_code, count_row, counts_of, keys_to_tell,
        stored_requests, untold_of,
    },
    schema::{api_keys, rejected_requests},
};
use time::OffsetDateTime;

use crate::store::SqliteStore;

#[async_trait]
impl RejectedLog for SqliteStore {
    async fn store(&self, counts: &[Rejected]) -> Result<(), StoreError> {
        let counts = counts.to_vec();
        let store = move |connection: &mut SqliteConnection| {
            for count in &counts {
                let key = (
                    rejected_requests::api_key_id,
                    rejected_requests::at,
                    rejected_requests::code,
                    rejected_requests::run,
                );
                let stored = diesel::insert_into(rejected_requests::table)
                    .values(RejectedRow::from(count))
                    .on_conflict(key)
                    .do_update()
                    .set(GrownColumns::from(count));
                Prepared(stored).execute(connection)?;
            }
            Ok(())
        };
        self.transaction(store).await
    }

    async fn counts(
        &self,
        key: ApiKeyId,
        after: OffsetDateTime,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        let counts = move |connection: &mut SqliteConnection| {
            Ok(by_code(Prepared(counts_of(key, after)).get_results(connection)?))
        };
        self.read_orders(counts).await
    }

    /// One thread writes, so only one of concurrent calls finds a key.
    async fn claim_mail(&self, claim: MailClaim) -> Result<Option<ApiKeyId>, StoreError> {
        let claim_one = move |connection: &mut SqliteConnection| {
            let found: Option<i64> =
                Prepared(keys_to_tell(claim)).get_result(connection).optional()?;
            let Some(id) = found else { return Ok(None) };
            diesel::update(api_keys::table.find(id))
                .set(api_keys::next_rejected_mail_at.eq(Some(Utc(claim.until))))
                .execute(connection)?;
            Ok(Some(ApiKeyId(id)))
        };
        self.transaction(claim_one).await
    }

    async fn untold(&self, key: ApiKeyId, limit: usize) -> Result<Vec<Rejected>, StoreError> {
        self.select(untold_of(key, limit), |row: UntoldRow| Ok(row.into_untold())).await
    }

    async fn end_claim(
        &self,
        key: ApiKeyId,
        told: &[Rejected],
        next: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let told = told.to_vec();
        let end = move |connection: &mut SqliteConnection| {
            for count in &told {
                let more = rejected_requests::told + stored_requests(count);
                let told = diesel::update(count_row(count)).set(rejected_requests::told.eq(more));
                Prepared(told).execute(connection)?;
            }
            diesel::update(api_keys::table.find(key.0))
                .set(api_keys::next_rejected_mail_at.eq(Some(Utc(next))))
                .execute(connection)?;
            Ok(())
        };
        self.transaction(end).await
    }

    async fn remove_before(&self, instant: OffsetDateTime) -> Result<(), StoreError> {
        let old = rejected_requests::table.filter(rejected_requests::at.lt(Utc(instant)));
        self.execute(diesel::delete(old)).await.map(drop)
    }
}
