//! The reason why a request about orders failed.

use crate::{
    document::DocumentFault,
    order::OrderId,
    ports::{MaybeErased, StoreError, WriteError},
    request::Violation,
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
    /// The API key is bound to another signing service.
    #[error("the key is bound to another signing service")]
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
    /// The order is not the version that the client has seen.
    #[error("the order has changed")]
    Changed,
    /// The order is cancelled, and does not change any more.
    #[error("the order is cancelled")]
    Cancelled,
    /// The order is signed or completed, and cannot be cancelled.
    #[error("the order is signed or completed")]
    Closed,
    /// The appointment is over: the client cannot change the order any more.
    #[error("the appointment of the order is over")]
    Over,
    /// The order would have more than
    /// [`MAX_DOCUMENTS_PER_ORDER`](crate::document::MAX_DOCUMENTS_PER_ORDER) documents.
    #[error("the order would have too many documents")]
    TooMany {
        /// Documents that it has.
        stored: usize,
    },
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
    #[error("the object of document {position} of order {} is missing", order.0)]
    MissingObject {
        /// The order.
        order: OrderId,
        /// The position of the document.
        position: u32,
    },
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

impl From<WriteError> for OrderError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NoSuchOrder => Self::NoSuchOrder,
            WriteError::Erased => Self::Erased,
            WriteError::Cancelled => Self::Cancelled,
            WriteError::Over => Self::Over,
            WriteError::Changed => Self::Changed,
            WriteError::TooMany { stored } => Self::TooMany { stored },
            WriteError::UploadSwept | WriteError::Unavailable(_) => {
                StoreError::Unavailable(error.into()).into()
            }
            // Only the use case knows the window, or the attempt with the key.
            WriteError::Duplicate { .. } | WriteError::KeyInUse(_) | WriteError::Internal(_) => {
                StoreError::Internal(error.into()).into()
            }
        }
    }
}
