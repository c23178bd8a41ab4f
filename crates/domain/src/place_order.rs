//! Use case: place an order, with or without documents.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    api_key::ApiKey,
    document::{DocumentFault, ObjectKey, ReceivedDocument, SpooledFile, StoredDocument, sanitize_file_name},
    duplicate_window::DuplicateWindow,
    follow_up::NewFollowUp,
    order::{Order, OrderRequest, OrderStatus, PlacedOrder, SigningServiceId, Violation},
    ports::{BlobStore, Cause, Clock, Entropy, NewOrder, OrderRepo, PlaceError, StoreError, UploadLedger},
};

/// Documents of one order that are stored at the same time.
const PARALLEL_PUTS: usize = 4;

/// What is to be stored of a document, and its bytes.
type Acceptable = (StoredDocument, SpooledFile);

/// An order that was placed, and what the client should know beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The order.
    pub placed: PlacedOrder,
    /// Names of the `utc…` fields that disagree with the service's own conversion, which won.
    pub utc_disagreements: Vec<&'static str>,
}

/// Everything that is wrong with a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejection {
    /// Fields at fault.
    pub violations: Vec<Violation>,
    /// Documents at fault, by their position in the request.
    pub documents: Vec<(usize, DocumentFault)>,
    /// Whether documents were to be sent and none was.
    pub no_documents: bool,
}

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceOrderError {
    /// The request is not valid.
    #[error("the request is not valid")]
    Rejected(Rejection),
    /// The API key is bound to another signing service.
    #[error("the key may not create orders for this signing service")]
    Forbidden,
    /// The file number was used by an order that the window still covers.
    #[error("the file number was used a moment ago")]
    Duplicate {
        /// Whole seconds until it is free, at least one.
        retry_after: u64,
    },
    /// A store does not answer; the same request may succeed later.
    #[error("a store does not answer")]
    Unavailable(#[source] Cause),
    /// Something that nobody expected.
    #[error("the order could not be placed")]
    Internal(#[source] Cause),
}

impl From<StoreError> for PlaceOrderError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Unavailable(error.into()),
            StoreError::Internal(_) => Self::Internal(error.into()),
        }
    }
}

/// Places orders.
#[derive(Clone)]
pub struct PlaceOrder {
    /// Where orders are kept.
    pub orders: Arc<dyn OrderRepo>,
    /// Where intended objects are remembered.
    pub uploads: Arc<dyn UploadLedger>,
    /// Where documents are kept.
    pub blobs: Arc<dyn BlobStore>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Randomness for object keys and message keys.
    pub entropy: Arc<dyn Entropy>,
    /// How long a file number is taken.
    pub window: DuplicateWindow,
}

impl PlaceOrder {
    /// Places an order without documents.
    pub async fn place(&self, key: &ApiKey, request: OrderRequest) -> Result<Placement, PlaceOrderError> {
        authorize(key, &request)?;
        let parsed = request.parse().map_err(|violations| PlaceOrderError::Rejected(Rejection { violations, ..Rejection::default() }))?;
        let placed = self.commit(parsed.order, Vec::new()).await.map_err(|error| self.explain(error))?;
        Ok(Placement { placed, utc_disagreements: parsed.utc_disagreements })
    }

    /// Places an order with documents. Run it to its end even when nobody waits for the answer any more: dropped half
    /// way, it leaves its objects to the sweeper.
    pub async fn place_with_documents(&self, key: &ApiKey, request: OrderRequest, documents: Vec<ReceivedDocument>) -> Result<Placement, PlaceOrderError> {
        authorize(key, &request)?;
        let (documents, faults) = self.accept(documents);
        let no_documents = documents.is_empty() && faults.is_empty();
        let parsed = match request.parse() {
            Ok(parsed) if faults.is_empty() && !no_documents => parsed,
            parsed => return Err(PlaceOrderError::Rejected(Rejection { violations: parsed.err().unwrap_or_default(), documents: faults, no_documents })),
        };
        let keys: Vec<ObjectKey> = documents.iter().map(|(document, _)| document.key.clone()).collect();
        self.uploads.record(&keys, self.clock.now()).await?;

        let outcome = match self.put_all(&documents).await {
            Ok(()) => self.commit(parsed.order, documents.into_iter().map(|(document, _)| document).collect()).await.map_err(|error| self.explain(error)),
            // Left to the sweeper, for whom they are recorded: a put that was given up may take effect after a removal now, and
            // the client need not wait until the objects cannot be removed either.
            Err(error @ StoreError::Unavailable(_)) => return Err(error.into()),
            Err(error) => Err(error.into()),
        };
        match outcome {
            Ok(placed) => Ok(Placement { placed, utc_disagreements: parsed.utc_disagreements }),
            Err(error) => {
                self.remove(&keys).await;
                Err(error)
            }
        }
    }

    /// What is stored of each acceptable document, and what is wrong with the others.
    fn accept(&self, documents: Vec<ReceivedDocument>) -> (Vec<Acceptable>, Vec<(usize, DocumentFault)>) {
        let (mut accepted, mut faults) = (Vec::with_capacity(documents.len()), Vec::new());
        for (position, document) in documents.into_iter().enumerate() {
            match document.format() {
                Ok(format) => {
                    let stored = StoredDocument {
                        key: ObjectKey::random(&*self.entropy),
                        name: sanitize_file_name(&document.name_as_sent),
                        name_as_sent: document.name_as_sent,
                        media_type: format.media_type().to_owned(),
                        size: document.file.size,
                        sha256: document.file.sha256,
                    };
                    accepted.push((stored, document.file));
                }
                Err(fault) => faults.push((position, fault)),
            }
        }
        (accepted, faults)
    }

    /// Puts every document; after a failure no other is begun, and those under way are finished first, so that none
    /// appears after its removal.
    async fn put_all(&self, documents: &[Acceptable]) -> Result<(), StoreError> {
        let failed = &AtomicBool::new(false);
        let puts = documents.iter().map(|(document, file)| async move {
            if failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let put = self.blobs.put(&document.key, file).await;
            failed.fetch_or(put.is_err(), Ordering::Relaxed);
            put
        });
        // Collected, because a lazy borrowing closure would make the future of the whole use case unfit for `spawn`.
        let puts: Vec<_> = puts.collect();
        let results: Vec<Result<(), StoreError>> = stream::iter(puts).buffer_unordered(PARALLEL_PUTS).collect().await;
        results.into_iter().collect()
    }

    async fn commit(&self, order: Order, documents: Vec<StoredDocument>) -> Result<PlacedOrder, PlaceError> {
        let follow_ups = order.contacts.recipients().into_iter().map(|recipient| NewFollowUp::mail(recipient, &*self.entropy)).collect();
        let new = NewOrder { order, documents, follow_ups, placed_at: self.clock.now() };
        let id = self.orders.place(&new, self.window).await?;
        Ok(PlacedOrder {
            id,
            order: new.order,
            status: OrderStatus::New,
            notary_id: None,
            documents: new.documents,
            created_at: new.placed_at,
            updated_at: new.placed_at,
        })
    }

    fn explain(&self, error: PlaceError) -> PlaceOrderError {
        match error {
            PlaceError::Duplicate { placed_at } => PlaceOrderError::Duplicate { retry_after: self.window.seconds_left(placed_at, self.clock.now()) },
            PlaceError::UploadSwept | PlaceError::Unavailable(_) => PlaceOrderError::Unavailable(error.into()),
            PlaceError::Internal(_) => PlaceOrderError::Internal(error.into()),
        }
    }

    /// Removes the objects of an order that was not placed. The ledger decides which: when the outcome of the commit is
    /// unknown and the order was placed after all, its keys are no longer there and its objects stay. What cannot be
    /// removed now is left to the sweeper.
    async fn remove(&self, keys: &[ObjectKey]) {
        let Ok(condemned) = self.uploads.condemn(keys).await else { return };
        // An error here is not the client's concern, and the sweeper meets it again.
        let _ = remove_condemned(&*self.blobs, &*self.uploads, condemned).await;
    }
}

/// Deletes the objects of condemned keys, then forgets those whose objects are gone; answers how many, or the first
/// error once all were tried.
pub(crate) async fn remove_condemned(blobs: &dyn BlobStore, uploads: &dyn UploadLedger, condemned: Vec<ObjectKey>) -> Result<usize, StoreError> {
    let deletions = stream::iter(condemned).map(|key| async move { blobs.delete(&key).await.map(|()| key) }).buffer_unordered(PARALLEL_PUTS);
    let results: Vec<Result<ObjectKey, StoreError>> = deletions.collect().await;
    let gone: Vec<ObjectKey> = results.iter().flatten().cloned().collect();
    if !gone.is_empty() {
        uploads.forget(&gone).await?;
    }
    stream::iter(results).try_collect::<Vec<_>>().await.map(|_| gone.len())
}

/// A key that is bound to one signing service is told so before anything else about the request.
fn authorize(key: &ApiKey, request: &OrderRequest) -> Result<(), PlaceOrderError> {
    match request.signing_service_id {
        crate::order::Field::Value(service) if !key.may_order_for(SigningServiceId(service)) => Err(PlaceOrderError::Forbidden),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "place_order_tests.rs"]
mod tests;
