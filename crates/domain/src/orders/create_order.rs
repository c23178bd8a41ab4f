//! Use case: create an order, with or without documents.

use crate::{
    api_key::ApiKey,
    document::{ReceivedDocument, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::{Answered, Attempt},
    order::{OrderRequest, OrderStatus, ParsedOrder, SigningServiceId, StoredOrder},
    orders::{
        intake::Intake,
        order_error::{OrderError, Rejection},
    },
    ports::{NewOrder, WriteError},
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

/// Creates orders.
#[derive(Clone)]
pub struct CreateOrder {
    /// Stores orders and documents.
    pub intake: Intake,
    /// Time for which an order bars its file number.
    pub window: DuplicateWindow,
}

impl CreateOrder {
    /// Returns the order that was created under the idempotency key of an attempt. Fails if this
    /// request differs from the one that created it.
    pub async fn repeat(
        &self,
        answered: Answered,
        attempt: &Attempt,
    ) -> Result<CreatedOrder, OrderError> {
        if answered.fingerprint != attempt.fingerprint || answered.added.is_some() {
            return Err(OrderError::KeyReused);
        }
        let owner = attempt.claim.key.owner();
        let gone = || OrderError::Internal("the order of an idempotency key is gone".into());
        let found = self.intake.reader.order(owner, answered.order_id).await?.ok_or_else(gone)?;
        let stored = OrderError::unless_kept(Some(found))?.as_created();
        Ok(CreatedOrder { stored, utc_disagreements: Vec::new(), replayed: true, unscanned: 0 })
    }

    /// Creates an order without documents.
    pub async fn create(
        &self,
        key: &ApiKey,
        request: OrderRequest,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, OrderError> {
        authorize(key, &request)?;
        let parsed = request.parse().map_err(OrderError::rejected)?;
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
    ) -> Result<CreatedOrder, OrderError> {
        authorize(key, &request)?;
        let no_documents = documents.is_empty();
        let (accepted, faults) = self.intake.accept(documents);
        let parsed = match request.parse() {
            Ok(parsed) if faults.is_empty() && !no_documents => parsed,
            parsed => {
                return Err(OrderError::Rejected(Rejection {
                    violations: parsed.err().unwrap_or_default(),
                    documents: faults,
                    no_documents,
                }));
            }
        };
        // Checks the key again before storing anything, so that a repeat stores nothing.
        if let Some(attempt) = attempt
            && let Some(answered) = self.intake.claim(&attempt.claim).await?
        {
            return self.repeat(answered, attempt).await;
        }
        let unscanned = self.intake.scan(&accepted).await?;
        let commit = async |documents| self.commit(key, parsed, documents, attempt).await;
        match self.intake.store(accepted, commit).await? {
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
    ) -> Result<CreatedOrder, WriteError> {
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
        error: WriteError,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, OrderError> {
        match (error, attempt) {
            (WriteError::KeyInUse(key_use), Some(attempt)) => {
                self.repeat(self.intake.answered(key_use)?, attempt).await
            }
            (WriteError::Duplicate { created_at }, _) => Err(OrderError::Duplicate {
                retry_after: self.window.seconds_left(created_at, self.intake.clock.now()),
            }),
            (error, _) => Err(error.into()),
        }
    }
}

/// Checks the binding of the key first, before anything else about the request.
fn authorize(key: &ApiKey, request: &OrderRequest) -> Result<(), OrderError> {
    match request.signing_service_id() {
        Some(service) if !key.may_order_for(SigningServiceId(service)) => {
            Err(OrderError::Forbidden)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "create_order_tests.rs"]
mod tests;
