//! `/api/webhooks`, `/api/webhooks/{webhook_id}` and `POST …/rotate-secret`: the webhooks of the
//! client.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use domain::{api_key::Owner, webhook::EndpointId};
use serde_json::json;

use crate::{
    admission::{
        audit::Audit, authentication::admit, preconditions::Preconditions, rate_limit::Policy,
    },
    body::json,
    request::notes::note,
    respond::{
        answer::{Answer, created},
        conditional, list,
        problem::Problem,
    },
    state::{Api, State},
    webhooks::{path, record::WebhookRecord, version},
};

pub(crate) async fn create(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Webhooks).await?;
    let caller = admitted.caller();
    preconditions.check_creation()?;
    let body = json::read_object(&request, payload, &api.json_bodies, caller).await?;
    let (endpoint, secret) =
        api.webhooks.create(caller.owner(), caller.key().map(|key| key.id), &body).await?;
    admitted.access().concerns(endpoint.id.0);
    note_webhook(&request, endpoint.id, "webhook created");
    let location = path::of_webhook(&api.base_path, endpoint.id);
    let record = WebhookRecord::created(&endpoint, &secret);
    Ok(created(location, record))
}

pub(crate) async fn list(request: HttpRequest, api: State) -> Answer {
    let caller = admit(&request, &api.admission, Policy::Webhooks).await?;
    api.answers.hold(&request, caller.party()).await?;
    let endpoints = api.webhooks.list(caller.owner()).await?;
    let url = format!("{}{}", api.base_path, path::WEBHOOKS);
    list::whole(&request, url, endpoints.iter().map(WebhookRecord::of))
}

pub(crate) async fn read(request: HttpRequest, api: State) -> Answer {
    let (owner, id) = find(&request, &api).await?;
    let endpoint = api.webhooks.read(owner, id).await?;
    let record = WebhookRecord::of(&endpoint);
    conditional::json_of_version(&request, &record, version::text(&endpoint))
}

pub(crate) async fn change(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Webhooks).await?;
    let caller = admitted.caller();
    let id = path::webhook_id(&request)?;
    let body = json::read_object(&request, payload, &api.json_bodies, caller).await?;
    let precondition = version::of_webhook(&preconditions);
    let endpoint = api.webhooks.change(caller.owner(), id, &body, &precondition).await?;
    note_webhook(&request, id, "webhook changed");
    let record = WebhookRecord::of(&endpoint);
    let tag = conditional::tag_of_version(&record, version::text(&endpoint))?;
    Ok(HttpResponse::Ok().insert_header(header::ETag(tag)).json(record))
}

pub(crate) async fn delete(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Webhooks).await?;
    let id = path::webhook_id(&request)?;
    api.answers.hold(&request, admitted.caller().party()).await?;
    api.webhooks.delete(admitted.owner(), id, &version::of_webhook(&preconditions)).await?;
    note_webhook(&request, id, "webhook deleted");
    Ok(HttpResponse::NoContent().finish())
}

pub(crate) async fn rotate_secret(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Webhooks).await?;
    let caller = admitted.caller();
    let id = path::webhook_id(&request)?;
    json::refuse_members(&request, payload, &api.json_bodies, caller).await?;
    api.answers.hold(&request, caller.party()).await?;
    let precondition = version::of_webhook(&preconditions);
    let secret = api.webhooks.rotate_secret(caller.owner(), id, &precondition).await?;
    note_webhook(&request, id, "webhook secret rotated");
    Ok(HttpResponse::Ok().json(json!({ "id": id.0, "secret": secret.to_text() })))
}

/// Returns the owner and the identifier of the webhook that a request names.
pub(super) async fn find(request: &HttpRequest, api: &Api) -> Result<(Owner, EndpointId), Problem> {
    let caller = admit(request, &api.admission, Policy::Webhooks).await?;
    let id = path::webhook_id(request)?;
    api.answers.hold(request, caller.party()).await?;
    Ok((caller.owner(), id))
}

/// Like [`find`], for a request that says everything by its path.
pub(super) async fn find_without_members(
    request: &HttpRequest,
    payload: web::Payload,
    api: &Api,
) -> Result<(Owner, EndpointId), Problem> {
    let caller = admit(request, &api.admission, Policy::Webhooks).await?;
    let id = path::webhook_id(request)?;
    json::refuse_members(request, payload, &api.json_bodies, &caller).await?;
    api.answers.hold(request, caller.party()).await?;
    Ok((caller.owner(), id))
}

/// Notes what a request did with a webhook, for its log line.
pub(super) fn note_webhook(request: &HttpRequest, id: EndpointId, message: &'static str) {
    note(request, |notes| (notes.webhook, notes.message) = (Some(id), Some(message)));
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod create_tests;

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
