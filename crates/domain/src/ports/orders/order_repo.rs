use async_trait::async_trait;
use time::OffsetDateTime;

use crate::ports::{Cause, ListedOrder, StoreError};
use crate::{
    api_key::{ApiKeyId, ClientId, Owner},
    document::StoredDocument,
    duplicate_window::DuplicateWindow,
    idempotency::{AddedRange, IdempotentRequest, KeyUse},
    order::{Actor, Order, OrderId, OrderStatus, SigningServiceId, StoredOrder, after},
};

/// Everything that is stored when an order is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// The order.
    pub order: Box<Order>,
    /// Its documents, already in the blob store and recorded in the
    /// [`UploadLedger`](super::UploadLedger).
    pub documents: Vec<StoredDocument>,
    /// The instant of creation.
    pub created_at: OffsetDateTime,
    /// The client that creates it.
    pub client: ClientId,
    /// The API key with which the client creates it.
    pub api_key: ApiKeyId,
    /// Whether that is a test key.
    pub is_test: bool,
    /// The request, if it has an idempotency key.
    pub idempotent_request: Option<IdempotentRequest>,
}

/// The reason why an order was not created, documents were not added, or a key was not claimed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// An order within the duplicate window has the file number.
    #[error("an order within the duplicate window has the file number")]
    Duplicate {
        /// Creation of that order.
        created_at: OffsetDateTime,
    },
    /// The owner has no such order.
    #[error("the owner has no such order")]
    NoSuchOrder,
    /// An operator has erased the order.
    #[error("the order was erased")]
    Erased,
    /// The order is cancelled, and does not change any more.
    #[error("the order is cancelled")]
    Cancelled,
    /// The appointment is over: the client cannot change the order any more.
    #[error("the appointment of the order is over")]
    Over,
    /// The order is no expected version.
    #[error("the order has changed")]
    Changed,
    /// The order would have too many documents.
    #[error("the order would have too many documents")]
    TooMany {
        /// Documents that it has.
        stored: usize,
    },
    /// The idempotency key of the request is in use.
    #[error("the idempotency key is in use")]
    KeyInUse(KeyUse),
    /// The sweeper has condemned an upload of the order.
    #[error("an upload of the order was swept")]
    UploadSwept,
    /// The store does not answer. Whether the call took effect is unknown.
    #[error("the order store does not answer")]
    Unavailable(#[source] Cause),
    /// The store gave an unexpected answer. Whether the call took effect is unknown.
    #[error("the order store failed")]
    Internal(#[source] Cause),
}

/// Documents to add to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocuments {
    /// The owner that adds them.
    pub owner: Owner,
    /// The order.
    pub order_id: OrderId,
    /// The documents, already in the blob store and recorded in the
    /// [`UploadLedger`](super::UploadLedger).
    pub documents: Vec<StoredDocument>,
    /// The instant of the addition.
    pub at: OffsetDateTime,
    /// Maximum number of documents of the order, with these.
    pub max_documents: usize,
    /// The request, if it has an idempotency key.
    pub idempotent_request: Option<IdempotentRequest>,
}

impl NewDocuments {
    /// Returns the positions of the documents after those that the order has.
    ///
    /// # Errors
    /// [`WriteError::TooMany`]: the order would have more than it may.
    pub fn range(&self, stored: i64) -> Result<AddedRange, WriteError> {
        let stored = usize::try_from(stored).unwrap_or(usize::MAX);
        if stored.saturating_add(self.documents.len()) > self.max_documents {
            return Err(WriteError::TooMany { stored });
        }
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(AddedRange { first_position: count(stored), count: count(self.documents.len()) })
    }
}

/// A change of the status or the notary of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderUpdate {
    /// An owner of the order.
    pub owner: Owner,
    /// The signing service to whose orders the caller is limited.
    pub only_service: Option<SigningServiceId>,
    /// The order.
    pub id: OrderId,
    /// The versions that may be changed, by the instant of the order's last change; `None` for any.
    pub expected: Option<Vec<OffsetDateTime>>,
    /// The status; `None` leaves it as it is.
    pub status: Option<OrderStatus>,
    /// The notary; `None` leaves it as it is, and `Some(None)` unassigns.
    pub notary_id: Option<Option<i64>>,
    /// The instant of the change.
    pub at: OffsetDateTime,
    /// The side that makes it.
    pub actor: Actor,
    /// The reason.
    pub reason: Option<String>,
}

/// An order as its client wants it to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderAmendment {
    /// The client of the order.
    pub owner: Owner,
    /// The order.
    pub id: OrderId,
    /// The versions that may be changed, by the instant of the order's last change; `None` for any.
    pub expected: Option<Vec<OffsetDateTime>>,
    /// The order as it is to be. Its file number and its signing service are those that it has.
    pub order: Box<Order>,
    /// The instant of the change.
    pub at: OffsetDateTime,
}

/// What an amendment stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amended {
    /// The order.
    pub order: Box<Order>,
    /// The fields that change, as JSON Pointers, sorted.
    pub changed: Vec<String>,
    /// The instant of the change.
    pub at: OffsetDateTime,
}

impl OrderAmendment {
    /// Returns what is stored in place of the order that was found; `None` if that has every field so
    /// already. The trace stays that of the creation.
    ///
    /// # Errors
    /// [`WriteError::Changed`], [`WriteError::Cancelled`], [`WriteError::Over`]
    pub fn amend(&self, found: &StoredOrder) -> Result<Option<Amended>, WriteError> {
        if self.expected.as_ref().is_some_and(|seen| !seen.contains(&found.updated_at)) {
            return Err(WriteError::Changed);
        }
        let changed = found.order.fields_changed_by(&self.order);
        if changed.is_empty() {
            return Ok(None);
        }
        if found.status == OrderStatus::CANCELLED {
            return Err(WriteError::Cancelled);
        }
        if OrderStatus::OVER.contains(&found.status) {
            return Err(WriteError::Over);
        }
        let order = Order { trace: found.order.trace.clone(), ..(*self.order).clone() };
        let at = after(found.updated_at, self.at);
        Ok(Some(Amended { order: Box::new(order), changed, at }))
    }
}

/// Stores orders.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait OrderRepo: Send + Sync {
    /// Creates an order in one atomic, durable step:
    /// - claims its file number, and stores the order and its documents
    /// - adopts the uploads, which leave the ledger
    /// - adds one event to the [`Outbox`](crate::ports::Outbox), whatever will follow it
    /// - stores the request under its idempotency key
    ///
    /// An implementation guarantees, over any number of processes:
    /// - Of concurrent calls with one file number, one creates an order. An order bars its file
    ///   number until [`DuplicateWindow::opens_at`] reaches its creation.
    /// - Test orders and live orders do not share file numbers.
    /// - Of concurrent calls with one idempotency key, one creates an order. See
    ///   [`IdempotencyLedger`](super::IdempotencyLedger) for when a key is in use.
    /// - A key in use is reported before a duplicate file number.
    ///
    /// # Errors
    /// After `Duplicate`, `KeyInUse` and `UploadSwept` nothing was stored.
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, WriteError>;

    /// Adds documents to an order in one atomic, durable step:
    /// - stores them behind the documents that the order has, and returns their positions
    /// - adopts the uploads, which leave the ledger
    /// - sets the order's instant of the last change
    /// - stores the request under its idempotency key, with the positions
    ///
    /// An implementation guarantees, over any number of processes:
    /// - Concurrent calls never share a position, and leave none out.
    /// - The order never has more than `max_documents`.
    /// - Of concurrent calls with one idempotency key, one adds documents. A key in use is reported
    ///   before anything of the order.
    ///
    /// # Errors
    /// Except after `Unavailable` and `Internal`, nothing was stored.
    async fn add_documents(&self, new: &NewDocuments) -> Result<AddedRange, WriteError>;

    /// Changes the status or the notary of an order in one atomic, durable step, and returns the order:
    /// - sets the order's instant of the last change to that of the change, or later: instants of an
    ///   order increase
    /// - adds the change to its history, and one event to the [`Outbox`](crate::ports::Outbox)
    ///
    /// Returns `None`, and changes nothing, if
    /// - the owner has no such order, it belongs to another service than the caller is limited to, or
    ///   it was erased
    /// - it is not an expected version
    /// - it is [`CANCELLED`](OrderStatus::CANCELLED), or the change cancels it and it is one of
    ///   [`CLOSED`](OrderStatus::CLOSED)
    /// - it has that status and that notary already.
    ///
    /// Of concurrent calls that expect the same version, one changes it.
    ///
    /// A change by another system, by SQL, has the same history and event, at the instant of the
    /// database: later than every instant of the order. Its actor is
    /// [`Database`](crate::order::Actor::Database). A statement that changes neither has none.
    async fn update(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError>;

    /// Changes what the client has said of an order, in one atomic, durable step, and returns the order:
    /// - stores the order, without its file number and signing service
    /// - sets the order's instant of the last change to that of the change, or later
    /// - adds the change to its history, and one event to the [`Outbox`](crate::ports::Outbox), both with
    ///   the changed fields
    ///
    /// [`OrderAmendment::amend`] decides, on the order as no other call changes it meanwhile. A change of
    /// nothing returns the order, and leaves no trace.
    ///
    /// # Errors
    /// Except after `Unavailable` and `Internal`, nothing was stored.
    async fn amend(&self, amendment: &OrderAmendment) -> Result<ListedOrder, WriteError>;

    /// Checks whether the store can take an order now.
    async fn check(&self) -> Result<(), StoreError>;
}
