//! Use case: create an order, with or without documents.

use std::sync::Arc;

use crate::{
    api_key::Party,
    document::ReceivedDocument,
    duplicate_window::DuplicateWindow,
    idempotency::{Answered, Attempt},
    order::{
        Names, Order, OrderId, OrderRequest, OrderStatus, ParsedOrder, SigningServiceId,
        StoredOrder,
    },
    person::Caller,
    ports::{NewOrder, StoreError, WriteError},
    request::{Violation, ViolationCode},
    use_cases::{
        change_order::{add_immutable, other_number},
        intake::{Intake, Uploaded},
        order_error::{OrderError, Rejection},
        services::KnownServices,
    },
};

/// The terms of an order that becomes its client's newest with a file number.
#[derive(Clone, Copy)]
pub(crate) struct Newest<'a> {
    /// The file number, in the form in which file numbers are compared.
    pub(crate) file_number: &'a str,
    /// The client's newest order with it until now.
    pub(crate) after: Option<OrderId>,
}

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
    pub(crate) async fn repeated(
        &self,
        answered: Answered,
        attempt: &Attempt,
        sent: Option<Box<Order>>,
    ) -> Result<CreatedOrder, OrderError> {
        if !answered.creates_again(attempt) {
            return Err(OrderError::KeyReused);
        }
        let owner = attempt.claim.key.owner;
        let gone = || StoreError::Internal("the order of an idempotency key is gone".into());
        let found = self.intake.reader.with_documents(owner, answered.order_id).await?;
        let found = found.ok_or_else(gone)?;
        let mut stored = OrderError::unless_erased(Some(found))?.as_created();
        stored.order = sent.unwrap_or(stored.order);
        Ok(CreatedOrder { stored, utc_disagreements: Vec::new(), replayed: true, unscanned: 0 })
    }

    /// Creates an order, with some documents unless `documents` is `None`. The caller must run this to
    /// its end, even if the client has gone: dropped early, it leaves its objects to the sweeper.
    pub async fn create(
        &self,
        caller: &Caller,
        request: OrderRequest,
        documents: Option<Vec<ReceivedDocument>>,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, OrderError> {
        self.create_if(caller, request, documents, attempt, None).await
    }

    /// Creates an order like [`Self::create`], without documents. It must have the file number and become the
    /// client's newest order with it.
    ///
    /// # Errors
    /// [`OrderError::Duplicate`] also if the client has a newer order with the file number.
    pub(crate) async fn create_newest(
        &self,
        caller: &Caller,
        request: OrderRequest,
        attempt: Option<&Attempt>,
        newest: Newest<'_>,
    ) -> Result<CreatedOrder, OrderError> {
        self.create_if(caller, request, None, attempt, Some(newest)).await
    }

    async fn create_if(
        &self,
        caller: &Caller,
        request: OrderRequest,
        documents: Option<Vec<ReceivedDocument>>,
        attempt: Option<&Attempt>,
        newest: Option<Newest<'_>>,
    ) -> Result<CreatedOrder, OrderError> {
        // Checks the binding of the caller's key first, before anything else about the request.
        let service = request.signing_service_id().map(SigningServiceId);
        if service.is_some_and(|service| !caller.may_order_for(service)) {
            return Err(OrderError::Forbidden);
        }
        let (Party::Client(client), Some(api_key)) = (caller.party(), caller.creating_key()) else {
            return Err(OrderError::Forbidden);
        };
        let has_documents = documents.is_some();
        let no_documents = documents.as_ref().is_some_and(Vec::is_empty);
        let (accepted, faults) = self.intake.accept(documents.unwrap_or_default());
        let other_number = newest.and_then(|newest| other_number(&request, newest.file_number));
        let parsed = request.parse_beside(has_documents);
        let unknown = self.unknown_service(service).await?;
        let ParsedOrder { order, utc_disagreements } = match (parsed, unknown) {
            (Ok(parsed), None) if faults.is_empty() && !no_documents && other_number.is_none() => {
                parsed
            }
            (parsed, unknown) => {
                // The service may have been known when the order was created.
                if let (Some(_), Some(attempt)) = (&unknown, attempt)
                    && let Some(answered) = self.intake.peek(&attempt.claim).await?
                {
                    return self.repeated(answered, attempt, None).await;
                }
                let mut violations = parsed.err().unwrap_or_default();
                violations.extend(unknown);
                add_immutable(&mut violations, other_number);
                return Err(OrderError::Rejected(Rejection {
                    violations,
                    documents: faults,
                    no_documents,
                }));
            }
        };
        let unscanned = self.intake.scan(&accepted).await?;
        let Uploaded { documents, at: created_at } = self.intake.store(accepted).await?;
        let new = NewOrder {
            client,
            api_key,
            person: caller.person().map(|person| person.id),
            order,
            documents,
            created_at,
            is_test: caller.is_test(),
            idempotent_request: self.intake.idempotent_request(attempt, created_at),
            only_after: newest.map(|newest| newest.after),
        };
        let error = match self.intake.orders.create(&new, self.window).await {
            Ok(id) => {
                let stored = created(id, new);
                return Ok(CreatedOrder { stored, utc_disagreements, replayed: false, unscanned });
            }
            Err(error) => error,
        };
        self.intake.discard(&new.documents, &error).await;
        match (error, attempt) {
            (WriteError::KeyInUse(key_use), Some(attempt)) => {
                self.repeated(self.intake.answered(key_use)?, attempt, Some(new.order)).await
            }
            (WriteError::Duplicate { created_at }, _) => Err(OrderError::Duplicate {
                retry_after: self.window.seconds_left(created_at, self.intake.clock.now()),
            }),
            (error, _) => Err(error.into()),
        }
    }

    /// Returns the violation of a request that names a signing service without a record, if the operator
    /// has orders name known ones only.
    async fn unknown_service(
        &self,
        service: Option<SigningServiceId>,
    ) -> Result<Option<Violation>, OrderError> {
        let (Some(services), Some(service)) = (&self.known_services, service) else {
            return Ok(None);
        };
        // A number below 1 has its own violation.
        if service.0 < 1 || services.accept(service, self.intake.clock.now()).await? {
            return Ok(None);
        }
        Ok(Some(Violation {
            pointer: "/signingServiceId".into(),
            code: ViolationCode::UnknownSigningService,
            detail: "must be a signing service of which the operator has a record: \
                     `services add` adds one"
                .into(),
        }))
    }
}

/// Returns an order that was just created.
fn created(id: OrderId, new: NewOrder) -> StoredOrder {
    StoredOrder {
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
        touched_at: None,
        client: new.client,
        api_key: new.api_key,
        person: new.person,
        is_test: new.is_test,
        created_at: new.created_at,
        updated_at: new.created_at,
    }
}

#[cfg(test)]
#[path = "create_order_tests.rs"]
mod tests;
