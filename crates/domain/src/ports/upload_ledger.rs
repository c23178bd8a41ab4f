use async_trait::async_trait;
use time::OffsetDateTime;

use super::StoreError;
use crate::document::ObjectKey;

/// Remembers which objects are about to be put for an order that is not placed yet, so that none is
/// forgotten when the process dies.
///
/// A key is *recorded* before its object is put, leaves the ledger when
/// [`OrderRepo::place`](super::OrderRepo::place) adopts it, and otherwise is *condemned* before its
/// object is deleted, so that no order can adopt it any more.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait UploadLedger: Send + Sync {
    /// Records keys, durably. All or none.
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError>;

    /// Condemns those of the keys that are in the ledger, durably, and returns them: their objects
    /// belong to no order and never will. Condemned keys are returned again.
    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError>;

    /// Condemns keys recorded before an instant, and returns them with those condemned earlier and
    /// not yet forgotten; at most `limit`.
    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError>;

    /// Forgets condemned keys whose objects are gone. Keys that are not condemned stay.
    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError>;
}
