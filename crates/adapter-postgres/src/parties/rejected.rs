//! Counts of rejected requests.

use std::collections::BTreeMap;

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
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

use crate::{locks, store::PostgresStore};

#[async_trait]
impl RejectedLog for PostgresStore {
    async fn store(&self, counts: &[Rejected]) -> Result<(), StoreError> {
        let counts = counts.to_vec();
        let store = async move |connection: &mut AsyncPgConnection| {
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
                Prepared(stored).execute(connection).await?;
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
        let counts = async move |connection: &mut AsyncPgConnection| {
            Ok(by_code(Prepared(counts_of(key, after)).get_results(connection).await?))
        };
        self.read_orders(counts).await
    }

    /// The lock makes concurrent calls wait, so that only one of them finds a contact.
    async fn claim_mail(&self, claim: MailClaim) -> Result<Vec<ApiKeyId>, StoreError> {
        let claim_one = async move |connection: &mut AsyncPgConnection| {
            locks::lock_name(connection, "rejected_mails").await?;
            let found: Option<Option<String>> =
                Prepared(contacts_to_tell(claim)).get_result(connection).await.optional()?;
            let Some(contact) = found.flatten() else { return Ok(Vec::new()) };
            let keys: Vec<i64> = keys_of_contact(contact).load(connection).await?;
            diesel::update(api_keys::table.filter(api_keys::id.eq_any(keys.clone())))
                .set(api_keys::next_rejected_mail_at.eq(Some(Utc(claim.until))))
                .execute(connection)
                .await?;
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
        let (keys, mut told) = (key_ids(keys), told.to_vec());
        // As counts are stored, so that the two never deadlock: the mail would leave again.
        told.sort_by(|a, b| (a.key, &a.code, a.at).cmp(&(b.key, &b.code, b.at)));
        let end = async move |connection: &mut AsyncPgConnection| {
            for count in &told {
                let more = rejected_requests::told + stored_requests(count);
                let told = diesel::update(count_row(count)).set(rejected_requests::told.eq(more));
                Prepared(told).execute(connection).await?;
            }
            diesel::update(api_keys::table.filter(api_keys::id.eq_any(keys)))
                .set(api_keys::next_rejected_mail_at.eq(Some(Utc(next))))
                .execute(connection)
                .await?;
            Ok(())
        };
        self.transaction(end).await
    }

    async fn remove_before(&self, instant: OffsetDateTime) -> Result<(), StoreError> {
        let old = rejected_requests::table.filter(rejected_requests::at.lt(Utc(instant)));
        self.execute(diesel::delete(old)).await.map(drop)
    }
}
