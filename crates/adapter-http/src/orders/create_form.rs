//! `POST /api/order/create-with-documents`: creates an order from a multipart form.

use std::{sync::Arc, time::Duration};

use actix_web::{HttpRequest, web};
use domain::{
    api_key::ApiKey,
    create_order::{CreateOrderError, CreatedOrder},
    idempotency::{Attempt, Claim},
};

use tokio::sync::OwnedSemaphorePermit;

use crate::{
    answer::{Response, answer},
    authentication::admit,
    body,
    fingerprint::attempt,
    form::{self, FormSpace, OrderForm},
    idempotency_key,
    orders::{
        claim_guard::{Acquired, ClaimGuard},
        created::{self, Operation},
    },
    problem::Problem,
    rate_limit::Policy,
    state::Api,
};

/// Path of the operation, below the base path.
pub(crate) const PATH: &str = "/api/order/create-with-documents";
/// Longest wait for a permit to store an order with documents. Other orders are stored in less.
const PERMIT_WAIT: Duration = Duration::from_secs(5);

pub(crate) fn create(request: HttpRequest, payload: web::Payload, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::OrdersWithDocuments).await?;
        let claim = idempotency_key::claim(request, &key, &*api.entropy)?;
        body::check_head(request, form::max_bytes(api.limits))?;
        let (guard, answered) = match &claim {
            Some(claim) => match ClaimGuard::acquire(&api, claim).await? {
                Acquired::Claimed(guard) => (Some(guard), None),
                Acquired::Answered(answered) => (None, Some(answered)),
            },
            None => (None, None),
        };
        let (form, attempt, permit) = match read(request, payload, &api, &key, claim).await {
            Ok(read) => read,
            Err(problem) => {
                release(guard).await;
                return Err(problem);
            }
        };
        let created = match (answered, &attempt) {
            (Some(answered), Some(attempt)) => {
                let repeated = api.create_order.repeat(answered, attempt).await?;
                created::count(&api.metrics, Operation::Form, &repeated);
                repeated
            }
            _ => create_detached(&api, key, form, attempt, guard, permit).await?,
        };
        Ok(created::response(request, Operation::Form, &created))
    })
}

/// Reads the form, and gets a permit to store it. A slow client must not hold a permit.
async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    api: &Api,
    key: &ApiKey,
    claim: Option<Claim>,
) -> Result<(OrderForm, Option<Attempt>, OwnedSemaphorePermit), Problem> {
    let space =
        FormSpace { spool: &api.spool, limits: api.limits, memory: &api.body_memory, key: key.id };
    let form = form::read(request, payload, space).await?;
    let attempt = claim
        .map(|claim| attempt(claim, Operation::Form.as_str(), &form.request, &form.documents))
        .transpose()?;
    let permit = api.uploads.acquire_within(PERMIT_WAIT, request).await?;
    Ok((form, attempt, permit))
}

/// Creates the order in a task of its own. It finishes when the client disconnects, so that no
/// order stays half created.
async fn create_detached(
    api: &web::Data<Api>,
    key: Arc<ApiKey>,
    form: OrderForm,
    attempt: Option<Attempt>,
    guard: Option<ClaimGuard>,
    permit: OwnedSemaphorePermit,
) -> Result<CreatedOrder, Problem> {
    let task_api = api.clone();
    let task = async move {
        let OrderForm { request, documents, guards, memory } = form;
        let create =
            task_api.create_order.create_with_documents(&key, request, documents, attempt.as_ref());
        let created = create.await;
        drop((guards, memory, permit));
        match &created {
            Ok(created) => {
                log(created);
                created::count(&task_api.metrics, Operation::Form, created);
                guard.into_iter().for_each(ClaimGuard::used);
            }
            // Answers the client now. Releasing the key may take another timeout, so it runs later.
            Err(CreateOrderError::Unavailable(_)) => drop(guard),
            Err(_) => release(guard).await,
        }
        created
    };
    match api.detached.spawn(task).await {
        Ok(created) => Ok(created?),
        // The panic hook has logged the panic. Its message may quote the order.
        Err(_) => Err(Problem::internal()),
    }
}

/// Logs the order here, because the client may have disconnected before the answer.
fn log(CreatedOrder { stored, replayed, .. }: &CreatedOrder) {
    tracing::info!(
        order_id = stored.id.0,
        documents = stored.documents.len(),
        test = stored.is_test,
        replayed,
        "order with documents stored"
    );
}

async fn release(guard: Option<ClaimGuard>) {
    if let Some(guard) = guard {
        guard.release().await;
    }
}

#[cfg(test)]
#[path = "create_form_tests.rs"]
mod tests;
