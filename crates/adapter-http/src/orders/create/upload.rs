//! What the two operations with documents share: a form is received under the claim of its
//! `Idempotency-Key`, and then stored in a task of its own.

use actix_web::{HttpRequest, web};
use domain::{
    api_key::ApiKey,
    idempotency::{Answered, Attempt, Claim},
    orders::order_error::OrderError,
};
use tracing::Instrument as _;

use crate::{
    access::idempotency_key,
    body::{self, limit::BodyPermit},
    form::{self, FormSpace, Held},
    observe::trace::STEPS,
    orders::create::claim_guard::{Acquired, ClaimGuard},
    respond::problem::Problem,
    state::Api,
};

/// A form that was received to its end.
pub(crate) struct Received<F> {
    pub(crate) form: F,
    pub(crate) attempt: Option<Attempt>,
    /// What the storing holds.
    pub(crate) storing: Storing,
    /// The answer to an earlier request under the key.
    pub(crate) answered: Option<Answered>,
}

/// What a request holds until its documents are stored.
pub(crate) struct Storing {
    guard: Option<ClaimGuard>,
    permit: BodyPermit,
}

/// Receives the form of a request, when the limit of uploads permits it.
pub(crate) async fn receive<F>(
    request: &HttpRequest,
    api: &web::Data<Api>,
    key: &ApiKey,
    read: impl AsyncFnOnce(FormSpace<'_>) -> Result<F, Problem>,
    fingerprint: impl FnOnce(Claim, &F) -> Result<Attempt, Problem>,
) -> Result<Received<F>, Problem> {
    let claim = idempotency_key::claim(request, key, &*api.entropy)?;
    body::check_head(request, form::max_bytes(api.limits))?;
    let (guard, answered) = match &claim {
        Some(claim) => match ClaimGuard::acquire(api, claim).await? {
            Acquired::Claimed(guard) => (Some(guard), None),
            Acquired::Answered(answered) => (None, Some(answered)),
        },
        None => (None, None),
    };
    let space = FormSpace { spool: &api.spool, limits: api.limits, key: key.id };
    let received = async {
        let permit = api.uploads.acquire(request, key.id).await?;
        let form = read(space).instrument(tracing::info_span!(target: STEPS, "read")).await?;
        let attempt = claim.map(|claim| fingerprint(claim, &form)).transpose()?;
        Ok((form, attempt, permit))
    };
    match received.await {
        Ok((form, attempt, permit)) => {
            Ok(Received { form, attempt, storing: Storing { guard, permit }, answered })
        }
        Err(problem) => {
            release(guard).await;
            Err(problem)
        }
    }
}

/// Stores documents in a task of its own. It finishes when the client disconnects, so that no order
/// stays half stored. `note` logs and counts a success.
pub(crate) async fn store<T: Send + 'static>(
    api: &web::Data<Api>,
    Storing { guard, permit }: Storing,
    held: Held,
    work: impl Future<Output = Result<T, OrderError>> + Send + 'static,
    note: impl FnOnce(&T) + Send + 'static,
) -> Result<T, Problem> {
    let task = async move {
        let stored = work.await;
        drop((held, permit));
        match &stored {
            Ok(stored) => {
                note(stored);
                guard.into_iter().for_each(ClaimGuard::used);
            }
            // Answers the client now. Releasing the key may take another timeout, so it runs later.
            Err(OrderError::Unavailable(_)) => drop(guard),
            Err(_) => release(guard).await,
        }
        stored
    };
    match api.detached.spawn(task).await {
        Ok(stored) => stored.map_err(Into::into),
        // The panic hook has logged the panic. Its message may quote the order.
        Err(_) => Err(Problem::internal()),
    }
}

async fn release(guard: Option<ClaimGuard>) {
    if let Some(guard) = guard {
        guard.release().await;
    }
}
