//! Why a change of an order is refused.

/// The reason why a change of an order is refused. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The owner has no such order, or the order no such document.
    #[error("the owner has no such order or document")]
    NoSuchOrder,
    /// An operator has erased the order.
    #[error("the order was erased")]
    Erased,
    /// A precondition is false: the order, or the document, is no version that may be changed.
    #[error("the order is not the version that may be changed")]
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
    /// The order is on hold: its documents stay.
    #[error("the order is on hold")]
    Held,
    /// The order would have too many documents.
    #[error("the order would have too many documents")]
    TooMany {
        /// Documents of the kind that it has.
        stored: usize,
    },
    /// The order has [`MAX_NOTES`](crate::order::MAX_NOTES) notes.
    #[error("the order has as many notes as it can have")]
    TooManyNotes,
    /// More than [`MAX_TOLD`](crate::order::MAX_TOLD) addresses would know the order.
    #[error("too many addresses would know the order")]
    TooManyAddresses,
    /// The document to replace does not exist, or is replaced or withdrawn.
    #[error("the document cannot be replaced")]
    NotReplaceable,
}
