use std::fmt;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::StoreError;
use crate::{
    api_key::{ApiKey, KeyEvent},
    delivery::Delivery,
    document::ObjectKey,
    idempotency::{Answered, IdempotencyKey},
    order::{FileNumber, OrderId, StoredOrder},
};

/// How much a store keeps, of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Orders.
    pub orders: u64,
    /// Documents of orders.
    pub documents: u64,
    /// File numbers that were ever used.
    pub file_numbers: u64,
    /// Uploads in the ledger.
    pub uploads: u64,
    /// Follow-ups, pending and buried.
    pub deliveries: u64,
    /// API keys ever issued.
    pub api_keys: u64,
    /// Lines of the trail of keys.
    pub key_events: u64,
    /// Idempotency keys under which a request was answered.
    pub idempotency_keys: u64,
}

impl fmt::Display for StoreCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            orders,
            documents,
            file_numbers,
            uploads,
            deliveries,
            api_keys,
            key_events,
            idempotency_keys,
        } = self;
        write!(
            formatter,
            "{orders} orders, {documents} documents, {file_numbers} file numbers, {uploads} unfinished uploads, {deliveries} follow-ups, {api_keys} API keys, \
             {key_events} lines of their trail, {idempotency_keys} idempotency keys"
        )
    }
}

/// When a file number was last used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedFileNumber {
    /// The file number.
    pub file_number: FileNumber,
    /// When the last order under it was placed.
    pub created_at: OffsetDateTime,
}

/// An object that no order has adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedUpload {
    /// Its key.
    pub key: ObjectKey,
    /// When it was recorded.
    pub recorded_at: OffsetDateTime,
    /// Whether no order can adopt it any more.
    pub condemned: bool,
}

/// A request that is remembered under its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedRequest {
    /// The key.
    pub key: IdempotencyKey,
    /// What was asked for, and what came of it.
    pub answered: Answered,
    /// When the order was placed.
    pub taken_at: OffsetDateTime,
    /// From when on the key may be used for another request.
    pub kept_until: OffsetDateTime,
}

/// A store that everything can be taken out of, to be moved to another; that changes nothing in it.
///
/// Nobody may write to it meanwhile: what comes out of one call fits together, what comes out of
/// several does so only then.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait StoreSource: Send + Sync {
    /// How much there is: as much as the other calls answer.
    async fn counts(&self) -> Result<StoreCounts, StoreError>;

    /// Orders with their documents, in the order of their identifiers, which may have gaps; at most
    /// `limit` of those after `after`, none only when there are no more.
    async fn orders(
        &self,
        after: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<StoredOrder>, StoreError>;

    /// Used file numbers, each once, in an order of the store's own; at most `limit` of those after
    /// `after`, which is one of them, none only when there are no more.
    async fn file_numbers(
        &self,
        after: Option<FileNumber>,
        limit: usize,
    ) -> Result<Vec<UsedFileNumber>, StoreError>;

    /// All uploads in the ledger, in any order.
    async fn uploads(&self) -> Result<Vec<RecordedUpload>, StoreError>;

    /// All follow-ups, pending and buried, in any order. A lease is of no consequence elsewhere.
    async fn deliveries(&self) -> Result<Vec<Delivery>, StoreError>;

    /// Every API key ever issued, in any order.
    async fn api_keys(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// The trail of keys, oldest first.
    async fn key_events(&self) -> Result<Vec<KeyEvent>, StoreError>;

    /// Requests that are remembered, each once, in an order of the store's own; at most `limit` of
    /// those after the key `after`, which is one of them, none only when there are no more. Claims
    /// of requests in flight are of no consequence elsewhere.
    async fn remembered(
        &self,
        after: Option<IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RememberedRequest>, StoreError>;
}

/// Why nothing was moved into a store. It keeps what it kept before.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The store keeps something already.
    #[error("the target is not empty: it has {0}")]
    NotEmpty(StoreCounts),
    /// What arrived is not as much as the source has: somebody wrote to it meanwhile.
    #[error(
        "the source has {source_has}, and what arrived is {arrived}; is a service still running on it?"
    )]
    Differs {
        /// What the source has in the end.
        source_has: Box<StoreCounts>,
        /// What arrived.
        arrived: Box<StoreCounts>,
    },
    /// The source failed.
    #[error("the source cannot be read")]
    Source(#[source] StoreError),
    /// The target failed. If it does not answer, it may have been at the very end, when everything
    /// was moved; who tries again then learns that it is not empty.
    #[error("the target cannot be written")]
    Target(#[source] StoreError),
}

/// A store that everything can be moved into.
#[allow(unused_parens, reason = "without them the mock would have another signature")]
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait StoreTarget: Send + Sync {
    /// Takes over everything that the source has, under the same identifiers, in one atomic,
    /// durable step, into a store that has nothing; then compares how much arrived with what the
    /// source has in the end, and answers it.
    ///
    /// Nothing that was moved is leased, and identifiers given from then on are greater than those
    /// that were moved. Who uses the store meanwhile waits or finds it unavailable, and nothing of
    /// theirs is lost; of several that take over at once, one does. Given up half way, it leaves
    /// nothing.
    async fn take_over<'a>(
        &self,
        source: &'a (dyn StoreSource + 'a),
    ) -> Result<StoreCounts, MoveError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_say_of_what() {
        let counts = StoreCounts {
            orders: 1,
            documents: 2,
            file_numbers: 3,
            uploads: 4,
            deliveries: 5,
            api_keys: 6,
            key_events: 7,
            idempotency_keys: 8,
        };
        assert_eq!(
            counts.to_string(),
            "1 orders, 2 documents, 3 file numbers, 4 unfinished uploads, 5 follow-ups, 6 API keys, 7 lines of their trail, 8 idempotency keys"
        );
    }
}
