//! Use case: add documents to an order.

use crate::{
    api_key::{ApiKey, Owner},
    document::{MAX_DOCUMENTS_PER_ORDER, ReceivedDocument, StoredDocument},
    idempotency::{AddedRange, Answered, Attempt},
    order::{OrderId, OrderStatus, StoredOrder},
    ports::{NewDocuments, StoreError, WriteError},
    use_cases::{
        intake::{Intake, keys_of},
        order_error::{OrderError, Rejection},
    },
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

/// Adds documents to orders.
#[derive(Clone)]
pub struct AddDocuments {
    /// Stores orders and documents.
    pub intake: Intake,
}

impl AddDocuments {
    /// Adds documents. The caller must run this to its end, even if the client has gone: dropped
    /// early, it leaves its objects to the sweeper.
    pub async fn add(
        &self,
        key: &ApiKey,
        id: OrderId,
        documents: Vec<ReceivedDocument>,
        attempt: Option<&Attempt>,
    ) -> Result<AddedDocuments, OrderError> {
        let no_documents = documents.is_empty();
        let (accepted, faults) = self.intake.accept(documents);
        if no_documents || !faults.is_empty() {
            let rejection = Rejection { documents: faults, no_documents, ..Rejection::default() };
            return Err(OrderError::Rejected(rejection));
        }
        // By now, the order of a repeat may be cancelled or full. The repeat gets its answer.
        if let Some(attempt) = attempt
            && let Some(answered) = self.intake.claim(&attempt.claim).await?
        {
            return self.repeat(id, answered, attempt).await;
        }
        let order = self.check(key, id).await?;
        if order.status == OrderStatus::CANCELLED {
            return Err(OrderError::Cancelled);
        }
        let stored = order.documents.len();
        if stored + accepted.len() > MAX_DOCUMENTS_PER_ORDER {
            return Err(OrderError::TooMany { stored });
        }
        // From here on, an erasure waits for this request.
        let keys = keys_of(&accepted);
        if !self.intake.uploads.record_for(id, &keys, self.intake.clock.now()).await? {
            return Err(OrderError::Erased);
        }
        let unscanned = match self.intake.scan(&accepted).await {
            Ok(unscanned) => unscanned,
            Err(error) => {
                self.intake.remove(&keys).await;
                return Err(error);
            }
        };
        let (owner, max_documents) = (key.owner(), MAX_DOCUMENTS_PER_ORDER);
        let commit = async |documents, at| {
            let idempotent_request = self.intake.idempotent_request(attempt, at);
            let new = NewDocuments {
                owner,
                order_id: id,
                documents,
                at,
                max_documents,
                idempotent_request,
            };
            let range = self.intake.orders.add_documents(&new).await?;
            Ok((range, new.documents))
        };
        match (self.intake.store_recorded(accepted, commit).await?, attempt) {
            (Ok((range, documents)), _) => {
                Ok(AddedDocuments { order_id: id, range, documents, replayed: false, unscanned })
            }
            (Err(WriteError::KeyInUse(key_use)), Some(attempt)) => {
                self.repeat(id, self.intake.answered(key_use)?, attempt).await
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Returns the documents that were added under the idempotency key of an attempt. Fails if this
    /// request differs from the one that added them.
    pub async fn repeat(
        &self,
        id: OrderId,
        answered: Answered,
        attempt: &Attempt,
    ) -> Result<AddedDocuments, OrderError> {
        let (Some(range), true) = (
            answered.added,
            answered.fingerprint == attempt.fingerprint && answered.order_id == id,
        ) else {
            return Err(OrderError::KeyReused);
        };
        let order = self.find(attempt.claim.key.owner(), id).await?;
        let (first, count) = (range.first_position as usize, range.count as usize);
        let documents: Vec<_> = order.documents.into_iter().skip(first).take(count).collect();
        if documents.len() != count {
            let cause = "the documents of an idempotency key are gone";
            return Err(StoreError::Internal(cause.into()).into());
        }
        Ok(AddedDocuments { order_id: id, range, documents, replayed: true, unscanned: 0 })
    }

    /// Returns the order, if the key may add to it. The rule of creating holds: a bound key adds to
    /// orders of its signing service only.
    pub async fn check(&self, key: &ApiKey, id: OrderId) -> Result<StoredOrder, OrderError> {
        let order = self.find(key.owner(), id).await?;
        if !key.may_order_for(order.order.signing_service_id) {
            return Err(OrderError::Forbidden);
        }
        Ok(order)
    }

    async fn find(&self, owner: Owner, id: OrderId) -> Result<StoredOrder, OrderError> {
        OrderError::unless_erased(self.intake.reader.order(owner, id).await?)
    }
}

#[cfg(test)]
#[path = "add_documents_tests.rs"]
mod tests;
