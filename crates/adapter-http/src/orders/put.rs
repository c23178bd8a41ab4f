//! `PUT /api/order?file_number=`: the client changes its newest order with a file number, or creates one.

use std::sync::Arc;

use actix_web::{HttpRequest, web};
use domain::{
    order::FileNumber,
    use_cases::put_order::{Put, PutOrder, PutOutcome},
};

use crate::{
    admission::{
        audit::Audit,
        fingerprint::attempt,
        idempotency_key::{self, IDEMPOTENCY_REPLAYED},
        preconditions::Preconditions,
        rate_limit::Policy,
    },
    body::json,
    orders::{
        change, create_json,
        created::{self, JSON},
        record::OrderRecord,
        version,
    },
    request::{metrics::ApiMetrics, notes::note},
    respond::{answer::Answer, list::Parameters, problem::Problem},
    state::State,
};

pub(crate) async fn put(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Orders).await?;
    let caller = Arc::clone(admitted.caller());
    let searched = |text: &str| FileNumber::searched(text.to_owned());
    let file_number = Parameters::only(request.query_string(), "file_number", searched)?;
    let claim = idempotency_key::claim(&request, &caller, &*api.entropy)?;
    let body = json::read(&request, payload, &api.json_bodies, &caller).await;
    let body = body.map_err(create_json::name_the_form)?;
    api.answers.hold(&request, caller.party()).await?;
    // Taken after the body has arrived, because a slow client must not hold a permit.
    let permit = api.concurrency.acquire_now(&request, caller.party())?;
    let change = api.change_order.by(&admitted).clone();
    let putting = PutOrder { create: api.create_order.clone(), change };
    let precondition = version::of_order(&preconditions);
    let may_create = preconditions.check_creation().is_ok();
    let (changer, task_api) = (admitted.changer(), api.clone());
    let task = async move {
        let _held = permit;
        let order = create_json::parse(&body)?;
        // It must not change: stored fingerprints contain it.
        let operation = format!("put {file_number}");
        let attempt = claim.map(|claim| attempt(claim, &operation, &order, &[])).transpose()?;
        let put = Put { file_number, request: order, precondition, may_create };
        let outcome = putting.put(&caller, changer, put, attempt.as_ref()).await?;
        count(&task_api.metrics, &outcome);
        Ok(outcome)
    };
    match api.detached.run_to_end(task, log_unanswered).await? {
        PutOutcome::Created(created) => Ok(created::response(&request, &api, JSON, &created)),
        PutOutcome::Changed { order, replayed, .. } => {
            note(&request, |notes| notes.order = Some(order.stored.id));
            let messages = ["order changed", "order changed before, answered again"];
            let (now, message) = (api.clock.now(), messages[usize::from(replayed)]);
            let mut answer = change::begin(&request, &order, message, now);
            if replayed {
                answer.insert_header((IDEMPOTENCY_REPLAYED, "true"));
            }
            Ok(answer.json(OrderRecord::listed(&order, now)))
        }
    }
}

fn count(metrics: &ApiMetrics, outcome: &PutOutcome) {
    match outcome {
        PutOutcome::Created(created) => created::count(metrics, JSON, created),
        PutOutcome::Changed { replayed: true, .. } => metrics.replays.inc(),
        PutOutcome::Changed { order, utc_disagreements, .. } => {
            created::warn(metrics, order.stored.id, utc_disagreements);
        }
    }
}

/// Logs the order of a client that has disconnected before the answer.
fn log_unanswered(outcome: Result<PutOutcome, Problem>) {
    if let Ok(PutOutcome::Created(created)) = outcome {
        create_json::log_unanswered(Ok(*created));
    }
}

#[cfg(test)]
#[path = "put_tests.rs"]
mod tests;
