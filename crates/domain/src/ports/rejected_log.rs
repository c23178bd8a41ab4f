use std::collections::BTreeMap;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::StoreError;
use crate::{api_key::ApiKeyId, rejected::Rejected};

/// When the mail of a key about its rejected requests may be claimed.
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

    /// Claims the mail of a key that has a contact and untold requests, the longest waiting first. Returns `None` if
    /// there is none whose last claim has ended. Of concurrent calls of any processes, one gets a key.
    ///
    /// A claim that ends later than two hours from now was made while a clock was wrong, and does not count.
    async fn claim_mail(&self, claim: MailClaim) -> Result<Option<ApiKeyId>, StoreError>;

    /// Returns up to `limit` counts of a key with untold requests, the oldest first. Their number is that of the
    /// untold ones.
    async fn untold(&self, key: ApiKeyId, limit: usize) -> Result<Vec<Rejected>, StoreError>;

    /// Ends a claim in one atomic, durable step: the requests of these counts are told, and the next mail of the key
    /// is not claimed before `next`.
    async fn end_claim(
        &self,
        key: ApiKeyId,
        told: &[Rejected],
        next: OffsetDateTime,
    ) -> Result<(), StoreError>;

    /// Removes the counts that began before an instant.
    async fn remove_before(&self, instant: OffsetDateTime) -> Result<(), StoreError>;
}
