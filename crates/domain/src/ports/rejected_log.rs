use std::collections::BTreeMap;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::StoreError;
use crate::{api_key::ApiKeyId, rejected::Rejected};

/// When the mail of a contact about rejected requests of its keys may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailClaim {
    /// The current instant.
    pub now: OffsetDateTime,
    /// Only keys with an untold request that was rejected until then.
    pub rejected_until: OffsetDateTime,
    /// When the claim ends by itself.
    pub until: OffsetDateTime,
}

/// Stores counts of rejected requests, and who tells of them.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait RejectedLog: Send + Sync {
    /// Stores counts in one atomic, durable step. One that is stored already, with this key, instant, code and run, is
    /// replaced: it has grown. What a mail has told of it stays told.
    async fn store(&self, counts: &[Rejected]) -> Result<(), StoreError>;

    /// Returns how many requests of a key were rejected, in counts that began after an instant, by code.
    async fn counts(
        &self,
        key: ApiKeyId,
        after: OffsetDateTime,
    ) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Claims the mail of the contact of a key with untold requests, the longest waiting first. Returns all keys with
    /// this contact, whatever its letter case, by identifier; none if there is no contact whose last claims have
    /// ended. Of concurrent calls of any processes, one gets a contact.
    ///
    /// A claim that ends later than two hours from now was made while a clock was wrong, and does not count.
    async fn claim_mail(&self, claim: MailClaim) -> Result<Vec<ApiKeyId>, StoreError>;

    /// Returns up to `limit` counts of keys with untold requests, the oldest first. Their number is that of the
    /// untold ones.
    async fn untold(&self, keys: &[ApiKeyId], limit: usize) -> Result<Vec<Rejected>, StoreError>;

    /// Ends a claim in one atomic, durable step: the requests of these counts are told, and the next mail about the
    /// keys is not claimed before `next`.
    async fn end_claim(
        &self,
        keys: &[ApiKeyId],
        told: &[Rejected],
        next: OffsetDateTime,
    ) -> Result<(), StoreError>;

    /// Removes the counts that began before an instant.
    async fn remove_before(&self, instant: OffsetDateTime) -> Result<(), StoreError>;
}
