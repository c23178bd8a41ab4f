use std::sync::Arc;

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::ports::{ListFilter, ListedOrder, MaybeErased, StoreError};
use crate::{
    access::Access,
    api_key::ClientId,
    delivery::DeliveryId,
    document::ObjectKey,
    order::{Due, OrderId, Refusal, StoredOrder},
};

/// The orders that an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrderFilter {
    /// The filters that an owner has, too.
    pub list: ListFilter,
    /// Only orders of this client.
    pub client: Option<ClientId>,
    /// Only orders with this mail recipient, signer or contact, whatever the letter case.
    pub email: Option<String>,
    /// Only orders that are on hold at this instant.
    pub held_at: Option<OffsetDateTime>,
}

/// The outcome of an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasureOutcome {
    /// The order is erased. These objects are to be deleted.
    Erased(Vec<ObjectKey>),
    /// There is no such order, or it was erased before.
    NotFound,
    /// The order is on hold. Nothing has changed.
    Held,
}

/// Number of identifiers of orders that one look for due orders covers.
pub const LOOKED_AT: i64 = 50_000;

/// The result of one look for due orders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundDue {
    /// The due orders, smallest first.
    pub orders: Vec<OrderId>,
    /// The last order that the look covered; `None` if there are no later ones.
    pub looked_at: Option<OrderId>,
}

/// The result of one look for late orders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundLate {
    /// The orders that may be late, smallest first.
    pub orders: Vec<ListedOrder>,
    /// The last order that the look covered; `None` if there are no later ones.
    pub looked_at: Option<OrderId>,
}

impl From<Refusal> for ErasureOutcome {
    fn from(refusal: Refusal) -> Self {
        if refusal == Refusal::Held { Self::Held } else { Self::NotFound }
    }
}

/// Returns the row of the access that erases an order or its documents. Calling it assigns the audit number,
/// so call it only for orders that are really erased.
pub type AccessOf = Arc<dyn Fn(OrderId) -> Option<Access> + Send + Sync>;

/// The counts of one step of a retention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasedDue {
    /// The orders.
    pub orders: Vec<OrderId>,
    /// The objects to delete.
    pub condemned: Vec<ObjectKey>,
}

/// Stores orders for operators, who work with those of any client.
///
/// # Errors
/// Every method fails with [`StoreError`] only. [`StoreError::Internal`] names an order whose row
/// cannot be read. Lists show such an order as far as its columns know it.
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
    /// not erased, smallest first, after an identifier.
    async fn created_before(
        &self,
        instant: OffsetDateTime,
        after: OrderId,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError>;

    /// Returns the number of orders on hold at `now`.
    async fn held(&self, now: OffsetDateTime) -> Result<usize, StoreError>;

    /// Looks at the next [`LOOKED_AT`] orders after an identifier. Returns up to `limit` of them that are due.
    async fn due(&self, due: Due, after: OrderId, limit: usize) -> Result<FoundDue, StoreError>;

    /// Looks at the next [`LOOKED_AT`] orders after an identifier. Returns up to `limit` of them that may be late at
    /// `now`, smallest first: those with a status and a date about which [`Attention`](crate::order::attention::Attention) decides.
    async fn maybe_late(
        &self,
        now: OffsetDateTime,
        after: OrderId,
        limit: usize,
    ) -> Result<FoundLate, StoreError>;

    /// Returns up to `limit` orders of which version 0.1.0 or another system has changed what searches and lists in the
    /// order of appointments look at, the newest ones.
    async fn unfolded(&self, limit: usize) -> Result<Vec<OrderId>, StoreError>;

    /// Stores again what searches and these lists look at, of orders, in one step. It is no change of an order.
    /// Afterwards they are not among the unfolded ones, unless they have changed meanwhile.
    async fn fold_texts(&self, orders: &[OrderId]) -> Result<(), StoreError>;

    /// Leaves the texts of an order as they are: it is not among the unfolded ones any more. Does not read its row.
    async fn keep_texts(&self, order: OrderId) -> Result<(), StoreError>;

    /// Erases those of the orders that are still due, in one atomic, durable step, each as [`Self::erase`]
    /// does. Leaves out orders behind [`ERASED_ENTRIES`](crate::order::change::ERASED_ENTRIES) entries of histories, but
    /// never the first. Of documents alone it keeps the records, as a withdrawal does, and adds one entry of the history
    /// and one event an order and kind. Returns `None` if another instance does this at the same time.
    async fn erase_due(
        &self,
        due: Due,
        orders: Vec<OrderId>,
        access_of: AccessOf,
    ) -> Result<Option<ErasedDue>, StoreError>;

    /// Erases an order in one atomic, durable step, unless it is on hold at `at`:
    /// - empties its details and its file number, which becomes free
    /// - removes its notary, the texts of its notes, and reasons and old values of its changes
    /// - removes its documents, and condemns their keys in the
    ///   [`UploadLedger`](super::UploadLedger), with those that requests in progress add to it
    /// - removes its events and its mails, except those that a worker has leased: see
    ///   [`Self::remove_mails`]. No other worker leases these, or its webhooks in progress, before `at`
    ///   and [`LONGEST_ATTEMPT`](crate::delivery::LONGEST_ATTEMPT), whatever the clock of their worker
    /// - stores the access that erases it
    ///
    /// The row stays with its identifier, client, instants and status. Webhook deliveries stay too:
    /// they have no data of the order, and those that wait are not sent.
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
    ) -> Result<ErasureOutcome, StoreError>;

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
