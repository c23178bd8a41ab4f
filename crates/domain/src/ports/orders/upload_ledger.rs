use async_trait::async_trait;
use time::OffsetDateTime;

use crate::api_key::Party;
use crate::document::ObjectKey;
use crate::order::OrderId;
use crate::ports::StoreError;

/// Records the objects of documents that no order has yet, so that a process that dies leaves no
/// unknown object.
///
/// The life of an object key:
/// 1. *Recorded* before its object is put.
/// 2. *Adopted*: [`OrderRepo`](super::OrderRepo) removes it from the ledger when the order has the
///    document. Or *condemned*: no order can adopt it any more. The erasure of an order condemns the
///    keys of its documents.
/// 3. A condemned key is *forgotten* when its object is deleted.
///
/// An implementation guarantees that every change is durable when the call returns.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait UploadLedger: Send + Sync {
    /// Records all of the keys, or none.
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError>;

    /// Records all of the keys for documents that an order gets from a party. Returns `false` and records none if
    /// there is no such order, or it is erased. The erasure of the order condemns them.
    async fn record_for(
        &self,
        party: Party,
        order: OrderId,
        keys: &[ObjectKey],
        at: OffsetDateTime,
    ) -> Result<bool, StoreError>;

    /// Condemns those of the keys that are in the ledger, and returns them, also those that were
    /// condemned before. No order has or will have their objects.
    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError>;

    /// Condemns keys recorded before `instant`, or more than two hours after it, while a clock was
    /// wrong. Returns them, and keys condemned earlier that are not forgotten yet: in their order, at most
    /// `limit` of those after `after`.
    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        after: Option<ObjectKey>,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError>;

    /// Forgets condemned keys. Keys that are not condemned stay.
    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError>;
}
