use async_trait::async_trait;
use time::OffsetDateTime;

use super::{Cause, StoreError};
use crate::idempotency::{Claim, IdempotencyKey, KeyUse};

/// Why a key was not claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// It is in use.
    #[error("the idempotency key is in use")]
    Taken(KeyUse),
    /// The store does not answer. Whether the key was claimed is unknown.
    #[error("the store does not answer")]
    Unavailable(#[source] Cause),
    /// The store answered what nobody expected.
    #[error("the store failed")]
    Internal(#[source] Cause),
}

/// Keeps which idempotency keys are in use, and by which order; the same for every process on the
/// store.
///
/// A request that takes long *claims* its key while it is in flight. When its order is placed,
/// [`OrderRepo::place`](super::OrderRepo::place) remembers it under the key, claimed before or not,
/// in the order's own step; otherwise the claim is *released*, or ends.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait IdempotencyLedger: Send + Sync {
    /// Claims a key that is free at `now`, until `until`; of any number of concurrent claims one
    /// gets it. Who has claimed it already extends the claim.
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), ClaimError>;

    /// Gives up a claim, so that the key is free. Changes nothing when the key has passed to
    /// somebody else, or an order was placed under it.
    async fn release(&self, claim: &Claim) -> Result<(), StoreError>;

    /// Looks at up to `limit` keys after `after`, in an order of the store's own, and forgets those
    /// that are free again at `now`. Answers the last key that it looked at; none when there are no
    /// more.
    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<IdempotencyKey>, StoreError>;
}
