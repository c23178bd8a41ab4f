//! `DELETE /api/order/{order_id}/documents/{position}` and `…/signed-documents/{position}`: the side that
//! uploaded a document withdraws it.

use actix_web::{HttpRequest, HttpResponse};
use domain::{
    api_key::{ApiKey, Scope},
    document::DocumentKind,
};

use crate::{
    admission::{
        authentication::{admit_for, changer},
        rate_limit::Policy,
    },
    orders::path,
    request::notes::note,
    respond::answer::Answer,
    state::{Api, State},
};

pub(crate) async fn withdraw(request: HttpRequest, api: State) -> Answer {
    withdraw_kind(&request, &api, DocumentKind::ToSign, Scope::OrdersCreate).await
}

pub(crate) async fn withdraw_signed(request: HttpRequest, api: State) -> Answer {
    withdraw_kind(&request, &api, DocumentKind::Signed, Scope::OrdersUpdate).await
}

async fn withdraw_kind(
    request: &HttpRequest,
    api: &Api,
    kind: DocumentKind,
    scope: Scope,
) -> Answer {
    let scope = |_: &ApiKey| scope;
    let key = admit_for(request, &api.admission, Policy::Changes, scope).await?;
    let id = path::document(request, kind)?;
    note(request, |notes| {
        (notes.order, notes.document) = (Some(id.order), Some(id.position));
    });
    // Runs to its end when the client disconnects, so that the bytes are gone at once.
    let withdrawing = api.withdraw_document.clone();
    let changer = changer(request, &key);
    let work = async move { withdrawing.withdraw(&changer, id).await };
    api.detached.run_to_end(work, drop).await?;
    note(request, |notes| notes.message = Some("document withdrawn"));
    Ok(HttpResponse::NoContent().finish())
}
