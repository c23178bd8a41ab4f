//! `DELETE /api/order/{order_id}/documents/{position}` and `…/signed-documents/{position}`: the side that
//! uploaded a document withdraws it.

use actix_web::{HttpRequest, HttpResponse};
use domain::{api_key::Scope, document::DocumentKind, person::Caller};

use crate::{
    admission::{audit::Audit, preconditions::Preconditions, rate_limit::Policy},
    orders::{path, version},
    request::notes::note,
    respond::answer::Answer,
    state::{Api, State},
};

pub(crate) async fn withdraw(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    withdraw_kind(audit, &preconditions, &request, &api, DocumentKind::ToSign, Scope::OrdersCreate)
        .await
}

pub(crate) async fn withdraw_signed(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    withdraw_kind(audit, &preconditions, &request, &api, DocumentKind::Signed, Scope::OrdersUpdate)
        .await
}

async fn withdraw_kind(
    audit: Audit,
    preconditions: &Preconditions,
    request: &HttpRequest,
    api: &Api,
    kind: DocumentKind,
    scope: Scope,
) -> Answer {
    let scope = |_: &Caller| scope;
    let admitted = audit.admit_for(request, &api.admission, Policy::Changes, scope).await?;
    let id = path::document(request, kind)?;
    note(request, |notes| {
        (notes.order, notes.document) = (Some(id.order), Some(id.position));
    });
    // Runs to its end when the client disconnects, so that the bytes are gone at once.
    let withdrawing = api.withdraw_document.by(&admitted).clone();
    let (changer, precondition) = (admitted.changer(), version::of_document(preconditions));
    let work = async move { withdrawing.withdraw(&changer, id, precondition).await };
    api.detached.run_to_end(work, drop).await?;
    note(request, |notes| notes.message = Some("document withdrawn"));
    Ok(HttpResponse::NoContent().finish())
}
