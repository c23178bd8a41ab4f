//! `POST /api/order/create`: creates an order from a JSON body.

use actix_web::{HttpRequest, web};
use domain::{order::OrderRequest, use_cases::create_order::CreatedOrder};
use tracing::Instrument as _;

use crate::{
    admission::{
        authentication::admit, fingerprint::attempt, idempotency_key, preconditions::Preconditions,
        rate_limit::Policy,
    },
    body::json,
    orders::created::{self, JSON},
    request::trace::STEPS,
    respond::{
        answer::Answer,
        problem::{Problem, ProblemCode},
    },
    state::State,
};

/// Path of the operation, below the base path.
pub(crate) const PATH: &str = "/api/order/create";

pub(crate) async fn create(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let caller = admit(&request, &api.admission, Policy::Orders).await?;
    preconditions.check_creation()?;
    let claim = idempotency_key::claim(&request, &caller, &*api.entropy)?;
    let step = tracing::info_span!(target: STEPS, "read");
    let body = json::read(&request, payload, &api.json_bodies, &caller);
    let body = body.instrument(step).await.map_err(name_the_form)?;
    // Taken after the body has arrived, because a slow client must not hold a permit.
    let permit = api.concurrency.acquire_now(&request, caller.party())?;
    let task_api = api.clone();
    let task = async move {
        let _held = permit;
        let order = parse(&body)?;
        let attempt = claim.map(|claim| attempt(claim, JSON, &order, &[])).transpose()?;
        let created = task_api.create_order.create(&caller, order, None, attempt.as_ref()).await?;
        created::count(&task_api.metrics, JSON, &created);
        Ok(created)
    };
    let created = api.detached.run_to_end(task, log_unanswered).await?;
    Ok(created::response(&request, &api, JSON, &created))
}

/// Parses the body of an order.
pub(crate) fn parse(body: &[u8]) -> Result<OrderRequest, Problem> {
    json::parse(body)?.ok_or_else(|| Problem::malformed("The body must be a JSON object."))
}

/// Names the other operation to a client whose body is too large. Most such bodies have documents.
pub(crate) fn name_the_form(problem: Problem) -> Problem {
    if problem.code() == ProblemCode::PayloadTooLarge {
        problem.adding("Documents are sent with create-with-documents.")
    } else {
        problem
    }
}

/// Logs the order of a client that has disconnected before the answer.
pub(super) fn log_unanswered(outcome: Result<CreatedOrder, Problem>) {
    if let Ok(CreatedOrder { stored, replayed: false, .. }) = outcome {
        tracing::info!(
            api_key = stored.api_key.0,
            order_id = stored.id.0,
            documents = 0,
            test = stored.is_test,
            answered = false,
            "order created"
        );
    }
}

#[cfg(test)]
#[path = "create_json_tests.rs"]
mod tests;
