use async_trait::async_trait;
use time::OffsetDateTime;

use crate::ports::StoreError;
use crate::{
    api_key::Owner,
    document::{StoredDocument, stored_count},
    order::{DocumentId, OrderChange, OrderId, StoredOrder},
};

/// An order or a part of it, unless it was erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaybeErased<T> {
    /// It is there.
    Whole(T),
    /// An operator has erased the order.
    Erased,
}

impl<T> MaybeErased<T> {
    /// Returns what is there, unless it is erased.
    pub fn whole(self) -> Option<T> {
        match self {
            Self::Whole(whole) => Some(whole),
            Self::Erased => None,
        }
    }
}

/// An order in a list: without its documents, with their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedOrder {
    /// The order; `documents` and `signed_documents` are empty.
    pub stored: StoredOrder,
    /// The number of its documents, without withdrawn ones.
    pub documents: usize,
    /// The number of its signed documents, without withdrawn ones.
    pub signed_documents: usize,
}

impl From<StoredOrder> for ListedOrder {
    fn from(mut stored: StoredOrder) -> Self {
        let [documents, signed_documents] = [&mut stored.documents, &mut stored.signed_documents]
            .map(|documents| stored_count(&std::mem::take(documents)));
        let stored = StoredOrder { changes: Vec::new(), notes: Vec::new(), ..stored };
        Self { stored, documents, signed_documents }
    }
}

/// Where a page of a list begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cursor<Id = OrderId> {
    /// At the newest item.
    #[default]
    Newest,
    /// After this item, toward older ones.
    OlderThan(Id),
    /// Before this item, toward newer ones. The page has the items next to it.
    NewerThan(Id),
}

/// The question for a page of an owner's orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// Only orders with this file number.
    pub file_number: Option<String>,
    /// Only orders created at this instant or later.
    pub created_after: Option<OffsetDateTime>,
    /// Only orders created before this instant.
    pub created_before: Option<OffsetDateTime>,
    /// The largest number of orders; at least 1.
    pub limit: usize,
    /// Where the page begins.
    pub cursor: Cursor,
}

/// Identifier of an entry in the history of an order. Later entries have larger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HistoryId(pub i64);

impl HistoryId {
    /// The creation of the order.
    pub const CREATED: Self = Self(0);
}

/// An entry in the history of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Its identifier.
    pub id: HistoryId,
    /// The change, or the creation.
    pub change: OrderChange,
}

/// The question for a page of the history of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The largest number of entries; at least 1.
    pub limit: usize,
    /// Where the page begins.
    pub cursor: Cursor<HistoryId>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T = ListedOrder> {
    /// The items, newest first.
    pub items: Vec<T>,
    /// Whether older items than the last one match; on an empty page, older than the cursor or the
    /// cursor itself.
    pub has_older: bool,
    /// Whether newer items than the first one match; on an empty page, newer than the cursor or the
    /// cursor itself.
    pub has_newer: bool,
}

impl<T> Page<T> {
    /// Returns a page. `read` has the matching items from the cursor on, one more than the limit if
    /// there are that many. `has_others` tells whether items match on the other side of the cursor,
    /// or at it.
    pub fn of<Id>(limit: usize, cursor: &Cursor<Id>, mut read: Vec<T>, has_others: bool) -> Self {
        let has_more = read.len() > limit;
        read.truncate(limit);
        let (has_older, has_newer) = match cursor {
            Cursor::Newest | Cursor::OlderThan(_) => (has_more, has_others),
            Cursor::NewerThan(_) => {
                read.reverse();
                (has_others, has_more)
            }
        };
        Self { items: read, has_older, has_newer }
    }
}

/// Reads the orders of an owner.
///
/// An implementation guarantees:
/// - No call returns anything of another owner's order, nor whether there is one: the owner stands
///   in the query.
/// - The cost of a call does not grow with the number of stored orders.
/// - Every order has the names of its client and its signing service as they are now.
/// - Erased orders are in no list. As a cursor they are still orders of their owner.
/// - A poller that pages with [`Cursor::NewerThan`] misses no order, although identifiers are given
///   before commits: such a page ends before the first identifier under which an older order may
///   still appear.
///
/// # Errors
/// Every method fails with [`StoreError`] only. [`StoreError::Internal`] names an order whose row
/// cannot be read.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait OrderReader: Send + Sync {
    /// Returns an order without its documents, changes and notes, with the number of its documents; `None` if the
    /// owner has no such order.
    async fn listed(
        &self,
        owner: Owner,
        id: OrderId,
    ) -> Result<Option<MaybeErased<ListedOrder>>, StoreError>;

    /// Returns a page of the history of an order; `None` if the owner has no such order, and no page if
    /// the cursor is no entry of it.
    async fn history(
        &self,
        owner: Owner,
        id: OrderId,
        query: &HistoryQuery,
    ) -> Result<Option<MaybeErased<Option<Page<HistoryEntry>>>>, StoreError>;

    /// Returns an order with its documents, its notes and its newest changes, up to
    /// [`READ_HISTORY`](crate::order::READ_HISTORY); `None` if the owner has no such order.
    async fn order(
        &self,
        owner: Owner,
        id: OrderId,
    ) -> Result<Option<MaybeErased<StoredOrder>>, StoreError>;

    /// Returns a document of an order; `None` if the owner has no such
    /// order, or the order no such document.
    async fn document(
        &self,
        owner: Owner,
        document: DocumentId,
    ) -> Result<Option<MaybeErased<StoredDocument>>, StoreError>;

    /// Returns a page of the owner's orders; `None` if the cursor is no order of the owner.
    async fn page(&self, owner: Owner, query: &PageQuery) -> Result<Option<Page>, StoreError>;
}
