//! Use case: add documents to an order.

use crate::{
    api_key::Owner,
    document::{DocumentKind, ReceivedDocument, StoredDocument},
    idempotency::{AddedRange, Answered, Attempt},
    order::{OrderBefore, OrderCommand, OrderId, change::NewDocuments},
    person::Caller,
    ports::{Changed, OrderCommandRequest, StoreError, WriteError},
    precondition::OrderPrecondition,
    request::{Violation, ViolationCode},
    use_cases::{
        accesses::recorder::BegunAccess,
        intake::{Intake, Uploaded, keys_of},
        order_error::{OrderError, Rejection, not_replaceable},
    },
};

/// The order that documents are added to, and the document that they replace.
#[derive(Clone)]
pub struct Addition {
    /// The order.
    pub order_id: OrderId,
    /// The kind of the documents.
    pub kind: DocumentKind,
    /// The position of the document that they replace, as the client sent it.
    pub replaces: Option<String>,
    /// The versions of the order that may get them.
    pub precondition: OrderPrecondition,
    /// The access that adds them.
    pub access: Option<BegunAccess>,
}

impl Addition {
    /// Returns the position of the document that a number of documents replace.
    fn replaced(&self, documents: usize) -> Result<Option<u32>, Violation> {
        let violation = |code, detail: &'static str| {
            Err(Violation { pointer: "/replaces".into(), code, detail: detail.into() })
        };
        let text = self.replaces.as_deref().map(str::trim).unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse().ok().filter(|_: &u32| is_number) {
            None => violation(ViolationCode::InvalidFormat, "must be the position of a document"),
            Some(_) if documents > 1 => violation(
                ViolationCode::NotAllowed,
                "must come with one document only, which takes the place of the other",
            ),
            position => Ok(position),
        }
    }
}

/// Documents that an order got after its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedDocuments {
    /// The order.
    pub order_id: OrderId,
    /// The position of the document that they replace.
    pub replaces: Option<u32>,
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
        caller: &Caller,
        addition: &Addition,
        documents: Vec<ReceivedDocument>,
        attempt: Option<&Attempt>,
    ) -> Result<AddedDocuments, OrderError> {
        let (id, kind) = (addition.order_id, addition.kind);
        let (no_documents, replaces) = (documents.is_empty(), addition.replaced(documents.len()));
        let (accepted, faults) = self.intake.accept(documents);
        let replaces = match replaces {
            Ok(replaces) if faults.is_empty() && !no_documents => replaces,
            replaces => {
                let violation = match replaces {
                    Ok(Some(position)) => {
                        let order = OrderBefore::of(&self.intake.order(caller, id).await?);
                        (!order.may_be_replaced(kind, position)).then(not_replaceable)
                    }
                    Ok(None) => None,
                    Err(violation) => Some(violation),
                };
                let violations = violation.into_iter().collect();
                let rejection = Rejection { violations, documents: faults, no_documents };
                return Err(OrderError::Rejected(rejection));
            }
        };
        // By now, the order of a repeat may be cancelled or full. The repeat gets its answer.
        if let Some(attempt) = attempt
            && let Some(answered) = self.intake.claim(&attempt.claim).await?
        {
            return self.repeat(caller.owner(), addition, answered, attempt).await;
        }
        let order = OrderBefore::of(&self.intake.order(caller, id).await?);
        order.check(&addition.precondition)?;
        order.takes_documents(kind, accepted.len(), replaces)?;
        // From here on, an erasure waits for this request.
        let keys = keys_of(&accepted);
        let (uploads, now) = (&self.intake.uploads, self.intake.clock.now());
        if !uploads.record_for(caller.party(), id, &keys, now).await? {
            return Err(OrderError::Erased);
        }
        let unscanned = match self.intake.scan(&accepted).await {
            Ok(unscanned) => unscanned,
            Err(error) => {
                self.intake.remove(&keys).await;
                return Err(error);
            }
        };
        let Uploaded { documents, at } = self.intake.store_recorded(accepted).await?;
        let new = NewDocuments {
            kind,
            replaces,
            documents: documents.clone(),
            precondition: addition.precondition.clone(),
        };
        let request = OrderCommandRequest {
            owner: Some(caller.owner()),
            order: id,
            command: OrderCommand::AddDocuments(new),
            at,
            idempotent_request: self.intake.idempotent_request(attempt, at),
            access: addition.access.as_ref().map(BegunAccess::done),
        };
        let error = match self.intake.orders.change(&request).await {
            Ok(Changed::DocumentsAdded(range)) => {
                let (order_id, replayed, by) = (id, false, request.doer());
                let name = |document| StoredDocument { by, ..document };
                let documents = documents.into_iter().map(name).collect();
                return Ok(AddedDocuments {
                    order_id,
                    replaces,
                    range,
                    documents,
                    replayed,
                    unscanned,
                });
            }
            Ok(other) => other.unexpected(),
            Err(error) => error,
        };
        self.intake.discard(&documents, &error).await;
        match (error, attempt) {
            (WriteError::KeyInUse(key_use), Some(attempt)) => {
                let answered = self.intake.answered(key_use)?;
                self.repeat(caller.owner(), addition, answered, attempt).await
            }
            (error, _) => Err(error.into()),
        }
    }

    /// Returns the documents that were added under the idempotency key of an attempt. Fails if this
    /// request differs from the one that added them.
    pub async fn repeat(
        &self,
        owner: Owner,
        addition: &Addition,
        answered: Answered,
        attempt: &Attempt,
    ) -> Result<AddedDocuments, OrderError> {
        let range =
            answered.added_again(addition.order_id, attempt).ok_or(OrderError::KeyReused)?;
        let order = self.intake.find(owner, addition.order_id).await?;
        let (first, count) = (range.first_position as usize, range.count as usize);
        let added = order.documents_of(addition.kind);
        let documents: Vec<_> = added.iter().skip(first).take(count).cloned().collect();
        if documents.len() != count {
            let cause = "the documents of an idempotency key are gone";
            return Err(StoreError::Internal(cause.into()).into());
        }
        let replaces = addition.replaced(count).unwrap_or_default();
        let (order_id, replayed, unscanned) = (order.id, true, 0);
        Ok(AddedDocuments { order_id, replaces, range, documents, replayed, unscanned })
    }
}

#[cfg(test)]
#[path = "add_documents_tests.rs"]
mod tests;
