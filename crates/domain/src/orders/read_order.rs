//! Use case: read the orders of a client.

use std::{ops::Range, sync::Arc};

use crate::{
    api_key::ClientId,
    document::StoredDocument,
    order::{OrderId, StoredOrder},
    ports::{
        BlobStore, BlobStream, Cause, GetError, Kept, OrderReader, Page, PageQuery, StoreError,
    },
};

/// The reason why an order or a part of it was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The client has no such order, or the order no such document.
    #[error("the client has no such order or document")]
    NotFound,
    /// An operator has erased the order.
    #[error("the order was erased")]
    Erased,
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
    /// A store does not answer. The same call may succeed later.
    #[error("a store does not answer")]
    Unavailable(#[source] Cause),
    /// A bug, or a store that gave an unexpected answer.
    #[error("the order could not be read")]
    Internal(#[source] Cause),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Unavailable(error.into()),
            StoreError::Internal(_) => Self::Internal(error.into()),
        }
    }
}

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
    pub async fn order(&self, client: ClientId, id: OrderId) -> Result<StoredOrder, ReadError> {
        kept(self.reader.order(client, id).await?)
    }

    /// Returns a page of the client's orders.
    pub async fn page(&self, client: ClientId, query: &PageQuery) -> Result<Page, ReadError> {
        self.reader.page(client, query).await?.ok_or(ReadError::UnknownCursor)
    }

    /// Returns a document of an order by its position, from 0.
    pub async fn document(
        &self,
        client: ClientId,
        id: OrderId,
        position: u32,
    ) -> Result<StoredDocument, ReadError> {
        kept(self.reader.document(client, id, position).await?)
    }

    /// Opens a range of the bytes of a document that [`Self::document`] has returned.
    pub async fn bytes(
        &self,
        client: ClientId,
        id: OrderId,
        position: u32,
        document: &StoredDocument,
        range: Range<u64>,
    ) -> Result<BlobStream, ReadError> {
        match self.blobs.get(&document.key, range).await {
            Ok(bytes) => Ok(bytes),
            Err(GetError::Missing) => {
                // The order may have been erased since the document was looked up.
                self.document(client, id, position).await?;
                Err(ReadError::MissingObject { order: id, position })
            }
            Err(error @ GetError::Unavailable(_)) => Err(ReadError::Unavailable(error.into())),
            Err(error @ GetError::Internal(_)) => Err(ReadError::Internal(error.into())),
        }
    }
}

fn kept<T>(found: Option<Kept<T>>) -> Result<T, ReadError> {
    match found {
        Some(Kept::Whole(found)) => Ok(found),
        Some(Kept::Erased) => Err(ReadError::Erased),
        None => Err(ReadError::NotFound),
    }
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
