//! `POST /api/webhooks`: creates a webhook. `GET /api/webhooks`: answers with those of the client.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use domain::webhook::{EndpointOwner, endpoint_request::EndpointRequest};

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    body::json,
    observe::request_notes::WebhookNote,
    respond::{
        answer::{Response, answer},
        list,
    },
    state::Api,
    webhooks::{
        path,
        problems::invalid,
        record::{NewWebhookRecord, WebhookRecord},
    },
};

pub(crate) fn create(request: HttpRequest, payload: web::Payload, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Webhooks).await?;
        let body = json::read_object(request, payload, &api.json_bodies, key.id).await?;
        let asked = EndpointRequest::parse(&body).map_err(invalid)?;
        let (endpoint, secret) = api.webhooks.create(EndpointOwner::of(&key), asked).await?;
        WebhookNote { id: endpoint.id, message: "webhook created" }.leave(request);
        let location = path::of_webhook(&api.base_path, endpoint.id);
        let mut response = HttpResponse::Created();
        response.insert_header((header::LOCATION, location));
        Ok(response.json(NewWebhookRecord::new(&endpoint, &secret)))
    })
}

pub(crate) fn list(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Webhooks).await?;
        let endpoints = api.webhooks.list(EndpointOwner::of(&key)).await?;
        let url = format!("{}{}", api.base_path, path::WEBHOOKS);
        let records = endpoints.iter().map(WebhookRecord::new);
        list::whole(request, url, records)
    })
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
