use async_trait::async_trait;
use time::OffsetDateTime;

use super::{Cause, StoreError};
use crate::{
    api_key::{ApiKeyId, ClientId},
    delivery::NewDelivery,
    document::StoredDocument,
    duplicate_window::DuplicateWindow,
    idempotency::{KeyUse, Remembrance},
    order::{Order, OrderId, StoredOrder},
};

/// Everything that is written when an order is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// The order.
    pub order: Order,
    /// Its documents, already in the blob store and recorded in the
    /// [`UploadLedger`](super::UploadLedger).
    pub documents: Vec<StoredDocument>,
    /// What is to be done once it is placed.
    pub deliveries: Vec<NewDelivery>,
    /// When it is placed.
    pub created_at: OffsetDateTime,
    /// The client that creates it.
    pub client: ClientId,
    /// The API key with which the client creates it.
    pub api_key: ApiKeyId,
    /// Whether a test key asked for it.
    pub is_test: bool,
    /// What is remembered of the request, if it has an idempotency key.
    pub remembrance: Option<Remembrance>,
}

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The file number was used by an order that the window still covers.
    #[error("the file number was used a moment ago")]
    Duplicate {
        /// When that order was placed.
        created_at: OffsetDateTime,
    },
    /// The request has an idempotency key that is in use.
    #[error("the idempotency key is in use")]
    KeyTaken(KeyUse),
    /// An upload that the order refers to is no longer in the ledger, because the sweeper has
    /// condemned it.
    #[error("an upload of the order was swept")]
    UploadSwept,
    /// The store does not answer. Whether the order was placed is unknown.
    #[error("the order store does not answer")]
    Unavailable(#[source] Cause),
    /// The store answered what nobody expected. Whether the order was placed is unknown.
    #[error("the order store failed")]
    Internal(#[source] Cause),
}

/// Keeps orders.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait OrderRepo: Send + Sync {
    /// Places an order in one atomic, durable step: takes its file number for the window, keeps the
    /// order and its documents, adopts the uploads (which leave the ledger), enqueues its
    /// follow-ups, due at once, and remembers the request under its idempotency key, if it has one.
    ///
    /// Of any number of concurrent calls with one file number, from any number of processes, one
    /// places an order; test orders and others do not take each other's file numbers. Only placed
    /// orders take a file number. Of any number of concurrent calls with one idempotency key one
    /// places an order, too; a key in use is told before a file number in use, and one that only
    /// the same claim has claimed is not in use. When it returns an error that says why, nothing
    /// was written.
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, CreateError>;

    /// The order with this identifier, as it was placed.
    async fn find(&self, id: OrderId) -> Result<Option<StoredOrder>, StoreError>;

    /// Whether the store can take an order now.
    async fn check(&self) -> Result<(), StoreError>;
}
