//! Use case: change the client's newest order with a file number, or create one.

use time::OffsetDateTime;

use crate::{
    api_key::Owner,
    idempotency::{Answered, Attempt},
    order::{
        OrderChange, OrderId, OrderRequest, ParsedOrder, READ_HISTORY, Refusal, StoredOrder,
        Upsert, change::Amendment,
    },
    person::Caller,
    ports::{Cursor, HistoryQuery, ListedOrder, WriteError},
    precondition::OrderPrecondition,
    use_cases::{
        accesses::recorder::BegunAccess,
        change_order::{ChangeOrder, Changer},
        create_order::{CreateOrder, CreatedOrder, Newest},
        order_error::OrderError,
    },
};

/// How often a request looks for the newest order, if others create or close orders with the file number at the
/// same time.
const ATTEMPTS: usize = 10;

/// Changes or creates orders by their file numbers.
#[derive(Clone)]
pub struct PutOrder {
    /// Creates orders.
    pub create: CreateOrder,
    /// Changes orders.
    pub change: ChangeOrder,
}

/// A request to change or to create an order.
#[derive(Clone)]
pub struct Put {
    /// The file number, in the form in which file numbers are compared.
    pub file_number: String,
    /// The order.
    pub request: OrderRequest,
    /// The versions of an order that may be changed.
    pub precondition: OrderPrecondition,
    /// Whether an order may be created: the request expects no version of one.
    pub may_create: bool,
}

/// The outcome of a successful request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// The request, or the one that it repeats, has created the order.
    Created(Box<CreatedOrder>),
    /// The request, or the one that it repeats, has changed the order, or found it so.
    Changed {
        /// The order.
        order: Box<ListedOrder>,
        /// Names of the `utc…` fields that disagree with the service's own conversion. The conversion
        /// is stored.
        utc_disagreements: Vec<&'static str>,
        /// Whether an earlier request with the same idempotency key changed it.
        replayed: bool,
    },
}

impl PutOrder {
    /// Changes the client's newest order with the file number, or creates one. Of concurrent calls, one creates
    /// the order, and the others change it. A repeat gets the answer to the first request, whatever happened
    /// since.
    ///
    /// # Errors
    /// Those of [`CreateOrder::create`] and [`ChangeOrder::amend`], and [`OrderError::NothingToChange`].
    pub async fn put(
        &self,
        caller: &Caller,
        changer: Changer,
        put: Put,
        attempt: Option<&Attempt>,
    ) -> Result<PutOutcome, OrderError> {
        let request = put.request.or_file_number(&put.file_number);
        let put = Put { request, ..put };
        let outcome = match self.carry_out(caller, &changer, &put, attempt).await {
            // The request may have been right when it was first sent.
            Err(error) if is_final(&error) => match self.answered(attempt).await? {
                Some((answered, attempt)) => self.repeated(answered, attempt, &put.request).await,
                None => Err(error),
            },
            outcome => outcome,
        };
        if let Some(access) = &changer.access {
            note(access, &outcome);
        }
        outcome
    }

    async fn carry_out(
        &self,
        caller: &Caller,
        changer: &Changer,
        put: &Put,
        attempt: Option<&Attempt>,
    ) -> Result<PutOutcome, OrderError> {
        let mut barred: Option<(Upsert, OrderError)> = None;
        for _ in 0..ATTEMPTS {
            let upsert = self.decide(changer.owner, &put.file_number).await?;
            // The client has no newer order, so another client's bars the file number.
            if let Some((before, error)) = barred.take()
                && before == upsert
            {
                return Err(error);
            }
            match upsert {
                Upsert::Change(id) => {
                    if let Some(outcome) = self.change_newest(changer, id, put, attempt).await? {
                        return Ok(outcome);
                    }
                }
                Upsert::Create { .. } if !put.may_create => {
                    return Err(OrderError::NothingToChange);
                }
                Upsert::Create { after } => {
                    let newest = Newest { file_number: &put.file_number, after };
                    let request = put.request.clone();
                    match self.create.create_newest(caller, request, attempt, newest).await {
                        // Another request of the client may have created an order meanwhile.
                        Err(error @ OrderError::Duplicate { .. }) => barred = Some((upsert, error)),
                        created => return created.map(Box::new).map(PutOutcome::Created),
                    }
                }
            }
        }
        Err(OrderError::contended())
    }

    async fn decide(&self, owner: Owner, file_number: &str) -> Result<Upsert, OrderError> {
        let newest = self.change.reader.newest(owner, file_number).await?;
        Ok(Upsert::decide(newest.as_ref().map(|(id, status)| (*id, status))))
    }

    /// Changes an order. Returns `None` if it takes no changes any more.
    async fn change_newest(
        &self,
        changer: &Changer,
        id: OrderId,
        put: &Put,
        attempt: Option<&Attempt>,
    ) -> Result<Option<PutOutcome>, OrderError> {
        if let Some(access) = &changer.access {
            access.uses(id);
        }
        let parsed = match self.change.amended_order(changer, id, put.request.clone()).await {
            Err(OrderError::Erased | OrderError::NoSuchOrder) => return Ok(None),
            parsed => parsed?,
        };
        let ParsedOrder { order, utc_disagreements } = parsed;
        let precondition = put.precondition.clone();
        let amendment = Amendment { precondition, order, only_open: true };
        let at = self.change.clock.now();
        let request = self.create.intake.idempotent_request(attempt, at);
        let stored = self.change.store_amendment(changer, id, amendment, at, request).await;
        match (stored, attempt) {
            (Ok(order), _) => {
                let order = Box::new(order);
                Ok(Some(PutOutcome::Changed { order, utc_disagreements, replayed: false }))
            }
            (Err(WriteError::KeyInUse(key_use)), Some(attempt)) => {
                let answered = self.create.intake.answered(key_use)?;
                self.repeated(answered, attempt, &put.request).await.map(Some)
            }
            (
                Err(WriteError::Refused(
                    Refusal::NoSuchOrder | Refusal::Erased | Refusal::Cancelled | Refusal::Over,
                )),
                _,
            ) => Ok(None),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Returns the request that was answered under the idempotency key of an attempt.
    async fn answered<'a>(
        &self,
        attempt: Option<&'a Attempt>,
    ) -> Result<Option<(Answered, &'a Attempt)>, OrderError> {
        let Some(attempt) = attempt else { return Ok(None) };
        let answered = self.create.intake.peek(&attempt.claim).await?;
        Ok(answered.map(|answered| (answered, attempt)))
    }

    /// Returns the answer to the request that was answered under the idempotency key of an attempt. Fails if this
    /// request differs from it.
    async fn repeated(
        &self,
        answered: Answered,
        attempt: &Attempt,
        request: &OrderRequest,
    ) -> Result<PutOutcome, OrderError> {
        let sent = request.clone().parse().ok().map(|parsed| parsed.order);
        let is_repeat = answered.fingerprint == attempt.fingerprint;
        let Some(at) = answered.changed_at.filter(|_| is_repeat) else {
            let created = self.create.repeated(answered, attempt, sent).await;
            return created.map(Box::new).map(PutOutcome::Created);
        };
        let (reader, owner) = (&self.change.reader, attempt.claim.key.owner);
        let found = reader.with_documents(owner, answered.order_id).await?;
        let found = OrderError::unless_erased(found)?;
        let change = self.change_at(owner, found.id, at).await?;
        let mut order = as_of(found, &change, at);
        if let Some(mut sent) = sent {
            // As it was stored: the client may write it otherwise.
            sent.file_number = order.stored.order.file_number.clone();
            order.stored.order = sent;
        }
        let (order, utc_disagreements) = (Box::new(order), Vec::new());
        Ok(PutOutcome::Changed { order, utc_disagreements, replayed: true })
    }

    /// Returns the newest entry of the history of an order at an instant, however many came later.
    async fn change_at(
        &self,
        owner: Owner,
        id: OrderId,
        at: OffsetDateTime,
    ) -> Result<OrderChange, OrderError> {
        let mut query = HistoryQuery { limit: READ_HISTORY, cursor: Cursor::Newest };
        loop {
            let page = self.change.reader.history(owner, id, &query).await?;
            let page = OrderError::unless_erased(page)?.ok_or_else(OrderError::contended)?;
            let oldest = page.items.last().map(|entry| entry.id);
            if let Some(entry) = page.items.into_iter().find(|entry| entry.change.at <= at) {
                return Ok(entry.change);
            }
            // The oldest entry is the creation, which is not later than a change.
            let oldest = oldest.filter(|_| page.has_older).ok_or_else(OrderError::contended)?;
            query.cursor = Cursor::OlderThan(oldest);
        }
    }
}

/// Returns whether a request fails for what it asks for. Others may succeed when they are repeated.
fn is_final(error: &OrderError) -> bool {
    !matches!(error, OrderError::Forbidden | OrderError::InProgress { .. } | OrderError::Store(_))
}

/// Notes the order of a request in its access.
fn note(access: &BegunAccess, outcome: &Result<PutOutcome, OrderError>) {
    match outcome {
        Ok(PutOutcome::Created(created)) => access.creates(created.stored.id),
        Ok(PutOutcome::Changed { order, .. }) => access.uses(order.stored.id),
        Err(_) => {}
    }
}

/// Returns the order as it was at the instant of its version, but for the client's data. The newest entry of its history
/// then tells the status, and who the notary was only by number. A document that was withdrawn since does not count.
fn as_of(mut order: StoredOrder, change: &OrderChange, at: OffsetDateTime) -> ListedOrder {
    if change.notary_id != order.notary_id {
        order.notary = None;
    }
    (order.status, order.notary_id) = (change.status.clone(), change.notary_id);
    order.documents.retain(|document| document.created_at <= at);
    order.signed_documents.retain(|document| document.created_at <= at);
    order.updated_at = at;
    order.into()
}

#[cfg(test)]
#[path = "put_order_tests.rs"]
mod tests;
