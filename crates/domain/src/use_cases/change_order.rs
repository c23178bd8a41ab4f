//! Use case: change an order, its status or its notary, or cancel it.

use std::sync::Arc;

use time::OffsetDateTime;

use crate::{
    api_key::{Owner, Party},
    idempotency::IdempotentRequest,
    order::{
        Actor, FileNumber, Order, OrderBefore, OrderCommand, OrderId, OrderRequest, OrderStatus,
        ParsedOrder, Refusal, SigningServiceId,
        change::{Amendment, NewReason},
        change_request::{CancelRequest, ChangeRequest},
    },
    person::Caller,
    ports::{
        Changed, Clock, ListedOrder, OrderCommandRequest, OrderReader, OrderRepo, OrderUpdate,
        WriteError,
    },
    precondition::{OrderPrecondition, Versions},
    request::{Violation, ViolationCode},
    use_cases::{accesses::recorder::BegunAccess, order_error::OrderError},
};

/// Changes orders.
#[derive(Clone)]
pub struct ChangeOrder {
    /// Stores orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Reads orders.
    pub reader: Arc<dyn OrderReader>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// The side that asks for a change.
#[derive(Clone)]
pub struct Changer {
    /// An owner of the order.
    pub owner: Owner,
    /// The side.
    pub actor: Actor,
    /// The signing service to whose orders a key is limited.
    pub only_service: Option<SigningServiceId>,
    /// The access that changes the order.
    pub access: Option<BegunAccess>,
}

impl Changer {
    /// Returns the side of a caller, without an access.
    pub fn of(caller: &Caller) -> Self {
        let actor = match caller.party() {
            Party::Client(_) => Actor::Client,
            Party::Service(_) => Actor::Service,
        };
        let only_service = caller.signing_service();
        Self { owner: caller.owner(), actor, only_service, access: None }
    }

    /// Returns the order, if this side may change it.
    pub(crate) async fn find(
        &self,
        reader: &dyn OrderReader,
        id: OrderId,
    ) -> Result<ListedOrder, OrderError> {
        let found = OrderError::unless_erased(reader.listed(self.owner, id).await?)?;
        let service = found.stored.order.signing_service_id;
        if self.only_service.is_some_and(|only| only != service) {
            return Err(OrderError::Forbidden);
        }
        Ok(found)
    }
}

impl ChangeOrder {
    /// Sets the status and the notary of an order, and returns it. A reason why the documents are not signed may be
    /// given later, or another one. A request that changes nothing leaves no trace.
    ///
    /// # Errors
    /// - [`OrderError::Changed`]: the precondition is false.
    /// - [`OrderError::Cancelled`]: a cancelled order does not change.
    /// - [`OrderError::Closed`]: a signed or completed order cannot be cancelled.
    pub async fn change(
        &self,
        changer: Changer,
        id: OrderId,
        request: &ChangeRequest,
        precondition: &OrderPrecondition,
    ) -> Result<ListedOrder, OrderError> {
        let ChangeRequest { status, notary_id, notary, reason } = request.clone();
        let expected = self.expected(&changer, id, precondition).await?;
        let update = self.update(&changer, id, expected);
        let update = OrderUpdate { status, notary_id, notary, reason, ..update };
        if let Some(changed) = self.store(&update).await? {
            return Ok(changed);
        }
        let found = changer.find(&*self.reader, id).await?;
        let before = OrderBefore::of(&found.stored);
        match (request.decide(&before, precondition), &request.reason) {
            (Ok(false), Some(reason)) if is_to(request, &OrderStatus::DID_NOT_SIGN) => {
                let command = OrderCommand::GiveReason(NewReason {
                    actor: changer.actor,
                    reason: reason.clone(),
                    precondition: precondition.clone(),
                });
                self.give_reason(&changer, id, command).await
            }
            (decision, _) => unchanged(found, decision),
        }
    }

    /// Stores why the documents of an order are not signed, unless it has this reason. Returns the order.
    async fn give_reason(
        &self,
        changer: &Changer,
        id: OrderId,
        command: OrderCommand,
    ) -> Result<ListedOrder, OrderError> {
        let request = OrderCommandRequest {
            owner: Some(changer.owner),
            order: id,
            command,
            at: self.clock.now(),
            idempotent_request: None,
            access: changer.access.as_ref().map(BegunAccess::done),
        };
        match self.orders.change(&request).await? {
            Changed::ReasonGiven => {}
            other => return Err(other.unexpected().into()),
        }
        let found = changer.find(&*self.reader, id).await?;
        if found.stored.status == OrderStatus::DID_NOT_SIGN {
            Ok(found)
        } else {
            Err(OrderError::contended())
        }
    }

    /// Replaces what the client has said of an order, and returns it with the names of the `utc…` fields
    /// that disagree with the service's own conversion. A request that changes nothing leaves no trace.
    ///
    /// # Errors
    /// - [`OrderError::Rejected`]: all violations, also another file number or signing service.
    /// - [`OrderError::Changed`]: the precondition is false.
    /// - [`OrderError::Cancelled`]: a cancelled order does not change.
    /// - [`OrderError::Over`]: after the appointment, the client does not change the order.
    pub async fn amend(
        &self,
        changer: Changer,
        id: OrderId,
        request: OrderRequest,
        precondition: OrderPrecondition,
    ) -> Result<(ListedOrder, Vec<&'static str>), OrderError> {
        let ParsedOrder { order, utc_disagreements } =
            self.amended_order(&changer, id, request).await?;
        let amendment = Amendment { precondition, order, only_open: false };
        let at = self.clock.now();
        Ok((self.store_amendment(&changer, id, amendment, at, None).await?, utc_disagreements))
    }

    /// Returns an order as a request of its client wants it to be.
    pub(crate) async fn amended_order(
        &self,
        changer: &Changer,
        id: OrderId,
        request: OrderRequest,
    ) -> Result<ParsedOrder, OrderError> {
        let found = changer.find(&*self.reader, id).await?;
        let immutable = immutable(&request, &found.stored.order);
        match request.parse() {
            Ok(mut parsed) if immutable.is_empty() => {
                // A form that looks equal is no change.
                parsed.order.file_number = found.stored.order.file_number.clone();
                Ok(parsed)
            }
            parsed => {
                let mut violations = parsed.err().unwrap_or_default();
                add_immutable(&mut violations, immutable);
                Err(OrderError::rejected(violations))
            }
        }
    }

    /// Stores an amendment, and returns the order, changed or not.
    pub(crate) async fn store_amendment(
        &self,
        changer: &Changer,
        id: OrderId,
        amendment: Amendment,
        at: OffsetDateTime,
        idempotent_request: Option<IdempotentRequest>,
    ) -> Result<ListedOrder, WriteError> {
        let request = OrderCommandRequest {
            owner: Some(changer.owner),
            order: id,
            command: OrderCommand::Amend(amendment),
            at,
            idempotent_request,
            access: changer.access.as_ref().map(BegunAccess::done),
        };
        match self.orders.change(&request).await? {
            Changed::Amended(amended) => Ok(*amended),
            other => Err(other.unexpected()),
        }
    }

    /// Cancels an order, and returns it. Cancelling it again changes nothing, whatever the client has
    /// seen.
    ///
    /// # Errors
    /// - [`OrderError::Changed`]: the precondition is false.
    /// - [`OrderError::Closed`]: a signed or completed order cannot be cancelled.
    pub async fn cancel(
        &self,
        changer: Changer,
        id: OrderId,
        request: &CancelRequest,
        precondition: &OrderPrecondition,
    ) -> Result<ListedOrder, OrderError> {
        let (status, reason) = (Some(OrderStatus::CANCELLED), request.reason.clone());
        let expected = self.expected(&changer, id, precondition).await?;
        let update = self.update(&changer, id, expected);
        let update = OrderUpdate { status, reason, ..update };
        if let Some(cancelled) = self.store(&update).await? {
            return Ok(cancelled);
        }
        let found = changer.find(&*self.reader, id).await?;
        let before = OrderBefore::of(&found.stored);
        unchanged(found, CancelRequest::decide(&before, precondition))
    }

    /// Returns the versions that the statement may change; `None` for any. The statement knows only versions that
    /// are expected. So other preconditions are compared with the version of now, which it then expects.
    async fn expected(
        &self,
        changer: &Changer,
        id: OrderId,
        precondition: &OrderPrecondition,
    ) -> Result<Option<Vec<OffsetDateTime>>, OrderError> {
        match &precondition.expected {
            Versions::Any if precondition.only_expects() => Ok(None),
            Versions::These(versions) if precondition.only_expects() => Ok(Some(versions.clone())),
            _ => {
                let found = changer.find(&*self.reader, id).await?.stored;
                let is_true = precondition.is_true_of(&found.updated_at, found.updated_at);
                Ok(Some(Vec::from_iter(is_true.then_some(found.updated_at))))
            }
        }
    }

    /// Returns a change of nothing.
    fn update(
        &self,
        changer: &Changer,
        id: OrderId,
        expected: Option<Vec<OffsetDateTime>>,
    ) -> OrderUpdate {
        OrderUpdate {
            owner: changer.owner,
            only_service: changer.only_service,
            id,
            expected,
            status: None,
            notary_id: None,
            notary: None,
            at: self.clock.now(),
            actor: changer.actor,
            reason: None,
            access: changer.access.as_ref().map(BegunAccess::done),
        }
    }

    /// Returns the changed order; `None` if nothing was changed.
    async fn store(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, OrderError> {
        if (&update.status, update.notary_id, &update.notary) == (&None, None, &None) {
            return Ok(None);
        }
        Ok(self.orders.update(update).await?)
    }
}

/// Returns the fields of a request that must be those of the order, and are not.
fn immutable(request: &OrderRequest, order: &Order) -> Vec<Violation> {
    let detail = "must be that of the order";
    let is_other = |id| id != order.signing_service_id.0;
    let other_service = request.signing_service_id().is_some_and(is_other);
    let other_service = other_service.then(|| immutable_field("/signingServiceId", detail));
    let is_other = |number: &str| !order.file_number.is_same_as(number);
    let other_number = request.file_number().is_some_and(is_other);
    let other_number = other_number.then(|| immutable_field(FILE_NUMBER, detail));
    other_number.into_iter().chain(other_service).collect()
}

const FILE_NUMBER: &str = "/signingDetailsFormData/fileNumber";

/// Returns the violation of a request whose file number is not that of its URL, which is in the form in which
/// file numbers are compared.
pub(super) fn other_number(request: &OrderRequest, of_url: &str) -> Option<Violation> {
    let is_other = request.file_number().is_some_and(|sent| FileNumber::comparable(sent) != of_url);
    is_other.then(|| immutable_field(FILE_NUMBER, "must be that of the URL"))
}

fn immutable_field(pointer: &'static str, detail: &'static str) -> Violation {
    let code = ViolationCode::Immutable;
    Violation { pointer: pointer.into(), code, detail: detail.into() }
}

/// Adds the violations of fields that must stay. One that breaks its rule has its violation already.
pub(super) fn add_immutable(
    violations: &mut Vec<Violation>,
    immutable: impl IntoIterator<Item = Violation>,
) {
    for violation in immutable {
        if violations.iter().all(|other| other.pointer != violation.pointer) {
            violations.push(violation);
        }
    }
}

/// Returns whether a request sets a status.
fn is_to(request: &ChangeRequest, status: &OrderStatus) -> bool {
    request.status.as_ref() == Some(status)
}

/// Returns the outcome of a change that was not stored. If the rules permit it now, another request has
/// changed the order meanwhile.
fn unchanged(
    found: ListedOrder,
    decision: Result<bool, Refusal>,
) -> Result<ListedOrder, OrderError> {
    if decision? { Err(OrderError::contended()) } else { Ok(found) }
}

#[cfg(test)]
#[path = "change_order_tests.rs"]
mod tests;
