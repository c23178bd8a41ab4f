use async_trait::async_trait;
use time::OffsetDateTime;

use crate::ports::{Cause, ListedOrder, StoreError};
use crate::{
    access::Access,
    api_key::{ApiKeyId, ClientId, Owner},
    document::{ObjectKey, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::{IdempotentRequest, KeyUse},
    order::{
        Actor, AddedRange, DocumentId, Notary, Note, Order, OrderCommand, OrderEffects, OrderId,
        OrderStatus, Refusal, SigningServiceId,
    },
    person::{Doer, PersonId},
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
    /// The person who creates it; `None` for a key.
    pub person: Option<PersonId>,
    /// Whether that is a test key.
    pub is_test: bool,
    /// The request, if it has an idempotency key.
    pub idempotent_request: Option<IdempotentRequest>,
    /// The client's newest order with the file number, if the order is created only as long as there is no newer
    /// one, and that one takes no changes; `Some(None)` if there must be none at all.
    pub only_after: Option<Option<OrderId>>,
}

/// The reason why an order was not created or changed, or a key was not claimed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// An order within the duplicate window has the file number, or a newer one of the client than
    /// [`NewOrder::only_after`], or that one takes changes again.
    #[error("an order within the duplicate window has the file number")]
    Duplicate {
        /// Creation of that order.
        created_at: OffsetDateTime,
    },
    /// The order does not permit the change. Nothing was stored.
    #[error(transparent)]
    Refused(#[from] Refusal),
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

/// A command on an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderCommandRequest {
    /// An owner of the order; `None` for an operator, who changes orders of any client.
    pub owner: Option<Owner>,
    /// The order.
    pub order: OrderId,
    /// The new values.
    pub command: OrderCommand,
    /// The instant of the change.
    pub at: OffsetDateTime,
    /// The request, if it has an idempotency key. Only additions have one, and amendments by file number. Such a
    /// request is stored also if it changes nothing.
    pub idempotent_request: Option<IdempotentRequest>,
    /// The access that makes it.
    pub access: Option<Access>,
}

impl OrderCommandRequest {
    /// Returns the key or the person who makes the change: that of its access.
    pub fn doer(&self) -> Option<Doer> {
        self.access.as_ref().and_then(Access::doer)
    }
}

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// The order after an amendment, changed or not.
    Amended(Box<ListedOrder>),
    /// The positions of the documents that it has got.
    DocumentsAdded(AddedRange),
    /// The condemned keys of the withdrawn documents that are not forgotten yet: the caller deletes their
    /// objects.
    DocumentsWithdrawn(Vec<ObjectKey>),
    /// The note that it has got.
    NoteAdded(Note),
    /// It has the reason.
    ReasonGiven,
    /// Its hold is set or ended.
    HoldSet,
}

/// The outcome of an addition or a hold.
impl From<OrderEffects> for Changed {
    fn from(effects: OrderEffects) -> Self {
        match (effects.note, effects.range) {
            (Some(note), _) => Self::NoteAdded(note),
            (None, Some(range)) => Self::DocumentsAdded(range),
            (None, None) => Self::HoldSet,
        }
    }
}

impl Changed {
    /// Returns the error of a caller that gets an answer to another command.
    pub(crate) fn unexpected(self) -> WriteError {
        WriteError::Internal(format!("answer to another command: {self:?}").into())
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
    /// - An order with [`NewOrder::only_after`] is created only if its client has no newer order with the file
    ///   number, whatever the window and the clocks, and if the order that it names takes no changes
    ///   ([`OrderStatus::FINAL`], [`OrderStatus::OVER`]) or is erased. That order bars nothing then. So of concurrent
    ///   calls with one such order, one creates an order.
    /// - File numbers that look equal are equal, also in a form in which only version 0.1.0 stores them.
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

    /// Carries out a command in one atomic, durable step:
    /// - loads what [`OrderBefore`](crate::order::OrderBefore) needs. No other call changes the order
    ///   meanwhile
    /// - asks [`OrderCommand::decide`], and stores the [`OrderEffects`] whole
    /// - adopts the uploads of new documents, which leave the [`UploadLedger`](super::UploadLedger), and
    ///   condemns the keys of withdrawn ones in it
    /// - stores the request under its idempotency key, with the positions of what was added
    ///
    /// An implementation guarantees, over any number of processes:
    /// - Commands on one order are carried out one after the other, each on what the one before has left.
    ///   So concurrent calls never share a position, and no limit is passed.
    /// - Of concurrent calls with one idempotency key, one changes an order. A key in use is reported before
    ///   anything of the order.
    /// - A command of an operator waits for locks as long as they are held.
    ///
    /// # Errors
    /// [`Refusal::NoSuchOrder`] also if the order is not of the owner. Except after `Unavailable` and
    /// `Internal`, nothing was stored.
    async fn change(&self, request: &OrderCommandRequest) -> Result<Changed, WriteError>;

    /// Stores when documents were first downloaded, in one atomic, durable step. A document keeps the earliest
    /// instant. Sets `touched_at` of their orders, later than before, and leaves `updated_at`: no change of
    /// people fails for it. Documents of erased orders are left out.
    async fn note_downloads(&self, downloads: &[Download]) -> Result<(), StoreError>;

    /// Stores the CRC-32 of a document, and leaves the order's instant of the last change as it is. A
    /// document of an erased order is left out.
    async fn store_crc32(&self, document: DocumentId, crc32: u32) -> Result<(), StoreError>;

    /// Changes the status or the notary of an order in one atomic, durable step, and returns the order:
    /// - sets the order's instant of the last change to that of the change, or later: instants of an
    ///   order increase
    /// - adds the change to its history, and one event to the [`Outbox`](crate::ports::Outbox)
    ///
    /// Returns `None`, and changes nothing, if
    /// - the owner has no such order, it belongs to another service than the caller is limited to, or
    ///   it was erased
    /// - it is not an expected version
    /// - its status is [`FINAL`](OrderStatus::FINAL), or the change cancels it and its status is
    ///   [`CLOSED`](OrderStatus::CLOSED)
    /// - it has that status and that notary already.
    ///
    /// An old name never stands beside a new number: an update that assigns another notary and does not
    /// name it empties the name.
    ///
    /// Of concurrent calls that expect the same version, one changes it. An order whose record cannot be read
    /// changes like any other, and is returned as far as its columns know it.
    ///
    /// A change by another system, by SQL, has the same history and event, at the instant of the
    /// database: later than every instant of the order. Its actor is
    /// [`Database`](crate::order::Actor::Database). A statement that changes neither has none.
    async fn update(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError>;

    /// Checks whether the store can take an order now.
    async fn check(&self) -> Result<(), StoreError>;
}
