use async_trait::async_trait;
use time::{Duration, OffsetDateTime};

use super::StoreError;
use crate::delivery::{Delivery, DeliveryId};

/// The right to work on a follow-up until the lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The follow-up.
    pub delivery: Delivery,
    /// Tells this lease from every other of the same follow-up.
    pub token: i64,
}

/// How a leased follow-up goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It is done and leaves the queue.
    Done,
    /// It failed and is due again at `due_at`.
    RetryAt {
        /// When it is due.
        due_at: OffsetDateTime,
        /// What the failure said.
        error: String,
    },
    /// It was not tried in earnest, because nobody's mail is taken: it is due again at `due_at`,
    /// and no attempt counts.
    Postpone {
        /// When it is due.
        due_at: OffsetDateTime,
        /// What the failure said.
        error: String,
    },
    /// It failed for good and waits for an operator.
    Fail {
        /// When it was given up.
        at: OffsetDateTime,
        /// What the failure said.
        error: String,
    },
}

/// How full the queue is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Follow-ups that are to be done, leased ones included, buried ones not.
    pub pending: u64,
    /// Follow-ups that wait for an operator.
    pub failed: u64,
    /// When the oldest pending one was enqueued.
    pub oldest_created_at: Option<OffsetDateTime>,
}

/// Keeps follow-ups until they are done. Orders enqueue theirs by
/// [`OrderRepo::place`](super::OrderRepo::place).
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait DeliveryQueue: Send + Sync {
    /// Leases up to `limit` follow-ups that are due at `now`, the longest due first. Nobody else
    /// gets them before `now + lease_for`; after that, unless settled, they are due again.
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError>;

    /// Settles a leased follow-up, durably. Answers `false`, and changes nothing, when the lease
    /// has passed to somebody else. A failure counts as one attempt, unless it was everybody's.
    async fn settle(
        &self,
        id: DeliveryId,
        token: i64,
        settlement: &Settlement,
    ) -> Result<bool, StoreError>;

    /// Follow-ups by age, the oldest first, at most `limit`: buried ones, or pending ones.
    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError>;

    /// Makes a follow-up due at `now`, buried or waiting, and counts its age and attempts anew;
    /// `false` if there is no such follow-up.
    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<bool, StoreError>;

    /// How full the queue is.
    async fn stats(&self) -> Result<QueueStats, StoreError>;
}
