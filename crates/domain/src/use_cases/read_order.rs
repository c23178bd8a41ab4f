//! Use case: read the orders of a client.

use std::{ops::Range, sync::Arc};

use crate::{
    access::{Access, PublicAccessId},
    api_key::Owner,
    document::{ObjectKey, StoredDocument},
    order::{
        DocumentId, OrderId, StoredOrder,
        feed::{FeedCursor, FeedPage},
    },
    ports::{
        AccessLog, BlobStore, BlobStream, ChangeFeed, Clock, HistoryEntry, HistoryQuery,
        ListedOrder, NoteQuery, NumberedNote, OrderReader, OrderRepo, Page, PageQuery,
    },
    use_cases::{note_downloads::Downloads, order_error::OrderError, store_waiting::lock},
};

/// Reads orders for their client.
#[derive(Clone)]
pub struct ReadOrder {
    /// Stores what a read finds out about a document.
    pub orders: Arc<dyn OrderRepo>,
    /// Reads orders.
    pub reader: Arc<dyn OrderReader>,
    /// Reads the feed of changes.
    pub feed: Arc<dyn ChangeFeed>,
    /// Reads accesses.
    pub accesses: Arc<dyn AccessLog>,
    /// Stores documents.
    pub blobs: Arc<dyn BlobStore>,
    /// Downloads that are not stored yet.
    pub downloads: Downloads,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl ReadOrder {
    /// Returns an order without its documents, changes and notes.
    pub async fn listed(&self, owner: Owner, id: OrderId) -> Result<ListedOrder, OrderError> {
        OrderError::unless_erased(self.reader.listed(owner, id).await?)
    }

    /// Returns an order with its documents, without its changes and notes.
    pub async fn with_documents(
        &self,
        owner: Owner,
        id: OrderId,
    ) -> Result<StoredOrder, OrderError> {
        OrderError::unless_erased(self.reader.with_documents(owner, id).await?)
    }

    /// Returns an order with its documents, and its newest changes and notes.
    pub async fn order(&self, owner: Owner, id: OrderId) -> Result<StoredOrder, OrderError> {
        OrderError::unless_erased(self.reader.order(owner, id).await?)
    }

    /// Returns a page of the history of an order.
    pub async fn history(
        &self,
        owner: Owner,
        id: OrderId,
        query: &HistoryQuery,
    ) -> Result<Page<HistoryEntry>, OrderError> {
        let page = OrderError::unless_erased(self.reader.history(owner, id, query).await?)?;
        page.ok_or(OrderError::UnknownCursor)
    }

    /// Returns a page of the notes of an order.
    pub async fn notes(
        &self,
        owner: Owner,
        id: OrderId,
        query: &NoteQuery,
    ) -> Result<Page<NumberedNote>, OrderError> {
        let page = OrderError::unless_erased(self.reader.notes(owner, id, query).await?)?;
        page.ok_or(OrderError::UnknownCursor)
    }

    /// Returns up to `limit` accesses to an order that are older than `before`, newest first, and whether
    /// there are older ones.
    pub async fn accesses(
        &self,
        owner: Owner,
        id: OrderId,
        before: Option<PublicAccessId>,
        limit: usize,
    ) -> Result<(Vec<Access>, bool), OrderError> {
        let one_more = limit.saturating_add(1);
        let found = self.accesses.of_order(owner, id, before, one_more).await?;
        let mut accesses = OrderError::unless_erased(found)?.ok_or(OrderError::UnknownCursor)?;
        let has_older = accesses.len() > limit;
        accesses.truncate(limit);
        Ok((accesses, has_older))
    }

    /// Returns a page of the client's orders.
    pub async fn page(&self, owner: Owner, query: &PageQuery) -> Result<Page, OrderError> {
        self.reader.page(owner, query).await?.ok_or(OrderError::UnknownCursor)
    }

    /// Returns a page of the feed of changes behind a place; `None` for an empty page at the place of now.
    pub async fn changes(
        &self,
        owner: Owner,
        after: Option<FeedCursor>,
        limit: usize,
    ) -> Result<FeedPage, OrderError> {
        let Some(after) = after else {
            let next = self.feed.now().await?;
            return Ok(FeedPage { entries: Vec::new(), next, has_more: false });
        };
        self.feed.page(owner, after, limit).await?.ok_or(OrderError::UnknownCursor)
    }

    /// Returns a document of an order, and its key.
    pub async fn document(
        &self,
        owner: Owner,
        id: DocumentId,
    ) -> Result<(StoredDocument, ObjectKey), OrderError> {
        let document = OrderError::unless_erased(self.reader.document(owner, id).await?)?;
        let key = document.key.clone().ok_or(OrderError::Withdrawn)?;
        Ok((document, key))
    }

    /// Notes that the other side has read a document whole. [`NoteDownloads`] stores it.
    ///
    /// [`NoteDownloads`]: super::note_downloads::NoteDownloads
    pub fn note_download(&self, document: DocumentId) {
        lock(&self.downloads).entry(document).or_insert_with(|| self.clock.now());
    }

    /// Opens a range of the bytes of a document that [`Self::document`] has returned with a key.
    pub async fn bytes(
        &self,
        owner: Owner,
        id: DocumentId,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<BlobStream, OrderError> {
        if let Some(bytes) = self.blobs.get(key, range).await? {
            return Ok(bytes);
        }
        // It may have been erased or withdrawn since it was looked up.
        self.document(owner, id).await?;
        Err(OrderError::MissingObject(id))
    }

    /// Stores the CRC-32 of a document that has none.
    pub async fn store_crc32(&self, id: DocumentId, crc32: u32) -> Result<(), OrderError> {
        Ok(self.orders.store_crc32(id, crc32).await?)
    }
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
