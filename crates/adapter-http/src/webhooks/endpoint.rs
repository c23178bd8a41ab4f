//! `GET`, `PATCH` and `DELETE /api/webhooks/{webhook_id}`, and `POST …/rotate-secret`: one webhook
//! of the client.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::webhook::{EndpointId, EndpointOwner, endpoint_request::EndpointChange};

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    body::json,
    observe::request_notes::WebhookNote,
    respond::{
        answer::{Response, answer},
        conditional,
        problem::Problem,
    },
    state::Api,
    webhooks::{
        path,
        problems::invalid,
        record::{SecretRecord, WebhookRecord},
    },
};

pub(crate) fn read(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let (owner, id) = find(request, &api).await?;
        let endpoint = api.webhooks.read(owner, id).await?;
        conditional::json(request, &WebhookRecord::new(&endpoint), None)
    })
}

pub(crate) fn change(request: HttpRequest, payload: web::Payload, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Webhooks).await?;
        let id = path::webhook_id(request)?;
        let body = json::read_object(request, payload, &api.json_bodies, key.id).await?;
        let change = EndpointChange::parse(&body).map_err(invalid)?;
        let endpoint = api.webhooks.change(EndpointOwner::of(&key), id, change).await?;
        WebhookNote { id, message: "webhook changed" }.leave(request);
        Ok(HttpResponse::Ok().json(WebhookRecord::new(&endpoint)))
    })
}

pub(crate) fn delete(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let (owner, id) = find(request, &api).await?;
        api.webhooks.delete(owner, id).await?;
        WebhookNote { id, message: "webhook deleted" }.leave(request);
        Ok(HttpResponse::NoContent().finish())
    })
}

pub(crate) fn rotate_secret(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let (owner, id) = find(request, &api).await?;
        let secret = api.webhooks.rotate_secret(owner, id).await?;
        WebhookNote { id, message: "webhook secret rotated" }.leave(request);
        Ok(HttpResponse::Ok().json(SecretRecord::new(id, &secret)))
    })
}

/// Returns the owner and the identifier of the webhook that a request names.
pub(super) async fn find(
    request: &HttpRequest,
    api: &Api,
) -> Result<(EndpointOwner, EndpointId), Problem> {
    let key = admit(request, api, Policy::Webhooks).await?;
    Ok((EndpointOwner::of(&key), path::webhook_id(request)?))
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
