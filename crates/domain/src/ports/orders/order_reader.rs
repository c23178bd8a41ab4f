use async_trait::async_trait;
use time::{Date, OffsetDateTime};

use crate::ports::StoreError;
use crate::{
    api_key::Owner,
    document::{DocumentCounts, StoredDocument},
    notary::KnownNotaries,
    order::{
        Actor, DocumentId, Note, OrderChange, OrderId, OrderStatus, SigningServiceId, StoredOrder,
        attention::AttentionFilter,
        search::{FILTERED_ORDERS, SEARCHED_ORDERS, SearchedName, SearchedText},
    },
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

/// An order in a list: without its documents, with their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedOrder {
    /// The order; `documents` and `signed_documents` are empty.
    pub stored: StoredOrder,
    /// The numbers of its documents.
    pub counts: DocumentCounts,
    /// Its news, in a page; `None` elsewhere.
    pub news: Option<OrderNews>,
    /// The start by which a page in the order of appointments has it; `None` elsewhere.
    pub listed_at: Option<OffsetDateTime>,
}

impl ListedOrder {
    /// Returns its place in the page that has it.
    pub fn place(&self) -> ListPlace {
        ListPlace { id: self.stored.id.0, starts: self.listed_at }
    }
}

/// What happened last to an order in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderNews {
    /// The newest entry of its history.
    pub change: LastChange,
    /// When its newest note was added, and by which side.
    pub note: Option<(OffsetDateTime, Actor)>,
}

/// The newest entry of the history of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastChange {
    /// Instant of the change.
    pub at: OffsetDateTime,
    /// Its kind, also of a later version of the service.
    pub kind: String,
    /// The side that made it.
    pub actor: Actor,
    /// The changed fields; `None` for a change of no fields.
    pub changed: Option<Vec<String>>,
}

impl From<StoredOrder> for ListedOrder {
    fn from(stored: StoredOrder) -> Self {
        let counts = DocumentCounts::of(&stored.documents, &stored.signed_documents);
        let stored = StoredOrder {
            documents: Vec::new(),
            signed_documents: Vec::new(),
            changes: Vec::new(),
            notes: Vec::new(),
            ..stored
        };
        Self { stored, counts, news: None, listed_at: None }
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
    /// Before this item, toward newer ones. The page has the items next to it. In a list of orders, 0 stands for
    /// all orders: the page has the oldest ones.
    NewerThan(Id),
}

/// A place in a list: that of an item, which may have moved or be gone since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPlace {
    /// The identifier of the item.
    pub id: i64,
    /// The start of the order, in the order of appointments.
    pub starts: Option<OffsetDateTime>,
}

/// The orders that a list has, those that match every filter, and their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListFilter {
    /// Only orders with this file number.
    pub file_number: Option<String>,
    /// Only orders created at this instant or later.
    pub created_after: Option<OffsetDateTime>,
    /// Only orders created before this instant.
    pub created_before: Option<OffsetDateTime>,
    /// Only orders with one of these statuses; empty for any.
    pub statuses: Vec<OrderStatus>,
    /// Only orders with an appointment on this date in its zone, or later.
    pub signing_date_from: Option<Date>,
    /// Only orders with an appointment on this date in its zone, or earlier.
    pub signing_date_to: Option<Date>,
    /// Only orders created or changed at this instant or later.
    pub updated_after: Option<OffsetDateTime>,
    /// Only orders with each of these words in one of the texts that a search looks at.
    pub search: Option<SearchedText>,
    /// Only orders of this signing service.
    pub signing_service: Option<SigningServiceId>,
    /// Only orders of clients with this name.
    pub client_name: Option<String>,
    /// Only orders whose notary has this part of a name.
    pub notary: Option<SearchedName>,
    /// Only orders that are late.
    pub attention: Option<AttentionFilter>,
    /// Whether the list is in the order of starts, the earliest first, and then of identifiers. Otherwise it is in
    /// the order of identifiers, the newest first. Cursors lead through it in the same way: toward older ones is
    /// toward the end of the list.
    pub by_appointment: bool,
}

impl ListFilter {
    /// Returns whether there are dates from the first to the last one.
    pub fn has_dates(&self) -> bool {
        let dates = self.signing_date_from.zip(self.signing_date_to);
        dates.is_none_or(|(from, to)| from <= to)
    }

    /// Returns how many orders a page looks at; `None` if it looks only at orders that are on it: no filter is
    /// set, or a file number finds its few orders.
    pub fn walked_orders(&self) -> Option<usize> {
        let has_number = self.file_number.is_some();
        let is_walk = self.attention.is_some() || self.by_appointment;
        if has_number && !is_walk || *self == Self::default() {
            None
        } else if has_number || self.search.is_some() || self.by_appointment {
            Some(SEARCHED_ORDERS)
        } else {
            Some(FILTERED_ORDERS)
        }
    }

    /// Returns how many orders a store reads at once for a page that lacks `wanted` ones. Of those that may be late,
    /// [`Self::matches`] tells which are.
    pub fn read_at_once(&self, wanted: usize) -> usize {
        if self.attention.is_some() { wanted.max(LATE_AT_ONCE) } else { wanted }
    }

    /// Returns whether an order matches what the database does not compare.
    pub fn matches(&self, order: &ListedOrder) -> bool {
        self.attention.as_ref().is_none_or(|it| it.matches(&order.stored, order.counts))
    }
}

/// Number of orders that may be late that a page reads at once.
const LATE_AT_ONCE: usize = 200;

/// The question for a page of an owner's orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// Which orders it has.
    pub filter: ListFilter,
    /// The largest number of orders; at least 1.
    pub limit: usize,
    /// Where the page begins.
    pub cursor: Cursor,
    /// The start that the order of the cursor had when it was listed, in the order of appointments. The page begins
    /// there, wherever the order is now. `None`: at the start that the order has now.
    pub cursor_starts: Option<OffsetDateTime>,
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

/// The number of a note among those of its order, from 1. Later notes have larger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NoteNumber(pub i64);

impl NoteNumber {
    /// Before all notes.
    pub const START: Self = Self(0);
}

/// A note of an order, with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedNote {
    /// Its number.
    pub number: NoteNumber,
    /// The note.
    pub note: Note,
}

/// The question for a page of a part of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartQuery<Id> {
    /// The largest number of items; at least 1.
    pub limit: usize,
    /// Where the page begins.
    pub cursor: Cursor<Id>,
}

/// The question for a page of the history of an order.
pub type HistoryQuery = PartQuery<HistoryId>;

/// The question for a page of the notes of an order.
pub type NoteQuery = PartQuery<NoteNumber>;

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
    /// Place of the last item that was looked at, if the walk stopped at its limit before the page was
    /// full. The next page in the direction of the walk begins behind it.
    pub stopped_at: Option<ListPlace>,
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
        Self { items: read, has_older, has_newer, stopped_at: None }
    }

    /// Notes where a walk stopped, unless the page was full before.
    #[must_use]
    pub fn stopping(self, cursor: &Cursor, at: Option<ListPlace>) -> Self {
        let toward_newer = matches!(cursor, Cursor::NewerThan(_));
        let is_full = if toward_newer { self.has_newer } else { self.has_older };
        match at {
            Some(_) if is_full => self,
            None => self,
            Some(_) if toward_newer => Self { has_newer: true, stopped_at: at, ..self },
            Some(_) => Self { has_older: true, stopped_at: at, ..self },
        }
    }
}

/// Reads the orders of an owner.
///
/// An implementation guarantees:
/// - No call returns anything of another owner's order, nor whether there is one: the owner stands
///   in the query.
/// - The cost of a call does not grow with the number of stored orders, beyond the limits of a walk.
/// - Every order has the names of its client and its signing service as they are now.
/// - Erased orders are in no list. As a cursor they are still orders of their owner.
/// - A poller that pages with [`Cursor::NewerThan`] misses no order, although identifiers are given
///   before commits: such a page ends before the first identifier under which an older order may
///   still appear.
///
/// # Errors
/// Every method fails with [`StoreError`] only. [`StoreError::Internal`] names an order whose row
/// cannot be read. Lists and [`listed`](OrderReader::listed) show such an order as far as its columns know it.
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

    /// Returns a page of the notes of an order; `None` if the owner has no such order, and no page if the
    /// cursor is no note of it. A page also ends before [`READ_NOTE_BYTES`](crate::order::READ_NOTE_BYTES).
    /// [`Cursor::NewerThan`] of [`NoteNumber::START`] begins at the oldest note.
    async fn notes(
        &self,
        owner: Owner,
        id: OrderId,
        query: &NoteQuery,
    ) -> Result<Option<MaybeErased<Option<Page<NumberedNote>>>>, StoreError>;

    /// Returns an order with its documents, without its changes and notes; `None` if the owner has no such
    /// order.
    async fn with_documents(
        &self,
        owner: Owner,
        id: OrderId,
    ) -> Result<Option<MaybeErased<StoredOrder>>, StoreError>;

    /// Returns an order with its documents, its newest changes, up to
    /// [`READ_HISTORY`](crate::order::READ_HISTORY), and its newest notes, up to
    /// [`READ_NOTES`](crate::order::READ_NOTES); `None` if the owner has no such order.
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

    /// Returns the owner's newest order with a file number in its comparable form, and its status; `None` if the owner
    /// has none that is not erased.
    async fn newest(
        &self,
        owner: Owner,
        file_number: &str,
    ) -> Result<Option<(OrderId, OrderStatus)>, StoreError>;

    /// Returns a page of the owner's orders that match at the instant of the read; `None` if the cursor is no
    /// order of the owner. A cursor with a start is a place alone: no order is looked up. Looks at most at
    /// [`ListFilter::walked_orders`] orders from the cursor on, and tells where it stopped.
    async fn page(&self, owner: Owner, query: &PageQuery) -> Result<Option<Page>, StoreError>;

    /// Returns the notaries with a name of the owner's newest orders whose status or notary last changed at an instant
    /// or later. Looks at up to `newest` orders.
    async fn notaries(
        &self,
        owner: Owner,
        since: OffsetDateTime,
        newest: usize,
    ) -> Result<KnownNotaries, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::attention::Attention;

    #[test]
    fn pages_with_filters_look_at_a_limited_number_of_orders() {
        let default = ListFilter::default;
        let now = OffsetDateTime::UNIX_EPOCH;
        let dated = ListFilter { created_after: Some(now), ..default() };
        let search = SearchedText::parse("jane".to_owned()).ok();
        let searching = ListFilter { search, ..dated.clone() };
        let file_number = Some("F-1".to_owned());
        let numbered = ListFilter { file_number, ..searching.clone() };
        let attention = Some(AttentionFilter { codes: Attention::ALL.to_vec(), now });
        for (filter, expected) in [
            (default(), None),
            (dated, Some(200_000)),
            (ListFilter { by_appointment: true, ..default() }, Some(50_000)),
            (ListFilter { attention: attention.clone(), ..default() }, Some(200_000)),
            (ListFilter { attention, ..numbered.clone() }, Some(50_000)),
            (numbered, None),
            (searching, Some(50_000)),
        ] {
            assert_eq!(filter.walked_orders(), expected, "{filter:?}");
        }
    }
}
