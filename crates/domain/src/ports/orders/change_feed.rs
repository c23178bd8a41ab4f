use async_trait::async_trait;
use time::OffsetDateTime;

use crate::{
    api_key::Owner,
    order::feed::{FeedCursor, FeedPage},
    ports::StoreError,
};

/// Reads the feed of changes of an owner's orders: creations, entries of histories, added documents, notes, and
/// erasures.
///
/// An implementation guarantees:
/// - A poller that goes on at [`FeedPage::next`] gets every change once, whoever makes it, and those of one order
///   in their order. A page never passes a change that may still be committed.
/// - An erasure leaves the entry of itself alone of its order.
/// - The owner stands in the query. A place in the feed of another owner is one in this feed, too.
/// - The cost of a call does not grow with the number of stored orders or changes.
/// - A place stays valid in a copy of the database if the copy has all that lies before it. Otherwise the copy has
///   never had it, however many changes it gets itself.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait ChangeFeed: Send + Sync {
    /// Begins another epoch at an instant, if the database is a copy of the one that began the last, or began none.
    /// Must be called before any other method. Any number of processes may call it at once.
    async fn begin_epoch(&self, at: OffsetDateTime) -> Result<(), StoreError>;

    /// Returns up to `limit` entries behind a place, the oldest first; `None` if this database has never had the
    /// place.
    async fn page(
        &self,
        owner: Owner,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Option<FeedPage>, StoreError>;

    /// Returns the place of now: behind every committed change, unless one before it may still be committed.
    async fn now(&self) -> Result<FeedCursor, StoreError>;

    /// Removes up to `limit` entries of erasures before an instant, the oldest first. Returns how many.
    async fn forget_erasures(
        &self,
        before: OffsetDateTime,
        limit: usize,
    ) -> Result<usize, StoreError>;
}
