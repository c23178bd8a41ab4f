//! The common steps of creating an order and adding documents: the claim of an idempotency
//! key, and documents that are stored before one atomic step adopts them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt as _, stream};
use time::{Duration, OffsetDateTime};

use crate::{
    api_key::Owner,
    document::{
        DocumentFault, ObjectKey, ReceivedDocument, SpooledFile, StoredDocument, sanitize_file_name,
    },
    idempotency::{Answered, Attempt, Claim, IdempotentRequest, KeyUse},
    order::{OrderId, StoredOrder},
    person::Caller,
    ports::{
        BlobStore, Clock, Entropy, IdempotencyLedger, OrderReader, OrderRepo, StoreError,
        UploadLedger, WriteError,
    },
    use_cases::{order_error::OrderError, scan_documents::ScanDocuments},
};

/// Documents of one request that are stored at the same time.
pub(crate) const PARALLEL_PUTS: usize = 4;

/// The ports of requests that create orders or add documents.
#[derive(Clone)]
pub struct Intake {
    /// Stores orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Reads orders.
    pub reader: Arc<dyn OrderReader>,
    /// Records the objects of documents that no order has yet.
    pub uploads: Arc<dyn UploadLedger>,
    /// Stores idempotency keys in use.
    pub idempotency: Arc<dyn IdempotencyLedger>,
    /// Stores documents.
    pub blobs: Arc<dyn BlobStore>,
    /// Scans documents before they are stored, if the operator has a scanner.
    pub scan: Option<ScanDocuments>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness for object keys and message keys.
    pub entropy: Arc<dyn Entropy>,
    /// Time for which a request is stored under its idempotency key.
    pub idempotency_retention: Duration,
}

/// Documents that may be stored, with their files.
pub(crate) type Accepted = Vec<(StoredDocument, SpooledFile)>;

/// Documents in the blob store that no order has yet.
pub(crate) struct Uploaded {
    /// The documents.
    pub(crate) documents: Vec<StoredDocument>,
    /// The instant at which an order gets them.
    pub(crate) at: OffsetDateTime,
}

/// Returns the keys of documents.
pub(crate) fn keys_of(accepted: &[(StoredDocument, SpooledFile)]) -> Vec<ObjectKey> {
    accepted.iter().filter_map(|(document, _)| document.key.clone()).collect()
}

impl Intake {
    /// Time after which a claim ends unless the attempt extends it.
    pub const CLAIM: Duration = Duration::seconds(15);

    /// Claims or extends the idempotency key of a long request, so that concurrent attempts learn
    /// that it is in progress. Returns the request that was answered under it instead,
    /// if there is one.
    pub async fn claim(&self, claim: &Claim) -> Result<Option<Answered>, OrderError> {
        let now = self.clock.now();
        match self.idempotency.claim(claim, now, now.saturating_add(Self::CLAIM)).await {
            Ok(()) => Ok(None),
            Err(WriteError::KeyInUse(key_use)) => self.answered(key_use).map(Some),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the request that was answered under a key, and leaves the key as it is.
    pub(crate) async fn peek(&self, claim: &Claim) -> Result<Option<Answered>, OrderError> {
        let answered = self.claim(claim).await?;
        if answered.is_none() {
            self.idempotency.release(claim).await?;
        }
        Ok(answered)
    }

    /// Like [`answered`].
    pub(crate) fn answered(&self, key_use: KeyUse) -> Result<Answered, OrderError> {
        answered(key_use, self.clock.now())
    }

    /// Returns the order, if the caller may add documents to it. The rule of creating holds: a bound key
    /// adds to orders of its signing service only.
    pub async fn order(&self, caller: &Caller, id: OrderId) -> Result<StoredOrder, OrderError> {
        let order = self.find(caller.owner(), id).await?;
        if !caller.may_order_for(order.order.signing_service_id) {
            return Err(OrderError::Forbidden);
        }
        Ok(order)
    }

    pub(crate) async fn find(&self, owner: Owner, id: OrderId) -> Result<StoredOrder, OrderError> {
        OrderError::unless_erased(self.reader.with_documents(owner, id).await?)
    }

    /// Returns the request as it is stored at an instant.
    pub(crate) fn idempotent_request(
        &self,
        attempt: Option<&Attempt>,
        at: OffsetDateTime,
    ) -> Option<IdempotentRequest> {
        attempt.map(|it| IdempotentRequest::kept_for(it, at, self.idempotency_retention))
    }

    /// Returns the documents that may be stored, and the faults of the others by position.
    pub(crate) fn accept(
        &self,
        received: Vec<ReceivedDocument>,
    ) -> (Accepted, Vec<(usize, DocumentFault)>) {
        let (mut accepted, mut faults) = (Vec::new(), Vec::new());
        for (position, document) in received.into_iter().enumerate() {
            match document.format() {
                Ok(format) => {
                    let stored = StoredDocument {
                        key: Some(ObjectKey::random(&*self.entropy)),
                        name: sanitize_file_name(&document.name_as_sent),
                        name_as_sent: document.name_as_sent,
                        media_type: format.media_type().to_owned(),
                        size: document.file.size,
                        sha256: document.file.sha256,
                        crc32: Some(document.file.crc32),
                        // Set again when an order gets the document.
                        created_at: self.clock.now(),
                        replaced_by: None,
                        withdrawn_at: None,
                        is_erased: false,
                        first_downloaded_at: None,
                        by: None,
                    };
                    accepted.push((stored, document.file));
                }
                Err(fault) => faults.push((position, fault)),
            }
        }
        (accepted, faults)
    }

    /// Scans documents, and returns how many may be stored although they were not scanned: none
    /// without a scanner, where no scan is expected.
    pub(crate) async fn scan(&self, accepted: &Accepted) -> Result<usize, OrderError> {
        match &self.scan {
            Some(scan) => {
                scan.scan(&accepted.iter().map(|(_, file)| file).collect::<Vec<_>>()).await
            }
            None => Ok(0),
        }
    }

    /// Stores documents, if there are any. The next step adopts them, and [`Self::discard`] removes them
    /// if it fails.
    pub(crate) async fn store(&self, accepted: Accepted) -> Result<Uploaded, StoreError> {
        if !accepted.is_empty() {
            self.uploads.record(&keys_of(&accepted), self.clock.now()).await?;
        }
        self.store_recorded(accepted).await
    }

    /// Like [`Self::store`], for documents whose keys are in the ledger.
    pub(crate) async fn store_recorded(&self, accepted: Accepted) -> Result<Uploaded, StoreError> {
        match self.put_all(&accepted).await {
            Ok(()) => {}
            // Leaves the recorded objects to the sweeper. A put that timed out may still take
            // effect after a removal, and the client should not wait for another timeout.
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error @ StoreError::Internal(_)) => {
                self.remove(&keys_of(&accepted)).await;
                return Err(error);
            }
        }
        let at = self.clock.now();
        let stored = |(document, _)| StoredDocument { created_at: at, ..document };
        Ok(Uploaded { documents: accepted.into_iter().map(stored).collect(), at })
    }

    /// Removes the objects of documents that no order has adopted, because the call failed that was to
    /// adopt them.
    pub(crate) async fn discard(&self, documents: &[StoredDocument], error: &WriteError) {
        let keys: Vec<_> = documents.iter().filter_map(|it| it.key.clone()).collect();
        if keys.is_empty() {
            return;
        }
        if matches!(error, WriteError::UploadSwept) {
            self.record_again(&keys).await;
        }
        self.remove(&keys).await;
    }

    /// Puts every document. After a failure it starts no other put and finishes those in progress,
    /// so that no object appears after its removal.
    async fn put_all(&self, accepted: &Accepted) -> Result<(), StoreError> {
        let failed = &AtomicBool::new(false);
        let files = accepted.iter().filter_map(|(it, file)| Some((it.key.as_ref()?, file)));
        let puts = files.map(|(key, file)| async move {
            if failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let put = self.blobs.put(key, file).await;
            failed.fetch_or(put.is_err(), Ordering::Relaxed);
            put
        });
        // Collected first: a lazy closure that borrows would make the whole future unfit for
        // `spawn`.
        let puts: Vec<_> = puts.collect();
        let results: Vec<_> = stream::iter(puts).buffer_unordered(PARALLEL_PUTS).collect().await;
        results.into_iter().collect()
    }

    /// Records keys again for removal. A sweeper whose clock is ahead may have swept them before
    /// their objects were put. No order can have adopted them.
    async fn record_again(&self, keys: &[ObjectKey]) {
        let Ok(condemned) = self.uploads.condemn(keys).await else { return };
        let forgotten: Vec<ObjectKey> =
            keys.iter().filter(|key| !condemned.contains(key)).cloned().collect();
        if !forgotten.is_empty() {
            // The caller already reports a failure, and the sweeper finds what is left.
            let _ = self.uploads.record(&forgotten, self.clock.now()).await;
        }
    }

    /// Removes the objects of documents that no order has. The ledger decides which: the outcome of
    /// the commit may be unknown. If an order has them after all, their keys have left the ledger
    /// and their objects stay. The sweeper removes the rest.
    pub(crate) async fn remove(&self, keys: &[ObjectKey]) {
        let Ok(condemned) = self.uploads.condemn(keys).await else { return };
        // The caller already reports a failure, and the sweeper tries again.
        let _ = remove_condemned(&*self.blobs, &*self.uploads, condemned).await;
    }
}

/// Returns the request that was answered under a key in use. If another attempt is in progress,
/// caps the wait: that attempt extends its claim while it runs, and often ends long before.
pub(crate) fn answered(key_use: KeyUse, now: OffsetDateTime) -> Result<Answered, OrderError> {
    match key_use {
        KeyUse::Answered(answered) => Ok(answered),
        KeyUse::InProgress { until } => {
            let left = (until - now).whole_seconds();
            Err(OrderError::InProgress { retry_after: left.clamp(1, 5).unsigned_abs() })
        }
    }
}

/// Deletes the objects of condemned keys, each for itself, and forgets the keys whose objects are gone.
/// Returns the others, and the first error after trying all.
pub(crate) async fn remove_condemned(
    blobs: &dyn BlobStore,
    uploads: &dyn UploadLedger,
    condemned: Vec<ObjectKey>,
) -> (Vec<ObjectKey>, Result<(), StoreError>) {
    let mut left = condemned.clone();
    let deletions = stream::iter(condemned)
        .map(|key| async move { blobs.delete(&key).await.map(|()| key) })
        .buffer_unordered(PARALLEL_PUTS);
    let results: Vec<Result<ObjectKey, StoreError>> = deletions.collect().await;
    let gone: Vec<ObjectKey> = results.iter().flatten().cloned().collect();
    if !gone.is_empty()
        && let Err(error) = uploads.forget(&gone).await
    {
        return (left, Err(error));
    }
    left.retain(|key| !gone.contains(key));
    (left, results.into_iter().try_for_each(|result| result.map(drop)))
}
