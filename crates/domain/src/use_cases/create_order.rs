//! Use case: create an order, with or without documents.

use std::sync::Arc;

use time::OffsetDateTime;

use crate::{
    api_key::ApiKey,
    document::{ReceivedDocument, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::{Answered, Attempt},
    order::{Names, Order, OrderRequest, OrderStatus, ParsedOrder, SigningServiceId, StoredOrder},
    ports::{NewOrder, StoreError, WriteError},
    request::{Violation, ViolationCode},
    use_cases::{
        intake::Intake,
        order_error::{OrderError, Rejection},
        services::KnownServices,
    },
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
    /// The signing services that orders may name; `None` if they may name any.
    pub known_services: Option<Arc<KnownServices>>,
}

impl CreateOrder {
    /// Returns the order that was created under the idempotency key of an attempt, with documents or
    /// without, as it was then. Fails if this request differs from the one that created it.
    pub async fn repeat(
        &self,
        answered: Answered,
        attempt: &Attempt,
        request: OrderRequest,
    ) -> Result<CreatedOrder, OrderError> {
        let sent = request.parse_beside(true).ok().map(|parsed| parsed.order);
        self.repeated(answered, attempt, sent).await
    }

    /// Returns the order that was created under the idempotency key of an attempt. `sent` is the order of
    /// this request: its client may have changed the stored one since.
    async fn repeated(
        &self,
        answered: Answered,
        attempt: &Attempt,
        sent: Option<Box<Order>>,
    ) -> Result<CreatedOrder, OrderError> {
        if answered.fingerprint != attempt.fingerprint || answered.added.is_some() {
            return Err(OrderError::KeyReused);
        }
        let owner = attempt.claim.key.owner;
        let gone = || StoreError::Internal("the order of an idempotency key is gone".into());
        let found = self.intake.reader.order(owner, answered.order_id).await?.ok_or_else(gone)?;
        let mut stored = OrderError::unless_erased(Some(found))?.as_created();
        stored.order = sent.unwrap_or(stored.order);
        Ok(CreatedOrder { stored, utc_disagreements: Vec::new(), replayed: true, unscanned: 0 })
    }

    /// Creates an order, with some documents unless `documents` is `None`. The caller must run this to
    /// its end, even if the client has gone: dropped early, it leaves its objects to the sweeper.
    pub async fn create(
        &self,
        key: &ApiKey,
        request: OrderRequest,
        documents: Option<Vec<ReceivedDocument>>,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, OrderError> {
        // Checks the binding of the key first, before anything else about the request.
        let service = request.signing_service_id().map(SigningServiceId);
        if service.is_some_and(|service| !key.may_order_for(service)) {
            return Err(OrderError::Forbidden);
        }
        let has_documents = documents.is_some();
        let no_documents = documents.as_ref().is_some_and(Vec::is_empty);
        let (accepted, faults) = self.intake.accept(documents.unwrap_or_default());
        let parsed = match self.parse(request, has_documents).await? {
            Ok(parsed) if faults.is_empty() && !no_documents => parsed,
            parsed => {
                let violations = parsed.err().unwrap_or_default();
                let unknown = ViolationCode::UnknownSigningService;
                // The service may have been known when the order was created.
                if let Some(attempt) = attempt
                    && violations.iter().any(|violation| violation.code == unknown)
                    && let Some(answered) = self.intake.peek(&attempt.claim).await?
                {
                    return self.repeated(answered, attempt, None).await;
                }
                return Err(OrderError::Rejected(Rejection {
                    violations,
                    documents: faults,
                    no_documents,
                }));
            }
        };
        let unscanned = self.intake.scan(&accepted).await?;
        let mut unused = None;
        let commit = async |documents, at| {
            self.commit(key, parsed, documents, at, attempt, &mut unused).await
        };
        match (self.intake.store(accepted, commit).await?, attempt) {
            (Ok(created), _) => Ok(CreatedOrder { unscanned, ..created }),
            (Err(WriteError::KeyInUse(key_use)), Some(attempt)) => {
                self.repeated(self.intake.answered(key_use)?, attempt, unused).await
            }
            (Err(WriteError::Duplicate { created_at }), _) => Err(OrderError::Duplicate {
                retry_after: self.window.seconds_left(created_at, self.intake.clock.now()),
            }),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Finds all violations, or makes a valid order.
    async fn parse(
        &self,
        request: OrderRequest,
        has_documents: bool,
    ) -> Result<Result<ParsedOrder, Vec<Violation>>, OrderError> {
        let service = request.signing_service_id().map(SigningServiceId);
        let parsed = request.parse_beside(has_documents);
        let (Some(services), Some(service)) = (&self.known_services, service) else {
            return Ok(parsed);
        };
        if service.0 < 1 || services.accept(service, self.intake.clock.now()).await? {
            return Ok(parsed);
        }
        let mut violations = parsed.err().unwrap_or_default();
        violations.push(Violation {
            pointer: "/signingServiceId".into(),
            code: ViolationCode::UnknownSigningService,
            detail: "must be a signing service of which the operator has a record: \
                     `services add` adds one"
                .into(),
        });
        Ok(Err(violations))
    }

    /// Creates an order. Leaves an order that was not created in `unused`.
    async fn commit(
        &self,
        key: &ApiKey,
        ParsedOrder { order, utc_disagreements }: ParsedOrder,
        documents: Vec<StoredDocument>,
        created_at: OffsetDateTime,
        attempt: Option<&Attempt>,
        unused: &mut Option<Box<Order>>,
    ) -> Result<CreatedOrder, WriteError> {
        let new = NewOrder {
            client: key.client(),
            api_key: key.id,
            order,
            documents,
            created_at,
            is_test: key.key.is_test,
            idempotent_request: self.intake.idempotent_request(attempt, created_at),
        };
        let id = match self.intake.orders.create(&new, self.window).await {
            Ok(id) => id,
            Err(error) => {
                *unused = Some(new.order);
                return Err(error);
            }
        };
        let stored = StoredOrder {
            id,
            order: new.order,
            status: OrderStatus::NEW,
            notary_id: None,
            notary: None,
            documents: new.documents,
            signed_documents: Vec::new(),
            changes: Vec::new(),
            notes: Vec::new(),
            // The answer has no names.
            names: Names::default(),
            held_until: None,
            client: new.client,
            api_key: new.api_key,
            is_test: new.is_test,
            created_at,
            updated_at: created_at,
        };
        Ok(CreatedOrder { stored, utc_disagreements, replayed: false, unscanned: 0 })
    }
}

#[cfg(test)]
#[path = "create_order_tests.rs"]
mod tests;
