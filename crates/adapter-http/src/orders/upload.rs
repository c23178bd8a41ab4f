//! The steps that both operations with documents share: a form is received under the claim of its
//! `Idempotency-Key`, and then stored in a task of its own.

use std::{future::pending, mem, pin::pin};

use actix_web::{HttpRequest, web};
use domain::{
    document::DocumentLimits,
    idempotency::{Answered, Attempt},
    person::Caller,
    use_cases::order_error::OrderError,
};
use futures_util::future::{Either, select};
use tracing::Instrument as _;

use crate::{
    admission::{fingerprint::attempt, idempotency_key, limits::Share},
    body,
    form::{self, FormSpace, OrderForm, Texts},
    orders::claim_guard::ClaimGuard,
    request::trace::STEPS,
    respond::problem::{Problem, ProblemCode},
    state::State,
};

/// An operation that stores the documents of a form.
pub(crate) trait StoreForm: Send + Sync + 'static {
    /// The result that the client gets.
    type Stored: Send + 'static;

    /// Completes when the form need not be received any more; by default, never.
    fn abandoned(&self) -> impl Future<Output = OrderError> {
        pending()
    }

    /// Stores a form.
    fn store(
        &self,
        form: OrderForm,
        attempt: Option<&Attempt>,
    ) -> impl Future<Output = Result<Self::Stored, OrderError>> + Send;

    /// Returns what an earlier request under the `Idempotency-Key` has stored.
    fn repeat(
        &self,
        form: OrderForm,
        answered: Answered,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Self::Stored, OrderError>>;

    /// Logs a success, because the client may have disconnected before the answer.
    fn log(&self, stored: &Self::Stored);

    /// Counts a success.
    fn count(&self, stored: &Self::Stored);
}

/// Receives the form of a request and stores it. A repeat gets the answer to the earlier request.
pub(crate) async fn carry_out<O: StoreForm>(
    request: &HttpRequest,
    payload: web::Payload,
    api: &State,
    caller: &Caller,
    form: Form<'_>,
    operation: O,
) -> Result<O::Stored, Problem> {
    let receiving = receive(request, payload, api, caller, form);
    let received = match select(pin!(receiving), pin!(operation.abandoned())).await {
        Either::Left((received, _)) => received?,
        Either::Right((error, _)) => return Err(error.into()),
    };
    if let (Some(answered), Some(attempt)) = (received.answered, &received.attempt) {
        let repeated = operation.repeat(received.form, answered, attempt).await?;
        operation.count(&repeated);
        return Ok(repeated);
    }
    let Received { form, attempt, storing, .. } = received;
    store(api, storing, form, attempt, operation).await
}

/// A form that was received to its end.
struct Received {
    form: OrderForm,
    attempt: Option<Attempt>,
    /// The key and the permit of the storing.
    storing: Storing,
    /// The answer to an earlier request under the key.
    answered: Option<Answered>,
}

/// The key and the permit that a request has until its documents are stored.
type Storing = (Option<ClaimGuard>, Share);

/// The parts and limits of the form of an operation.
pub(crate) struct Form<'a> {
    /// The name of the operation in fingerprints.
    pub(crate) operation: &'a str,
    pub(crate) texts: Texts,
    pub(crate) limits: DocumentLimits,
}

/// Receives the form of a request, when the limit of uploads permits it.
async fn receive(
    request: &HttpRequest,
    payload: web::Payload,
    api: &State,
    caller: &Caller,
    Form { operation, texts, limits }: Form<'_>,
) -> Result<Received, Problem> {
    let claim = idempotency_key::claim(request, caller, &*api.entropy)?;
    body::check_head(request, form::max_bytes(limits))?;
    let (guard, answered) = match &claim {
        Some(claim) => ClaimGuard::acquire(api, claim).await?,
        None => (None, None),
    };
    let (spool, party) = (&api.spool, caller.party());
    let received = async {
        let permit = api.uploads.acquire(request, party).await?;
        let step = tracing::info_span!(target: STEPS, "read");
        let space = FormSpace { spool, limits, party, texts };
        let form = form::read(request, payload, space).instrument(step).await?;
        // A form may take long, and a key that was revoked meanwhile stores nothing.
        if !api.admission.keys.is_still_valid(caller).await {
            return Err(Problem::invalid_token());
        }
        let operation = match &form.replaces {
            Some(replaced) => format!("{operation} replacing {replaced}"),
            None => operation.to_owned(),
        };
        let fingerprint = |claim| attempt(claim, &operation, &form.request, &form.documents);
        let attempt = claim.map(fingerprint).transpose()?;
        Ok((form, attempt, permit))
    };
    match received.await {
        Ok((form, attempt, permit)) => {
            Ok(Received { form, attempt, storing: (guard, permit), answered })
        }
        Err(problem) => {
            ClaimGuard::release(guard).await;
            Err(problem)
        }
    }
}

/// Stores a form in a task of its own. It finishes when the client disconnects, so that no order stays
/// half stored.
async fn store<O: StoreForm>(
    api: &State,
    (guard, permit): Storing,
    mut form: OrderForm,
    attempt: Option<Attempt>,
    operation: O,
) -> Result<O::Stored, Problem> {
    let task = async move {
        // The files of the spool, until they are stored.
        let held = mem::take(&mut form.held);
        let stored = operation.store(form, attempt.as_ref()).await.map_err(Problem::from);
        drop((held, permit));
        match &stored {
            Ok(stored) => {
                operation.log(stored);
                operation.count(stored);
                guard.into_iter().for_each(ClaimGuard::used);
            }
            // Answers the client now. Releasing the key may take another timeout, so it runs later.
            Err(problem) if problem.code() == ProblemCode::Unavailable => drop(guard),
            Err(_) => ClaimGuard::release(guard).await,
        }
        stored
    };
    // The panic hook has logged a panic. Its message may quote the order.
    api.detached.spawn(task).await.unwrap_or_else(|_| Err(Problem::internal()))
}
