use async_trait::async_trait;
use time::OffsetDateTime;

use crate::ports::{Cause, ListedOrder, StoreError};
use crate::{
    access::Access,
    api_key::{ApiKeyId, ClientId, Owner},
    document::{DocumentKind, ObjectKey, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::{AddedRange, IdempotentRequest, KeyUse},
    order::{
        Actor, DocumentId, Notary, Note, Order, OrderId, OrderStatus, SigningServiceId,
        StoredOrder, after,
    },
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

/// The reason why an order was not created, documents or a note were not added, or a key was not claimed.
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
    /// The order is on hold: its documents stay.
    #[error("the order is on hold")]
    Held,
    /// The order is no expected version.
    #[error("the order has changed")]
    Changed,
    /// The order would have too many documents.
    #[error("the order would have too many documents")]
    TooMany {
        /// Documents that it has.
        stored: usize,
    },
    /// The order has [`MAX_NOTES`](crate::order::MAX_NOTES) notes.
    #[error("the order has as many notes as it can have")]
    TooManyNotes,
    /// The document to replace does not exist, or is replaced or withdrawn.
    #[error("the document cannot be replaced")]
    NotReplaceable,
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
    /// Their kind.
    pub kind: DocumentKind,
    /// The position of the document that they replace.
    pub replaces: Option<u32>,
    /// The documents, already in the blob store and recorded in the
    /// [`UploadLedger`](super::UploadLedger).
    pub documents: Vec<StoredDocument>,
    /// The instant of the addition.
    pub at: OffsetDateTime,
    /// Maximum number of documents of this kind of the order, with these.
    pub max_documents: usize,
    /// The request, if it has an idempotency key.
    pub idempotent_request: Option<IdempotentRequest>,
    /// The access that adds them.
    pub access: Option<Access>,
}

impl NewDocuments {
    /// Returns the positions of the documents after those that the order has. `kept` of those are not
    /// withdrawn.
    ///
    /// # Errors
    /// [`WriteError::TooMany`]: the order would have more than it may.
    pub fn range(&self, stored: i64, kept: i64) -> Result<AddedRange, WriteError> {
        let [stored, kept] = [stored, kept].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        let added = self.documents.len();
        if stored.saturating_add(added) > self.max_documents {
            return Err(WriteError::TooMany { stored });
        }
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let total = count(kept.saturating_add(added));
        Ok(AddedRange { first_position: count(stored), count: count(added), total })
    }
}

/// A note to add to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNote {
    /// An owner of the order.
    pub owner: Owner,
    /// The order.
    pub order_id: OrderId,
    /// The side that writes it.
    pub author: Actor,
    /// What it says.
    pub text: String,
    /// The instant of the addition.
    pub at: OffsetDateTime,
    /// The request, if it has an idempotency key.
    pub idempotent_request: Option<IdempotentRequest>,
    /// The access that adds it.
    pub access: Option<Access>,
}

/// The withdrawal of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawal {
    /// The owner that withdraws it.
    pub owner: Owner,
    /// The document.
    pub document: DocumentId,
    /// The instant of the withdrawal.
    pub at: OffsetDateTime,
    /// The access that withdraws it.
    pub access: Option<Access>,
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
    /// Who the notary is; `Some(None)` forgets it. `None` leaves it as it is, unless the update assigns
    /// another notary.
    pub notary: Option<Option<Notary>>,
    /// The instant of the change.
    pub at: OffsetDateTime,
    /// The side that makes it.
    pub actor: Actor,
    /// The reason.
    pub reason: Option<String>,
    /// The access that makes it.
    pub access: Option<Access>,
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
    /// The access that makes it.
    pub access: Option<Access>,
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

/// The first download of a document by the other side than the one that uploaded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Download {
    /// The document.
    pub document: DocumentId,
    /// The instant when it had been sent whole.
    pub at: OffsetDateTime,
}

/// Stores orders. A method that changes an order stores also the access that it gets with the change, in the
/// same step; if nothing changes, it stores no access. An access whose number is stored already stays as it is.
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
    /// - stores them behind the documents of their kind that the order has, and returns their positions
    /// - marks the document that they replace
    /// - adopts the uploads, which leave the ledger
    /// - sets the order's instant of the last change
    /// - adds one event to the [`Outbox`](crate::ports::Outbox), and, for signed documents and a
    ///   replacement, an entry to the order's history
    /// - stores the request under its idempotency key, with the positions
    ///
    /// An implementation guarantees, over any number of processes:
    /// - Concurrent calls never share a position, and leave none out.
    /// - The order never has more than `max_documents` of a kind.
    /// - Of concurrent calls that replace one document, one does.
    /// - Of concurrent calls with one idempotency key, one adds documents. A key in use is reported
    ///   before anything of the order.
    ///
    /// # Errors
    /// Except after `Unavailable` and `Internal`, nothing was stored.
    async fn add_documents(&self, new: &NewDocuments) -> Result<AddedRange, WriteError>;

    /// Withdraws a document in one atomic, durable step:
    /// - removes its key and its names, and condemns the key in the
    ///   [`UploadLedger`](super::UploadLedger)
    /// - sets the order's instant of the last change
    /// - adds an entry to the order's history, and one event to the [`Outbox`](crate::ports::Outbox)
    ///
    /// Its position and its record stay. Withdrawing it again changes nothing. Returns the condemned
    /// keys of the order that are not forgotten yet: the caller deletes their objects.
    ///
    /// # Errors
    /// [`WriteError::NoSuchOrder`] also if the order has no such document.
    async fn withdraw(&self, withdrawal: &Withdrawal) -> Result<Vec<ObjectKey>, WriteError>;

    /// Stores when documents were first downloaded, in one atomic, durable step, and sets the instants of
    /// the last change of their orders. A document that has an instant keeps it. Documents of erased
    /// orders are left out.
    async fn note_downloads(&self, downloads: &[Download]) -> Result<(), StoreError>;

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
    /// An old name never stands beside a new number: an update that assigns another notary and does not
    /// name it empties the name.
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

    /// Adds a note to an order in one atomic, durable step, and returns it:
    /// - stores it behind the notes that the order has, at the instant of the addition or later:
    ///   instants of an order increase
    /// - sets the order's instant of the last change to that of the note
    /// - adds one event to the [`Outbox`](crate::ports::Outbox)
    /// - stores the request under its idempotency key, with the position of the note
    ///
    /// An implementation guarantees, over any number of processes:
    /// - The order never has more than [`MAX_NOTES`](crate::order::MAX_NOTES). A cancelled order takes
    ///   notes.
    /// - Of concurrent calls with one idempotency key, one adds a note. A key in use is reported before
    ///   anything of the order.
    ///
    /// # Errors
    /// Except after `Unavailable` and `Internal`, nothing was stored.
    async fn add_note(&self, new: &NewNote) -> Result<Note, WriteError>;

    /// Checks whether the store can take an order now.
    async fn check(&self) -> Result<(), StoreError>;
}
