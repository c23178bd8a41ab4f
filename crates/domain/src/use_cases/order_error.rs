//! The reason why a request about orders failed.

use crate::{
    document::DocumentFault,
    order::{DocumentId, Refusal},
    ports::{MaybeErased, StoreError, WriteError},
    request::{Violation, ViolationCode},
};

/// Every fault of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejection {
    /// Fields at fault.
    pub violations: Vec<Violation>,
    /// Documents at fault, by their position in the request.
    pub documents: Vec<(usize, DocumentFault)>,
    /// Whether the request must have documents and has none.
    pub no_documents: bool,
}

/// The reason why an order was not created or read, or documents were not added.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The request is not valid.
    #[error("the request is not valid")]
    Rejected(Rejection),
    /// The caller is limited to another signing service.
    #[error("the caller is limited to another signing service")]
    Forbidden,
    /// An order within the duplicate window has the file number.
    #[error("an order within the duplicate window has the file number")]
    Duplicate {
        /// Whole seconds until the file number is free, at least one.
        retry_after: u64,
    },
    /// The client has no such order, or the order no such document.
    #[error("the client has no such order or document")]
    NoSuchOrder,
    /// An operator has erased the order.
    #[error("the order was erased")]
    Erased,
    /// The document is withdrawn.
    #[error("the document was withdrawn")]
    Withdrawn,
    /// A precondition is false: the order, or the document, is no version that may be changed.
    #[error("the order is not the version that may be changed")]
    Changed,
    /// The request names a version to change, and there is no order to change.
    #[error("there is no order to change")]
    NothingToChange,
    /// The order is cancelled, and does not change any more.
    #[error("the order is cancelled")]
    Cancelled,
    /// The order is signed or completed, and cannot be cancelled.
    #[error("the order is signed or completed")]
    Closed,
    /// The appointment is over: the client cannot change the order any more.
    #[error("the appointment of the order is over")]
    Over,
    /// An operator has put the order on hold: its documents stay.
    #[error("the order is on hold")]
    Held,
    /// The order would have more than
    /// [`MAX_DOCUMENTS_PER_ORDER`](crate::document::MAX_DOCUMENTS_PER_ORDER) documents.
    #[error("the order would have too many documents")]
    TooMany {
        /// Documents that it has.
        stored: usize,
    },
    /// The order has [`MAX_NOTES`](crate::order::MAX_NOTES) notes.
    #[error("the order has as many notes as it can have")]
    TooManyNotes,
    /// More than [`MAX_TOLD`](crate::order::MAX_TOLD) addresses would know the order.
    #[error("too many addresses would know the order")]
    TooManyAddresses,
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// Another attempt with the idempotency key is in progress.
    #[error("another attempt with the idempotency key is in progress")]
    InProgress {
        /// Whole seconds to wait before the next attempt, at least one.
        retry_after: u64,
    },
    /// The cursor is no order of the client.
    #[error("the cursor is no order of the client")]
    UnknownCursor,
    /// The document store has lost an object: an operator must restore it.
    #[error("the object of document {} of order {} is missing", _0.position, _0.order.0)]
    MissingObject(DocumentId),
    /// A store or the scanner failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OrderError {
    /// Returns the error of a request with violations.
    pub fn rejected(violations: Vec<Violation>) -> Self {
        Self::Rejected(Rejection { violations, ..Rejection::default() })
    }

    pub(crate) fn contended() -> Self {
        StoreError::Unavailable("other requests change the order at the same time".into()).into()
    }

    /// Returns what was found of an order.
    pub(crate) fn unless_erased<T>(found: Option<MaybeErased<T>>) -> Result<T, Self> {
        match found {
            Some(MaybeErased::Whole(found)) => Ok(found),
            Some(MaybeErased::Erased) => Err(Self::Erased),
            None => Err(Self::NoSuchOrder),
        }
    }
}

/// Returns the violation of a request that replaces no current document.
pub(crate) fn not_replaceable() -> Violation {
    Violation {
        pointer: "/replaces".into(),
        code: ViolationCode::NotReplaceable,
        detail:
            "must be the position of a document of the order that is neither replaced nor withdrawn"
                .into(),
    }
}

impl From<Refusal> for OrderError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoSuchOrder => Self::NoSuchOrder,
            Refusal::Erased => Self::Erased,
            Refusal::Changed => Self::Changed,
            Refusal::Cancelled => Self::Cancelled,
            Refusal::Closed => Self::Closed,
            Refusal::Over => Self::Over,
            Refusal::Held => Self::Held,
            Refusal::TooMany { stored } => Self::TooMany { stored },
            Refusal::TooManyNotes => Self::TooManyNotes,
            Refusal::TooManyAddresses => Self::TooManyAddresses,
            Refusal::NotReplaceable => Self::rejected(vec![not_replaceable()]),
        }
    }
}

impl From<WriteError> for OrderError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(refusal) => refusal.into(),
            WriteError::UploadSwept | WriteError::Unavailable(_) => {
                StoreError::Unavailable(error.into()).into()
            }
            // Its cause tells an order that cannot be read.
            WriteError::Internal(cause) => StoreError::Internal(cause).into(),
            // Only the use case knows the window, or the attempt with the key.
            WriteError::Duplicate { .. } | WriteError::KeyInUse(_) => {
                StoreError::Internal(error.into()).into()
            }
        }
    }
}
