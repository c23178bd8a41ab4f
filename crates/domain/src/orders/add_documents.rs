//! Use case: add documents to an order.

use crate::{
    api_key::{ApiKey, ClientId},
    document::{MAX_DOCUMENTS_PER_ORDER, ReceivedDocument, StoredDocument},
    idempotency::{AddedRange, Answered, Attempt, KeyUse},
    order::{OrderId, StoredOrder},
    orders::{create_order::Rejection, intake::Intake, scan_documents::NotPassed},
    ports::{AddDocumentsError, Cause, Kept, NewDocuments, StoreError},
};

/// Documents that an order got after its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedDocuments {
    /// The order.
    pub order_id: OrderId,
    /// Their positions.
    pub range: AddedRange,
    /// The documents, by position.
    pub documents: Vec<StoredDocument>,
    /// Whether an earlier request with the same idempotency key added them.
    pub replayed: bool,
    /// Number of them that an unavailable scanner did not scan.
    pub unscanned: usize,
}

/// The reason why documents were not added.
#[derive(Debug, thiserror::Error)]
pub enum NotAdded {
    /// The request is not valid.
    #[error("the request is not valid")]
    Rejected(Rejection),
    /// The client has no such order.
    #[error("the client has no such order")]
    NoSuchOrder,
    /// An operator has erased the order.
    #[error("the order was erased")]
    Erased,
    /// The order would have more than [`MAX_DOCUMENTS_PER_ORDER`] documents.
    #[error("the order would have too many documents")]
    TooMany {
        /// Documents that it has.
        stored: usize,
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
    /// A store or the scanner does not answer. The same request may succeed later.
    #[error("a dependency does not answer")]
    Unavailable(#[source] Cause),
    /// A bug, or a store that gave an unexpected answer.
    #[error("the documents could not be added")]
    Internal(#[source] Cause),
}

impl From<StoreError> for NotAdded {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Unavailable(error.into()),
            StoreError::Internal(_) => Self::Internal(error.into()),
        }
    }
}

impl From<NotPassed> for NotAdded {
    fn from(error: NotPassed) -> Self {
        match error {
            NotPassed::Rejected(documents) => {
                Self::Rejected(Rejection { documents, ..Rejection::default() })
            }
            NotPassed::Unavailable(error) => Self::Unavailable(error.into()),
        }
    }
}

/// Adds documents to orders.
#[derive(Clone)]
pub struct AddDocuments {
    /// Stores orders and documents.
    pub intake: Intake,
}

impl AddDocuments {
    /// Checks that the client has the order, before the documents are received.
    pub async fn check(&self, client: ClientId, id: OrderId) -> Result<(), NotAdded> {
        self.find(client, id).await.map(drop)
    }

    /// Adds documents. The caller must run this to its end, even if the client has gone: dropped
    /// early, it leaves its objects to the sweeper.
    pub async fn add(
        &self,
        key: &ApiKey,
        id: OrderId,
        documents: Vec<ReceivedDocument>,
        attempt: Option<&Attempt>,
    ) -> Result<AddedDocuments, NotAdded> {
        let no_documents = documents.is_empty();
        let (accepted, faults) = self.intake.accept(documents);
        if no_documents || !faults.is_empty() {
            let rejection = Rejection { documents: faults, no_documents, ..Rejection::default() };
            return Err(NotAdded::Rejected(rejection));
        }
        // Checks the key and the order before storing anything. The atomic step decides.
        if let Some(attempt) = attempt
            && let Some(key_use) = self.intake.claim(&attempt.claim).await?
        {
            return self.answer_again(id, key_use, attempt).await;
        }
        let stored = self.find(key.client(), id).await?.documents.len();
        if stored + accepted.documents.len() > MAX_DOCUMENTS_PER_ORDER {
            return Err(NotAdded::TooMany { stored });
        }
        let unscanned = self.intake.scan(&accepted).await?;
        let commit = async |documents| self.commit(key.client(), id, documents, attempt).await;
        let is_swept = |error: &AddDocumentsError| matches!(error, AddDocumentsError::UploadSwept);
        match self.intake.store(accepted, commit, is_swept).await? {
            Ok(added) => Ok(AddedDocuments { unscanned, ..added }),
            Err(error) => self.replay_or_explain(id, error, attempt).await,
        }
    }

    /// Returns the documents that were added under the idempotency key of an attempt. Fails if this
    /// request differs from the one that added them.
    pub async fn repeat(
        &self,
        id: OrderId,
        answered: Answered,
        attempt: &Attempt,
    ) -> Result<AddedDocuments, NotAdded> {
        let (Some(range), true) = (
            answered.added,
            answered.fingerprint == attempt.fingerprint && answered.order_id == id,
        ) else {
            return Err(NotAdded::KeyReused);
        };
        let order = self.find(attempt.claim.key.client, id).await?;
        let (first, count) = (range.first_position as usize, range.count as usize);
        let documents: Vec<_> = order.documents.into_iter().skip(first).take(count).collect();
        if documents.len() != count {
            let cause = "the documents of an idempotency key are gone";
            return Err(NotAdded::Internal(cause.into()));
        }
        Ok(AddedDocuments { order_id: id, range, documents, replayed: true, unscanned: 0 })
    }

    async fn find(&self, client: ClientId, id: OrderId) -> Result<StoredOrder, NotAdded> {
        match self.intake.reader.order(client, id).await? {
            Some(Kept::Whole(order)) => Ok(order),
            Some(Kept::Erased) => Err(NotAdded::Erased),
            None => Err(NotAdded::NoSuchOrder),
        }
    }

    async fn commit(
        &self,
        client: ClientId,
        order_id: OrderId,
        mut documents: Vec<StoredDocument>,
        attempt: Option<&Attempt>,
    ) -> Result<AddedDocuments, AddDocumentsError> {
        let at = self.intake.clock.now();
        for document in &mut documents {
            document.created_at = at;
        }
        let new = NewDocuments {
            client,
            order_id,
            documents,
            at,
            max_documents: MAX_DOCUMENTS_PER_ORDER,
            idempotent_request: self.intake.idempotent_request(attempt, at),
        };
        let range = self.intake.orders.add_documents(&new).await?;
        let documents = new.documents;
        Ok(AddedDocuments { order_id, range, documents, replayed: false, unscanned: 0 })
    }

    /// Returns the documents of an earlier attempt, or the reason why none were added.
    async fn replay_or_explain(
        &self,
        id: OrderId,
        error: AddDocumentsError,
        attempt: Option<&Attempt>,
    ) -> Result<AddedDocuments, NotAdded> {
        Err(match (error, attempt) {
            (AddDocumentsError::KeyInUse(key_use), Some(attempt)) => {
                return self.answer_again(id, key_use, attempt).await;
            }
            (AddDocumentsError::NoSuchOrder, _) => NotAdded::NoSuchOrder,
            (AddDocumentsError::Erased, _) => NotAdded::Erased,
            (AddDocumentsError::TooMany { stored }, _) => NotAdded::TooMany { stored },
            (error @ (AddDocumentsError::UploadSwept | AddDocumentsError::Unavailable(_)), _) => {
                NotAdded::Unavailable(error.into())
            }
            (error @ (AddDocumentsError::Internal(_) | AddDocumentsError::KeyInUse(_)), _) => {
                NotAdded::Internal(error.into())
            }
        })
    }

    /// Answers a request whose key is in use.
    async fn answer_again(
        &self,
        id: OrderId,
        key_use: KeyUse,
        attempt: &Attempt,
    ) -> Result<AddedDocuments, NotAdded> {
        match key_use {
            KeyUse::InProgress { until } => {
                Err(NotAdded::InProgress { retry_after: self.intake.retry_after(until) })
            }
            KeyUse::Answered(answered) => self.repeat(id, answered, attempt).await,
        }
    }
}

#[cfg(test)]
#[path = "add_documents_tests.rs"]
mod tests;
