//! Use case: read the orders of a client.

use std::{ops::Range, sync::Arc};

use crate::{
    api_key::Owner,
    document::StoredDocument,
    order::{OrderId, StoredOrder},
    ports::{BlobStore, BlobStream, HistoryEntry, HistoryQuery, OrderReader, Page, PageQuery},
    use_cases::order_error::OrderError,
};

/// Reads orders for their client.
#[derive(Clone)]
pub struct ReadOrder {
    /// Reads orders.
    pub reader: Arc<dyn OrderReader>,
    /// Stores documents.
    pub blobs: Arc<dyn BlobStore>,
}

impl ReadOrder {
    /// Returns an order with its documents.
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

    /// Returns a page of the client's orders.
    pub async fn page(&self, owner: Owner, query: &PageQuery) -> Result<Page, OrderError> {
        self.reader.page(owner, query).await?.ok_or(OrderError::UnknownCursor)
    }

    /// Returns a document of an order by its position, from 0.
    pub async fn document(
        &self,
        owner: Owner,
        id: OrderId,
        position: u32,
    ) -> Result<StoredDocument, OrderError> {
        OrderError::unless_erased(self.reader.document(owner, id, position).await?)
    }

    /// Opens a range of the bytes of a document that [`Self::document`] has returned.
    pub async fn bytes(
        &self,
        owner: Owner,
        id: OrderId,
        position: u32,
        document: &StoredDocument,
        range: Range<u64>,
    ) -> Result<BlobStream, OrderError> {
        if let Some(bytes) = self.blobs.get(&document.key, range).await? {
            return Ok(bytes);
        }
        // The order may have been erased since the document was looked up.
        self.document(owner, id, position).await?;
        Err(OrderError::MissingObject { order: id, position })
    }
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
