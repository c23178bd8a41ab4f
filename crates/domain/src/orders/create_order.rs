//! Use case: create an order, with or without documents.

use time::Duration;

use crate::{
    api_key::ApiKey,
    document::{DocumentFault, ReceivedDocument, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::{Answered, Attempt, Claim, KeyUse},
    order::{OrderRequest, OrderStatus, ParsedOrder, SigningServiceId, StoredOrder, Violation},
    orders::{intake::Intake, scan_documents::NotPassed},
    ports::{Cause, CreateError, Kept, NewOrder, StoreError},
};

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
    /// Number of its documents that an unavailable scanner did not scan.
    pub unscanned: usize,
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
    /// An operator has erased the order that was created under the idempotency key.
    #[error("the order of the idempotency key was erased")]
    Erased,
    /// A store or the scanner does not answer. The same request may succeed later.
    #[error("a dependency does not answer")]
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

impl From<NotPassed> for CreateOrderError {
    fn from(error: NotPassed) -> Self {
        match error {
            NotPassed::Rejected(documents) => {
                Self::Rejected(Rejection { documents, ..Rejection::default() })
            }
            NotPassed::Unavailable(error) => Self::Unavailable(error.into()),
        }
    }
}

/// Creates orders.
#[derive(Clone)]
pub struct CreateOrder {
    /// Stores orders and documents.
    pub intake: Intake,
    /// Time for which an order bars its file number.
    pub window: DuplicateWindow,
}

impl CreateOrder {
    /// Time after which a claim ends unless the attempt extends it.
    pub const CLAIM: Duration = Intake::CLAIM;

    /// Claims or extends the idempotency key of a long request, so that concurrent attempts learn
    /// that it is in progress. Returns the order of an earlier request instead, if there is one.
    pub async fn claim(&self, claim: &Claim) -> Result<Option<Answered>, CreateOrderError> {
        match self.intake.claim(claim).await? {
            None => Ok(None),
            Some(KeyUse::Answered(answered)) => Ok(Some(answered)),
            Some(KeyUse::InProgress { until }) => {
                Err(CreateOrderError::InProgress { retry_after: self.intake.retry_after(until) })
            }
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
        match self.intake.reader.order(client, answered.order_id).await? {
            Some(Kept::Whole(stored)) => {
                let stored = stored.as_created();
                Ok(CreatedOrder {
                    stored,
                    utc_disagreements: Vec::new(),
                    replayed: true,
                    unscanned: 0,
                })
            }
            Some(Kept::Erased) => Err(CreateOrderError::Erased),
            None => {
                let cause = "the order of an idempotency key is gone";
                Err(CreateOrderError::Internal(cause.into()))
            }
        }
    }

    /// Releases the key of a request that created no order, so that the next attempt can use it.
    pub async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.intake.release(claim).await
    }

    /// Creates an order without documents.
    pub async fn create(
        &self,
        key: &ApiKey,
        request: Box<OrderRequest>,
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
        request: Box<OrderRequest>,
        documents: Vec<ReceivedDocument>,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, CreateOrderError> {
        authorize(key, &request)?;
        let no_documents = documents.is_empty();
        let (accepted, faults) = self.intake.accept(documents);
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
            && let Some(key_use) = self.intake.claim(&attempt.claim).await?
        {
            return self.answer_again(key_use, attempt).await;
        }
        let unscanned = self.intake.scan(&accepted).await?;
        let commit = async |documents| self.commit(key, parsed, documents, attempt).await;
        let is_swept = |error: &CreateError| matches!(error, CreateError::UploadSwept);
        match self.intake.store(accepted, commit, is_swept).await? {
            Ok(created) => Ok(CreatedOrder { unscanned, ..created }),
            Err(error) => self.replay_or_explain(error, attempt).await,
        }
    }

    async fn commit(
        &self,
        key: &ApiKey,
        ParsedOrder { order, utc_disagreements }: ParsedOrder,
        mut documents: Vec<StoredDocument>,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, CreateError> {
        let (is_test, created_at) = (key.key.is_test, self.intake.clock.now());
        for document in &mut documents {
            document.created_at = created_at;
        }
        let new = NewOrder {
            client: key.client(),
            api_key: key.id,
            order,
            documents,
            created_at,
            is_test,
            idempotent_request: self.intake.idempotent_request(attempt, created_at),
        };
        let id = self.intake.orders.create(&new, self.window).await?;
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
        Ok(CreatedOrder { stored, utc_disagreements, replayed: false, unscanned: 0 })
    }

    /// Returns the order of an earlier attempt, or the reason why there is none.
    async fn replay_or_explain(
        &self,
        error: CreateError,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, CreateOrderError> {
        Err(match (error, attempt) {
            (CreateError::KeyInUse(key_use), Some(attempt)) => {
                return self.answer_again(key_use, attempt).await;
            }
            (CreateError::Duplicate { created_at }, _) => CreateOrderError::Duplicate {
                retry_after: self.window.seconds_left(created_at, self.intake.clock.now()),
            },
            (error @ (CreateError::UploadSwept | CreateError::Unavailable(_)), _) => {
                CreateOrderError::Unavailable(error.into())
            }
            (error @ (CreateError::Internal(_) | CreateError::KeyInUse(_)), _) => {
                CreateOrderError::Internal(error.into())
            }
        })
    }

    /// Answers a request whose key is in use.
    async fn answer_again(
        &self,
        key_use: KeyUse,
        attempt: &Attempt,
    ) -> Result<CreatedOrder, CreateOrderError> {
        match key_use {
            KeyUse::InProgress { until } => {
                Err(CreateOrderError::InProgress { retry_after: self.intake.retry_after(until) })
            }
            KeyUse::Answered(answered) => self.repeat(answered, attempt).await,
        }
    }
}

/// Checks the binding of the key first, before anything else about the request.
fn authorize(key: &ApiKey, request: &OrderRequest) -> Result<(), CreateOrderError> {
    match request.signing_service_id() {
        Some(service) if !key.may_order_for(SigningServiceId(service)) => {
            Err(CreateOrderError::Forbidden)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "create_order_tests.rs"]
mod tests;
