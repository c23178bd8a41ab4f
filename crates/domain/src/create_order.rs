//! Use case: create an order, with or without documents.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use time::{Duration, OffsetDateTime};

use crate::{
    api_key::ApiKey,
    delivery::NewDelivery,
    document::{
        DocumentFault, ObjectKey, ReceivedDocument, SpooledFile, StoredDocument, sanitize_file_name,
    },
    duplicate_window::DuplicateWindow,
    idempotency::{Answered, Attempt, Claim, IdempotentRequest, KeyUse},
    order::{
        Field, OrderRequest, OrderStatus, ParsedOrder, SigningServiceId, StoredOrder, Violation,
    },
    order_traffic::OrderTraffic,
    ports::{
        BlobStore, Cause, ClaimError, Clock, CreateError, Entropy, IdempotencyLedger, Kept,
        NewOrder, OrderRepo, StoreError, UploadLedger,
    },
};

/// Documents of one order that are stored at the same time.
const PARALLEL_PUTS: usize = 4;

/// The outcome of a successful request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedOrder {
    /// The order.
    pub stored: StoredOrder,
    /// Names of the `utc…` fields that disagree with the service's own conversion. The conversion
    /// is stored.
    pub utc_disagreements: Vec<&'static str>,
    /// Whether an earlier request with the same idempotency key created the order.
    pub replayed: bool,
}

/// Every fault of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejection {
    /// Fields at fault.
    pub violations: Vec<Violation>,
    /// Documents at fault, by their position in the request.
    pub documents: Vec<(usize, DocumentFault)>,
    /// Whether the request must have documents and has none.
    pub no_documents: bool,
}

/// The reason why an order was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateOrderError {
    /// The request is not valid.
    #[error("the request is not valid")]
    Rejected(Rejection),
    /// The API key is bound to another signing service.
    #[error("the key may not create orders for this signing service")]
    Forbidden,
    /// An order within the duplicate window has the file number.
    #[error("an order within the duplicate window has the file number")]
    Duplicate {
        /// Whole seconds until the file number is free, at least one.
        retry_after: u64,
    },
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// Another attempt with the idempotency key is in progress.
    #[error("another attempt with the idempotency key is in progress")]
    InProgress {
        /// Whole seconds to wait before the next attempt, at least one.
        retry_after: u64,
    },
    /// A store does not answer. The same request may succeed later.
    #[error("a store does not answer")]
    Unavailable(#[source] Cause),
    /// A bug, or a store that gave an unexpected answer.
    #[error("the order could not be created")]
    Internal(#[source] Cause),
}

impl From<StoreError> for CreateOrderError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Unavailable(error.into()),
            StoreError::Internal(_) => Self::Internal(error.into()),
        }
    }
}

/// Creates orders.
#[derive(Clone)]
pub struct CreateOrder {
    /// Stores orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Records the objects of orders that are not created yet.
    pub uploads: Arc<dyn UploadLedger>,
    /// Stores idempotency keys in use.
    pub idempotency: Arc<dyn IdempotencyLedger>,
    /// Stores documents.
    pub blobs: Arc<dyn BlobStore>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness for object keys and message keys.
    pub entropy: Arc<dyn Entropy>,
    /// Time for which an order bars its file number.
    pub window: DuplicateWindow,
    /// Time for which a request is stored under its idempotency key.
    pub idempotency_retention: Duration,
    /// Counts orders, so that background work can yield to them.
    pub traffic: Arc<OrderTraffic>,
}

impl CreateOrder {
    /// Time after which a claim ends unless the attempt extends it.
    pub const CLAIM: Duration = Duration::seconds(15);

    /// Claims or extends the idempotency key of a long request, so that concurrent attempts learn
    /// that it is in progress. Returns the order of an earlier request instead, if there is one.
    pub async fn claim(&self, claim: &Claim) -> Result<Option<Answered>, CreateOrderError> {
        match self.try_claim(claim).await? {
            None => Ok(None),
            Some(KeyUse::Answered(answered)) => Ok(Some(answered)),
            Some(KeyUse::InProgress { until }) => Err(self.in_flight(until)),
        }
    }

    /// Returns the order that was created under the idempotency key of an attempt. Fails if this
    /// request differs from the one that created it.
    pub async fn repeat(
        &self,
        answered: Answered,
        attempt: &Attempt,
    ) -> Result<CreatedOrder, CreateOrderError> {
        if answered.fingerprint != attempt.fingerprint || answered.added.is_some() {
            return Err(CreateOrderError::KeyReused);
        }
        let client = attempt.claim.key.client;
        let Some(Kept::Whole(stored)) = self.orders.find(client, answered.order_id).await? else {
            return Err(CreateOrderError::Internal(
                "the order of an idempotency key is gone".into(),
            ));
        };
        let stored = stored.as_created();
        Ok(CreatedOrder { stored, utc_disagreements: Vec::new(), replayed: true })
    }

    /// Releases the key of a request that created no order, so that the next attempt can use it.
    pub async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.idempotency.release(claim).await
    }

    /// Creates an order without documents.
    pub async fn create(
        &self,
        key: &ApiKey,
        request: OrderRequest,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, CreateOrderError> {
        authorize(key, &request)?;
        let parsed = request.parse().map_err(|violations| {
            CreateOrderError::Rejected(Rejection { violations, ..Rejection::default() })
        })?;
        match self.commit(key, parsed, Vec::new(), attempt).await {
            Ok(created) => Ok(created),
            Err(error) => self.replay_or_explain(error, attempt).await,
        }
    }

    /// Creates an order with documents. The caller must run this to its end, even if the client has
    /// gone: dropped early, it leaves its objects to the sweeper.
    pub async fn create_with_documents(
        &self,
        key: &ApiKey,
        request: OrderRequest,
        documents: Vec<ReceivedDocument>,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, CreateOrderError> {
        authorize(key, &request)?;
        let no_documents = documents.is_empty();
        let (documents, files, faults) = self.accept(documents);
        let parsed = match request.parse() {
            Ok(parsed) if faults.is_empty() && !no_documents => parsed,
            parsed => {
                return Err(CreateOrderError::Rejected(Rejection {
                    violations: parsed.err().unwrap_or_default(),
                    documents: faults,
                    no_documents,
                }));
            }
        };
        // Checks the key again before storing anything, so that a repeat stores nothing.
        if let Some(attempt) = attempt
            && let Some(taken) = self.try_claim(&attempt.claim).await?
        {
            return self.answer_again(taken, attempt).await;
        }
        let keys: Vec<ObjectKey> = documents.iter().map(|document| document.key.clone()).collect();
        self.uploads.record(&keys, self.clock.now()).await?;

        let outcome = match self.put_all(&keys, &files).await {
            Ok(()) => self.commit(key, parsed, documents, attempt).await,
            // Leaves the recorded objects to the sweeper. A put that timed out may still take
            // effect after a removal, and the client should not wait for another timeout.
            Err(error @ StoreError::Unavailable(_)) => return Err(error.into()),
            Err(StoreError::Internal(cause)) => Err(CreateError::Internal(cause)),
        };
        match outcome {
            Ok(created) => Ok(created),
            Err(error) => {
                if matches!(error, CreateError::UploadSwept) {
                    self.record_again(&keys).await;
                }
                self.remove(&keys).await;
                self.replay_or_explain(error, attempt).await
            }
        }
    }

    /// Returns the accepted documents with their files, and the faults of the others by position.
    fn accept(
        &self,
        documents: Vec<ReceivedDocument>,
    ) -> (Vec<StoredDocument>, Vec<SpooledFile>, Vec<(usize, DocumentFault)>) {
        let (mut accepted, mut files, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for (position, document) in documents.into_iter().enumerate() {
            match document.format() {
                Ok(format) => {
                    accepted.push(StoredDocument {
                        key: ObjectKey::random(&*self.entropy),
                        name: sanitize_file_name(&document.name_as_sent),
                        name_as_sent: document.name_as_sent,
                        media_type: format.media_type().to_owned(),
                        size: document.file.size,
                        sha256: document.file.sha256,
                        created_at: self.clock.now(),
                    });
                    files.push(document.file);
                }
                Err(fault) => faults.push((position, fault)),
            }
        }
        (accepted, files, faults)
    }

    /// Puts every document. After a failure it starts no other put and finishes those in progress,
    /// so that no object appears after its removal.
    async fn put_all(&self, keys: &[ObjectKey], files: &[SpooledFile]) -> Result<(), StoreError> {
        let failed = &AtomicBool::new(false);
        let puts = keys.iter().zip(files).map(|(key, file)| async move {
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
        let results: Vec<Result<(), StoreError>> =
            stream::iter(puts).buffer_unordered(PARALLEL_PUTS).collect().await;
        results.into_iter().collect()
    }

    async fn commit(
        &self,
        key: &ApiKey,
        ParsedOrder { order, utc_disagreements }: ParsedOrder,
        mut documents: Vec<StoredDocument>,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, CreateError> {
        self.traffic.record();
        let (is_test, created_at) = (key.key.is_test, self.clock.now());
        documents.iter_mut().for_each(|document| document.created_at = created_at);
        // A test order is no real signing, so it has no recipients.
        let recipients = if is_test { Vec::new() } else { order.contacts.recipients() };
        let mail = |recipient| NewDelivery::mail(recipient, &*self.entropy);
        let kept_until = created_at.saturating_add(self.idempotency_retention);
        let idempotent_request =
            attempt.map(|attempt| IdempotentRequest { attempt: attempt.clone(), kept_until });
        let new = NewOrder {
            client: key.client(),
            api_key: key.id,
            order,
            documents,
            deliveries: recipients.into_iter().map(mail).collect(),
            created_at,
            is_test,
            idempotent_request,
        };
        let id = self.orders.create(&new, self.window).await?;
        let stored = StoredOrder {
            id,
            order: new.order,
            status: OrderStatus::NEW,
            notary_id: None,
            documents: new.documents,
            client: new.client,
            api_key: new.api_key,
            is_test: new.is_test,
            created_at: new.created_at,
            updated_at: new.created_at,
        };
        Ok(CreatedOrder { stored, utc_disagreements, replayed: false })
    }

    /// Returns the order of an earlier attempt, or the reason why there is none.
    async fn replay_or_explain(
        &self,
        error: CreateError,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, CreateOrderError> {
        Err(match (error, attempt) {
            (CreateError::KeyInUse(taken), Some(attempt)) => {
                return self.answer_again(taken, attempt).await;
            }
            (CreateError::Duplicate { created_at }, _) => CreateOrderError::Duplicate {
                retry_after: self.window.seconds_left(created_at, self.clock.now()),
            },
            (error @ (CreateError::UploadSwept | CreateError::Unavailable(_)), _) => {
                CreateOrderError::Unavailable(error.into())
            }
            (error @ (CreateError::Internal(_) | CreateError::KeyInUse(_)), _) => {
                CreateOrderError::Internal(error.into())
            }
        })
    }

    async fn try_claim(&self, claim: &Claim) -> Result<Option<KeyUse>, CreateOrderError> {
        let now = self.clock.now();
        match self.idempotency.claim(claim, now, now.saturating_add(Self::CLAIM)).await {
            Ok(()) => Ok(None),
            Err(ClaimError::InUse(taken)) => Ok(Some(taken)),
            Err(error @ ClaimError::Unavailable(_)) => {
                Err(CreateOrderError::Unavailable(error.into()))
            }
            Err(error @ ClaimError::Internal(_)) => Err(CreateOrderError::Internal(error.into())),
        }
    }

    /// Answers a request whose key is in use.
    async fn answer_again(
        &self,
        taken: KeyUse,
        attempt: &Attempt,
    ) -> Result<CreatedOrder, CreateOrderError> {
        match taken {
            KeyUse::InProgress { until } => Err(self.in_flight(until)),
            KeyUse::Answered(answered) => self.repeat(answered, attempt).await,
        }
    }

    /// Caps the wait: an attempt extends its claim while it runs, and often ends long before.
    fn in_flight(&self, until: OffsetDateTime) -> CreateOrderError {
        let left = (until - self.clock.now()).whole_seconds();
        CreateOrderError::InProgress { retry_after: left.clamp(1, 5).unsigned_abs() }
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

    /// Removes the objects of an order that was not created. The ledger decides which: the outcome
    /// of the commit may be unknown. If the order was created after all, its keys have left the
    /// ledger and its objects stay. The sweeper removes the rest.
    async fn remove(&self, keys: &[ObjectKey]) {
        let Ok(condemned) = self.uploads.condemn(keys).await else { return };
        // The caller already reports a failure, and the sweeper tries again.
        let _ = remove_condemned(&*self.blobs, &*self.uploads, condemned).await;
    }
}

/// Deletes the objects of condemned keys, and forgets the keys whose objects are gone. Returns
/// their number, or the first error after trying all.
pub(crate) async fn remove_condemned(
    blobs: &dyn BlobStore,
    uploads: &dyn UploadLedger,
    condemned: Vec<ObjectKey>,
) -> Result<usize, StoreError> {
    let deletions = stream::iter(condemned)
        .map(|key| async move { blobs.delete(&key).await.map(|()| key) })
        .buffer_unordered(PARALLEL_PUTS);
    let results: Vec<Result<ObjectKey, StoreError>> = deletions.collect().await;
    let gone: Vec<ObjectKey> = results.iter().flatten().cloned().collect();
    if !gone.is_empty() {
        uploads.forget(&gone).await?;
    }
    stream::iter(results).try_collect::<Vec<_>>().await.map(|_| gone.len())
}

/// Checks the binding of the key first, before anything else about the request.
fn authorize(key: &ApiKey, request: &OrderRequest) -> Result<(), CreateOrderError> {
    match request.signing_service_id {
        Field::Value(service) if !key.may_order_for(SigningServiceId(service)) => {
            Err(CreateOrderError::Forbidden)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "create_order_tests.rs"]
mod tests;
