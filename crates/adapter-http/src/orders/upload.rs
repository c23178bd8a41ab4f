//! The steps that both operations with documents share: a form is received under the claim of its
//! `Idempotency-Key`, and then stored in a task of its own.

use actix_web::{HttpRequest, web};
use domain::{
    api_key::ApiKey,
    document::DocumentLimits,
    idempotency::{Answered, Attempt},
};
use tracing::Instrument as _;

use crate::{
    admission::{fingerprint::attempt, idempotency_key, limits::Share},
    body,
    form::{self, FormSpace, OrderForm, SpoolGuard, Texts},
    orders::claim_guard::ClaimGuard,
    request::trace::STEPS,
    respond::problem::{Problem, ProblemCode},
    state::State,
};

/// A form that was received to its end.
pub(crate) struct Received {
    pub(crate) form: OrderForm,
    pub(crate) attempt: Option<Attempt>,
    /// The key and the permit of the storing.
    pub(crate) storing: Storing,
    /// The answer to an earlier request under the key.
    pub(crate) answered: Option<Answered>,
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
pub(crate) async fn receive(
    request: &HttpRequest,
    payload: web::Payload,
    api: &State,
    key: &ApiKey,
    Form { operation, texts, limits }: Form<'_>,
) -> Result<Received, Problem> {
    let claim = idempotency_key::claim(request, key, &*api.entropy)?;
    body::check_head(request, form::max_bytes(limits))?;
    let (guard, answered) = match &claim {
        Some(claim) => ClaimGuard::acquire(api, claim).await?,
        None => (None, None),
    };
    let (spool, client) = (&api.spool, key.client());
    let received = async {
        let permit = api.uploads.acquire(request, client).await?;
        let step = tracing::info_span!(target: STEPS, "read");
        let space = FormSpace { spool, limits, client, texts };
        let form = form::read(request, payload, space).instrument(step).await?;
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

/// Stores documents in a task of its own. It finishes when the client disconnects, so that no order
/// stays half stored. `note` logs and counts a success.
pub(crate) async fn store<T: Send + 'static, E: Into<Problem> + 'static>(
    api: &State,
    (guard, permit): Storing,
    held: Vec<SpoolGuard>,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
    note: impl FnOnce(&T) + Send + 'static,
) -> Result<T, Problem> {
    let task = async move {
        let stored: Result<T, Problem> = work.await.map_err(Into::into);
        drop((held, permit));
        match &stored {
            Ok(stored) => {
                note(stored);
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
