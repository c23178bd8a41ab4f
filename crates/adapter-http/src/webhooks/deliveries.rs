//! `GET /api/webhooks/{webhook_id}/deliveries`: the deliveries of a webhook. `POST …/test`,
//! `…/deliveries/{delivery_id}/replay` and `…/replay` make some due now.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::{
    ports::{DeliveryPageQuery, error_chain},
    request::{
        Object, Sent, Violation, ViolationCode, Word,
        rules::{Checked, fault, nullable, required, unknown_members, violations},
    },
    use_cases::webhooks::manage_webhooks::WebhooksError,
    webhook::WebhookDeliveryId,
};
use garde::Validate;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{
    admission::{authentication::admit, preconditions::Preconditions, rate_limit::Policy},
    body::json::read_object,
    respond::{
        answer::Answer,
        instants,
        list::{self, Others, Paging},
        problem::Problem,
    },
    state::State,
    webhooks::{
        endpoint::{find, find_without_members, note_webhook},
        path,
        problems::replay_in_progress,
        record::DeliveryRecord,
        version,
    },
};

pub(crate) async fn list(request: HttpRequest, api: State) -> Answer {
    let (owner, id) = find(&request, &api).await?;
    let paging = Paging::parse(request.query_string())?;
    let query = DeliveryPageQuery { limit: paging.limit, cursor: paging.cursor(WebhookDeliveryId) };
    let (endpoint, page) = match api.webhooks.deliveries(owner, id, &query).await {
        Err(WebhooksError::UnknownCursor) => {
            let detail = "must be the identifier of a delivery of this webhook";
            return Err(paging.unknown_cursor("unknown_delivery", detail));
        }
        page => page?,
    };
    let url = format!("{}/deliveries", path::of_webhook(&api.base_path, id));
    let records = page.items.iter();
    let records = records.map(|delivery| (delivery.id.0, DeliveryRecord::of(delivery, &endpoint)));
    list::page(&request, url, &paging, Others::from(&page), records)
}

pub(crate) async fn test(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let (owner, id) = find_without_members(&request, payload, &api).await?;
    let delivery = api.webhooks.test(owner, id, &version::of_webhook(&preconditions)).await?;
    note_webhook(&request, id, "webhook test accepted");
    Ok(HttpResponse::Accepted().json(Accepted { delivery_id: delivery.0 }))
}

pub(crate) async fn replay_delivery(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let (owner, id) = find_without_members(&request, payload, &api).await?;
    let delivery = path::delivery_id(&request)?;
    let precondition = version::of_webhook(&preconditions);
    api.webhooks.replay_delivery(owner, id, delivery, &precondition).await?;
    note_webhook(&request, id, "webhook replay accepted");
    Ok(HttpResponse::Accepted().json(Accepted { delivery_id: delivery.0 }))
}

pub(crate) async fn replay(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let caller = admit(&request, &api.admission, Policy::Webhooks).await?;
    let id = path::webhook_id(&request)?;
    let body = read_object(&request, payload, &api.json_bodies, &caller).await?;
    let (since, until) = parse(&body).map_err(Problem::violations)?;
    let owner = caller.owner();
    // Before the mark, which would show whether others have such a webhook.
    api.webhooks.read(owner, id).await?;
    // A replay may change many rows, so a client must not cause any number of them at a time.
    let in_progress = api.replays.begin(id).ok_or_else(replay_in_progress)?;
    let (task_api, precondition) = (api.clone(), version::of_webhook(&preconditions));
    let task = async move {
        let _held = in_progress;
        task_api.webhooks.replay(owner, id, since, until, &precondition).await
    };
    // A client that goes away must not leave a replay half done.
    api.detached.run_to_end(task, log_unanswered).await?;
    note_webhook(&request, id, "webhook replay accepted");
    Ok(HttpResponse::Accepted().finish())
}

/// Logs a replay that failed after its client had disconnected.
fn log_unanswered(outcome: Result<(), WebhooksError>) {
    if let Err(WebhooksError::Store(error)) = outcome {
        tracing::error!(error = error_chain(&error), "replay failed");
    }
}

/// The answer to a delivery that is made due.
#[derive(Serialize)]
struct Accepted {
    delivery_id: i64,
}

/// The time of a replay.
#[derive(Default, Deserialize, Validate)]
#[serde(default)]
struct ReplayMembers {
    #[garde(custom(required(instant)))]
    since: Sent<Word>,
    #[garde(custom(nullable(instant)))]
    until: Sent<Word>,
}

fn instant(text: &Word) -> Checked {
    let detail = "must be an RFC 3339 datetime, such as 2026-12-01T20:30:00Z";
    match instants::parse(text) {
        Some(_) => Ok(()),
        None => fault(ViolationCode::InvalidFormat, detail),
    }
}

/// Reads the time of a replay.
fn parse(
    body: &Object<ReplayMembers>,
) -> Result<(OffsetDateTime, Option<OffsetDateTime>), Vec<Violation>> {
    let mut violations = violations(body);
    violations.extend(unknown_members(body, ""));
    let instant = |sent: &Sent<Word>| instants::parse(sent.value()?);
    let (since, until) = (instant(&body.since), instant(&body.until));
    if since.zip(until).is_some_and(|(since, until)| until <= since) {
        let detail = "must be after since".into();
        let code = ViolationCode::EndNotAfterStart;
        violations.push(Violation { pointer: "/until".into(), code, detail });
    }
    match since {
        Some(since) if violations.is_empty() => Ok((since, until)),
        _ => Err(violations),
    }
}

#[cfg(test)]
#[path = "deliveries_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "replay_tests.rs"]
mod replay_tests;
