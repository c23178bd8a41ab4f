//! `PATCH /api/order/{order_id}` and `POST /api/order/{order_id}/cancel`: a signing service changes an
//! order, and either side cancels it.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use domain::{
    api_key::{ApiKey, Party, Scope},
    order::{
        StoredOrder,
        change_request::{CancelRequest, ChangeRequest},
    },
    use_cases::{change_order::Changer, order_error::OrderError},
};

use crate::{
    access::{
        authentication::{admit, admit_for},
        rate_limit::Policy,
    },
    body::json,
    observe::request_notes::note,
    orders::{
        path,
        record::{order_record, whole_order},
    },
    respond::{answer::Answer, conditional},
    state::{Api, State},
};

pub(crate) async fn change(request: HttpRequest, payload: web::Payload, api: State) -> Answer {
    let key = admit(&request, &api, Policy::Changes).await?;
    let id = path::order_id(&request)?;
    note(&request, |notes| notes.order = Some(id));
    let body = json::read_members(&request, payload, &api.json_bodies, &key).await?;
    let change = ChangeRequest::parse(&body).map_err(OrderError::rejected)?;
    let is_expected = |order: &StoredOrder| is_expected(&request, &api, order);
    let order = api.change_order.change(Changer::of(&key), id, &change, is_expected).await?;
    answer(&request, &api, &order, "order changed")
}

pub(crate) async fn cancel(request: HttpRequest, payload: web::Payload, api: State) -> Answer {
    // The client that creates orders cancels them, and so does the service that carries them out.
    let scope = |key: &ApiKey| match key.party() {
        Party::Client(_) => Scope::OrdersCreate,
        Party::Service(_) => Scope::OrdersUpdate,
    };
    let key = admit_for(&request, &api, Policy::Changes, scope).await?;
    let id = path::order_id(&request)?;
    note(&request, |notes| notes.order = Some(id));
    let body = json::read_optional_members(&request, payload, &api.json_bodies, &key).await?;
    let cancel = CancelRequest::parse(&body).map_err(OrderError::rejected)?;
    let is_expected = |order: &StoredOrder| is_expected(&request, &api, order);
    let cancelled = api.change_order.cancel(Changer::of(&key), id, &cancel, is_expected).await?;
    answer(&request, &api, &cancelled, "order cancelled")
}

/// Returns whether the order is the one that the client has seen.
fn is_expected(request: &HttpRequest, api: &Api, order: &StoredOrder) -> bool {
    let tag = || conditional::tag_of(&whole_order(order, &api.base_path)).ok();
    conditional::is_expected(request, tag)
}

/// Answers with the record. The validator is that of the whole order, so that the client can change
/// it again.
fn answer(request: &HttpRequest, api: &Api, order: &StoredOrder, message: &'static str) -> Answer {
    note(request, |notes| notes.message = Some(message));
    let tag = conditional::tag_of(&whole_order(order, &api.base_path))?;
    let mut answer = HttpResponse::Ok();
    answer.insert_header(header::ETag(tag));
    Ok(answer.json(order_record(order, Some(order.documents.len()))))
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
