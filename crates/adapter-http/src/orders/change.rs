//! `PUT` and `PATCH /api/order/{order_id}` and `POST /api/order/{order_id}/cancel`: the client changes an
//! order, its signing service sets the status and the notary, and either side cancels it.

use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, http::header, web};
use domain::{
    api_key::{Party, Scope},
    order::{
        attention::Attention,
        change_request::{CancelRequest, ChangeRequest},
    },
    person::Caller,
    ports::ListedOrder,
    use_cases::order_error::OrderError,
};
use time::OffsetDateTime;

use crate::{
    admission::{audit::Audit, preconditions::Preconditions, rate_limit::Policy},
    body::json,
    orders::{create_json, created, path, record::OrderRecord, version},
    request::notes::note,
    respond::answer::Answer,
    state::{Api, State},
};

pub(crate) async fn change(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let scope = |_: &Caller| Scope::OrdersCreate;
    let admitted = audit.admit_for(&request, &api.admission, Policy::Changes, scope).await?;
    let id = path::order_id(&request)?;
    note(&request, |notes| notes.order = Some(id));
    let body = json::read(&request, payload, &api.json_bodies, admitted.caller()).await?;
    let order = create_json::parse(&body)?;
    api.answers.hold(&request, admitted.caller().party()).await?;
    let precondition = version::of_order(&preconditions);
    let (order, utc_disagreements) =
        api.change_order.by(&admitted).amend(admitted.changer(), id, order, precondition).await?;
    created::warn(&api.metrics, id, &utc_disagreements);
    Ok(answer(&request, &api, &order, "order changed"))
}

pub(crate) async fn update(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Changes).await?;
    let id = path::order_id(&request)?;
    note(&request, |notes| notes.order = Some(id));
    let body = json::read_object(&request, payload, &api.json_bodies, admitted.caller()).await?;
    let change = ChangeRequest::parse(body).map_err(OrderError::rejected)?;
    api.answers.hold(&request, admitted.caller().party()).await?;
    let precondition = version::of_order(&preconditions);
    let order = api
        .change_order
        .by(&admitted)
        .change(admitted.changer(), id, &change, &precondition)
        .await?;
    Ok(answer(&request, &api, &order, "order changed"))
}

pub(crate) async fn cancel(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let scope = scope_of_either_side;
    let admitted = audit.admit_for(&request, &api.admission, Policy::Changes, scope).await?;
    let id = path::order_id(&request)?;
    note(&request, |notes| notes.order = Some(id));
    let body =
        json::read_optional_object(&request, payload, &api.json_bodies, admitted.caller()).await?;
    let cancel = CancelRequest::parse(body).map_err(OrderError::rejected)?;
    api.answers.hold(&request, admitted.caller().party()).await?;
    let precondition = version::of_order(&preconditions);
    let order = api
        .change_order
        .by(&admitted)
        .cancel(admitted.changer(), id, &cancel, &precondition)
        .await?;
    Ok(answer(&request, &api, &order, "order cancelled"))
}

/// Returns the scope of what both sides may do: the client that creates orders, and the service that
/// carries them out.
pub(super) fn scope_of_either_side(caller: &Caller) -> Scope {
    match caller.party() {
        Party::Client(_) => Scope::OrdersCreate,
        Party::Service(_) => Scope::OrdersUpdate,
    }
}

/// Answers with the record and the validator, so that the client can change the order again.
fn answer(
    request: &HttpRequest,
    api: &Api,
    order: &ListedOrder,
    message: &'static str,
) -> HttpResponse {
    let now = api.clock.now();
    begin(request, order, message, now).json(OrderRecord::listed(order, now))
}

/// Begins such an answer.
pub(super) fn begin(
    request: &HttpRequest,
    order: &ListedOrder,
    message: &'static str,
    now: OffsetDateTime,
) -> HttpResponseBuilder {
    note(request, |notes| notes.message = Some(message));
    let attention = Attention::of(&order.stored, order.counts, now);
    let mut answer = HttpResponse::Ok();
    answer.insert_header(header::ETag(version::tag(&order.stored, &attention)));
    answer
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
