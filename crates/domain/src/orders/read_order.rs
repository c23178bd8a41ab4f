//! Use case: read the orders of a client.

use std::{ops::Range, sync::Arc};

use crate::{
    api_key::ClientId,
    document::StoredDocument,
    order::{OrderId, StoredOrder},
    orders::order_error::OrderError,
    ports::{BlobStore, BlobStream, OrderReader, Page, PageQuery},
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
    pub async fn order(&self, client: ClientId, id: OrderId) -> Result<StoredOrder, OrderError> {
        OrderError::unless_kept(self.reader.order(client, id).await?)
    }

    /// Returns a page of the client's orders.
    pub async fn page(&self, client: ClientId, query: &PageQuery) -> Result<Page, OrderError> {
        self.reader.page(client, query).await?.ok_or(OrderError::UnknownCursor)
    }

    /// Returns a document of an order by its position, from 0.
    pub async fn document(
        &self,
        client: ClientId,
        id: OrderId,
        position: u32,
    ) -> Result<StoredDocument, OrderError> {
        OrderError::unless_kept(self.reader.document(client, id, position).await?)
    }

    /// Opens a range of the bytes of a document that [`Self::document`] has returned.
    pub async fn bytes(
        &self,
        client: ClientId,
        id: OrderId,
        position: u32,
        document: &StoredDocument,
        range: Range<u64>,
    ) -> Result<BlobStream, OrderError> {
        if let Some(bytes) = self.blobs.get(&document.key, range).await? {
            return Ok(bytes);
        }
        // The order may have been erased since the document was looked up.
        self.document(client, id, position).await?;
        Err(OrderError::MissingObject { order: id, position })
    }
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
