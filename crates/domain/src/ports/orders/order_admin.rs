use async_trait::async_trait;
use time::OffsetDateTime;

use crate::ports::{ListFilter, ListedOrder, MaybeErased, StoreError};
use crate::{
    access::Access,
    api_key::ClientId,
    delivery::DeliveryId,
    document::ObjectKey,
    order::{OrderId, StoredOrder},
};

/// The orders that an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrderFilter {
    /// What an owner can ask for too.
    pub list: ListFilter,
    /// Only orders of this client.
    pub client: Option<ClientId>,
    /// Only orders with this mail recipient, signer or contact, whatever the letter case.
    pub email: Option<String>,
}

/// Stores orders for operators, who work with those of any client.
///
/// # Errors
/// Every method fails with [`StoreError`] only. [`StoreError::Internal`] names an order whose row
/// cannot be read.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait OrderAdmin: Send + Sync {
    /// Returns up to `limit` orders older than `before`, newest first. Erased orders are left out.
    async fn list(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<ListedOrder>, StoreError>;

    /// Returns an order with its documents, changes and notes; `None` if there is none.
    async fn order(&self, id: OrderId) -> Result<Option<MaybeErased<StoredOrder>>, StoreError>;

    /// Returns the identifiers of up to `limit` orders that were created before `instant` and are
    /// not erased, smallest first.
    async fn created_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError>;

    /// Erases an order in one atomic, durable step:
    /// - empties its details and its file number, which becomes free
    /// - removes its notary, the texts of its notes and the reasons of its changes
    /// - removes its documents, and condemns their keys in the
    ///   [`UploadLedger`](super::UploadLedger), with those that requests in progress add to it
    /// - removes its events and its mails, except those that a worker has leased: see
    ///   [`Self::remove_mails`]. No other worker leases these, or its webhooks in progress, before `at`
    ///   and [`LONGEST_ATTEMPT`](crate::delivery::LONGEST_ATTEMPT), whatever the clock of their worker
    /// - stores the access that erases it
    ///
    /// The row stays with its identifier, client, instants and status. Webhook deliveries stay too:
    /// they have no data of the order, and those that wait are not sent. Returns the condemned
    /// keys; `None` if there is no such order or it was erased before.
    ///
    /// The store's files may have the bytes of the order until the operator cleans them:
    /// - SQLite overwrites deleted rows with zeros, but pages keep bytes of rows that it moved, until
    ///   `VACUUM`. Its write-ahead log has older pages until it is emptied
    ///   (`PRAGMA wal_checkpoint(TRUNCATE)`).
    /// - PostgreSQL keeps dead rows until `VACUUM`, and its write-ahead log until it is recycled.
    /// - Backups and archived logs keep them until they are deleted.
    async fn erase(
        &self,
        id: OrderId,
        at: OffsetDateTime,
        access: Option<Access>,
    ) -> Result<Option<Vec<ObjectKey>>, StoreError>;

    /// Returns those of the orders that are erased.
    async fn erased(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError>;

    /// Returns the mails that erased orders have left. Reads the whole queue, so the caller asks once: an
    /// erased order gets no other mails.
    async fn mails_of_erased(&self) -> Result<Vec<DeliveryId>, StoreError>;

    /// Removes these mails of erased orders, except those in progress. Returns how many these are, with the
    /// webhooks and uploads in progress of erased orders: the caller waits until there are none. A mail or
    /// webhook is in progress until its worker settles it, or until the erasure is
    /// [`LONGEST_ATTEMPT`](crate::delivery::LONGEST_ATTEMPT) ago at `at`. An upload is in progress as long as its
    /// key is in the ledger, up to that instant.
    async fn remove_mails(
        &self,
        mails: &[DeliveryId],
        at: OffsetDateTime,
    ) -> Result<usize, StoreError>;
}
