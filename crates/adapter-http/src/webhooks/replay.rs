//! `POST /api/webhooks/{webhook_id}/test`, `…/deliveries/{delivery_id}/replay` and `…/replay`: make
//! deliveries of a webhook due now.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::{
    order::{Violation, ViolationCode},
    ports::error_chain,
    webhook::{
        EndpointOwner,
        manage_webhooks::{ReplayRange, WebhooksError},
    },
};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    body::json,
    observe::request_notes::WebhookNote,
    respond::{
        answer::{Response, answer},
        instants,
    },
    state::Api,
    webhooks::{
        endpoint::find,
        path,
        problems::{invalid, replay_in_progress},
        record::AcceptedRecord,
    },
};

pub(crate) fn test(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let (owner, id) = find(request, &api).await?;
        let delivery = api.webhooks.test(owner, id).await?;
        WebhookNote { id, message: "webhook test accepted" }.leave(request);
        Ok(HttpResponse::Accepted().json(AcceptedRecord::new(delivery)))
    })
}

pub(crate) fn replay_delivery(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let (owner, id) = find(request, &api).await?;
        let delivery = path::delivery_id(request)?;
        api.webhooks.replay_delivery(owner, id, delivery).await?;
        WebhookNote { id, message: "webhook replay accepted" }.leave(request);
        Ok(HttpResponse::Accepted().json(AcceptedRecord::new(delivery)))
    })
}

pub(crate) fn replay(request: HttpRequest, payload: web::Payload, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Webhooks).await?;
        let id = path::webhook_id(request)?;
        let body = json::read_object(request, payload, &api.json_bodies, key.id).await?;
        let range = parse(&body).map_err(invalid)?;
        let owner = EndpointOwner::of(&key);
        // Before the mark, which would show whether others have such a webhook.
        api.webhooks.read(owner, id).await?;
        // A replay may change many rows, so a client must not cause any number of them at a time.
        let in_progress = api.replays.begin(&id).ok_or_else(replay_in_progress)?;
        let task_api = api.clone();
        let task = async move {
            let _held = in_progress;
            task_api.webhooks.replay(owner, id, range).await
        };
        // A client that goes away must not leave a replay half done.
        api.detached.run_to_end(task, log_unanswered).await?;
        WebhookNote { id, message: "webhook replay accepted" }.leave(request);
        Ok(HttpResponse::Accepted().finish())
    })
}

/// Logs a replay that failed after its client had disconnected.
fn log_unanswered(outcome: Result<(), WebhooksError>) {
    if let Err(WebhooksError::Store(error)) = outcome {
        tracing::error!(error = error_chain(&error), "replay failed");
    }
}

/// Reads the time of a replay. Unknown members are ignored.
fn parse(body: &Map<String, Value>) -> Result<ReplayRange, Vec<Violation>> {
    let mut violations = Vec::new();
    let mut report = |pointer: &'static str, code, detail: &'static str| {
        violations.push(Violation { pointer: pointer.into(), code, detail: detail.into() });
    };
    let mut instant = |name: &str, pointer| match body.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => {
            let instant = instants::parse(text.trim());
            if instant.is_none() {
                let detail = "must be an RFC 3339 datetime, such as 2026-12-01T20:30:00Z";
                report(pointer, ViolationCode::InvalidFormat, detail);
            }
            Some(instant)
        }
        Some(_) => {
            report(pointer, ViolationCode::WrongType, "must be a string");
            Some(None)
        }
    };
    let (since, until) = (instant("since", "/since"), instant("until", "/until"));
    if since.is_none() {
        report("/since", ViolationCode::Required, "is required");
    }
    let (since, until): (Option<OffsetDateTime>, _) = (since.flatten(), until.flatten());
    if since.zip(until).is_some_and(|(since, until)| until <= since) {
        report("/until", ViolationCode::EndNotAfterStart, "must be after since");
    }
    match since {
        Some(since) if violations.is_empty() => Ok(ReplayRange { since, until }),
        _ => Err(violations),
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
