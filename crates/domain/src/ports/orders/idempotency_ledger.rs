use async_trait::async_trait;
use time::OffsetDateTime;

use crate::idempotency::{Claim, IdempotencyKey};
use crate::ports::{StoreError, WriteError};

/// Stores which idempotency keys are in use, for all processes on the store.
///
/// A long request *claims* its key while it is in progress. When its order is created or its
/// documents are added, [`OrderRepo`](super::OrderRepo) stores the request under the key in the same
/// step, claimed before or not. Otherwise the claim is *released*, or ends.
///
/// **A key is in use at an instant** if both are true:
/// - It is kept beyond that instant.
/// - A request was answered under it, or another claim has it. The same claim does not bar itself.
///
/// `key_in_use` in `sql-rows/src/idempotency_keys.rs` is this rule. On PostgreSQL, the function
/// `idempotency_key_in_use` repeats it for the statement that creates orders, and for the trigger
/// that protects the rows.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait IdempotencyLedger: Send + Sync {
    /// Claims a key that is free at `now`, until `until`. The same claim extends itself.
    ///
    /// An implementation guarantees: of any number of concurrent claims, one gets the key.
    ///
    /// # Errors
    /// [`WriteError::KeyInUse`] says what the key is in use for.
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), WriteError>;

    /// Gives up a claim, so that the key is free. Changes nothing if another claim has the key, or
    /// a request was answered under it.
    async fn release(&self, claim: &Claim) -> Result<(), StoreError>;

    /// Reads up to `limit` keys after `after`, in an order of the store's own, and forgets those
    /// that are free at `now`. Returns the last key that it read, or `None` when there are no more.
    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<IdempotencyKey>, StoreError>;
}
