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
        GrownColumns, RejectedRow, UntoldRow, by_code, contacts_to_tell, count_row, counts_of,
        key_ids, keys_of_contact, stored_requests, untold_of,
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

    /// One thread writes, so only one of concurrent calls finds a contact.
    async fn claim_mail(&self, claim: MailClaim) -> Result<Vec<ApiKeyId>, StoreError> {
        let claim_one = move |connection: &mut SqliteConnection| {
            let found: Option<Option<String>> =
                Prepared(contacts_to_tell(claim)).get_result(connection).optional()?;
            let Some(contact) = found.flatten() else { return Ok(Vec::new()) };
            let keys: Vec<i64> = keys_of_contact(contact).load(connection)?;
            diesel::update(api_keys::table.filter(api_keys::id.eq_any(keys.clone())))
                .set(api_keys::next_rejected_mail_at.eq(Some(Utc(claim.until))))
                .execute(connection)?;
            Ok(keys.into_iter().map(ApiKeyId).collect())
        };
        self.transaction(claim_one).await
    }

    async fn untold(&self, keys: &[ApiKeyId], limit: usize) -> Result<Vec<Rejected>, StoreError> {
        self.select(untold_of(keys, limit), |row: UntoldRow| Ok(row.into_untold())).await
    }

    async fn end_claim(
        &self,
        keys: &[ApiKeyId],
        told: &[Rejected],
        next: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let (keys, told) = (key_ids(keys), told.to_vec());
        let end = move |connection: &mut SqliteConnection| {
            for count in &told {
                let more = rejected_requests::told + stored_requests(count);
                let told = diesel::update(count_row(count)).set(rejected_requests::told.eq(more));
                Prepared(told).execute(connection)?;
            }
            diesel::update(api_keys::table.filter(api_keys::id.eq_any(keys)))
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
