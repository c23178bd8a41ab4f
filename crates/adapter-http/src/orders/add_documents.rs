//! `POST /api/order/{order_id}/documents` and `…/signed-documents`: the client adds documents to an
//! order, and the signing service the signed ones.

use std::{pin::pin, sync::Arc};

use actix_web::{HttpRequest, HttpResponse, web};
use domain::{
    api_key::{ApiKey, Scope},
    document::DocumentKind,
    order::OrderId,
    use_cases::add_documents::{AddedDocuments, Addition},
};
use futures_util::future::{Either, select};
use serde::Serialize;

use crate::{
    admission::{
        authentication::{admit, admit_for, begun},
        rate_limit::Policy,
    },
    form::{OrderForm, Texts},
    orders::{
        created,
        erasure::erased,
        path,
        record::DocumentRecord,
        upload::{self, Form, Received},
    },
    request::metrics::ApiMetrics,
    respond::answer::Answer,
    state::{Api, State},
};

pub(crate) async fn add(request: HttpRequest, payload: web::Payload, api: State) -> Answer {
    let key = admit(&request, &api.admission, Policy::OrdersWithDocuments).await?;
    let id = path::order_id(&request)?;
    // It must not change, like that of signed documents: stored fingerprints contain it.
    let operation = format!("documents of {}", id.0);
    let form = Form { operation: &operation, texts: Texts::Replaces, limits: api.limits };
    store(&request, payload, &api, key, (id, DocumentKind::ToSign), form).await
}

pub(crate) async fn add_signed(request: HttpRequest, payload: web::Payload, api: State) -> Answer {
    let scope = |_: &ApiKey| Scope::OrdersUpdate;
    let key = admit_for(&request, &api.admission, Policy::OrdersWithDocuments, scope).await?;
    let id = path::order_id(&request)?;
    let operation = format!("signed documents of {}", id.0);
    let form = Form { operation: &operation, texts: Texts::None, limits: api.signed_limits };
    store(&request, payload, &api, key, (id, DocumentKind::Signed), form).await
}

async fn store(
    request: &HttpRequest,
    payload: web::Payload,
    api: &State,
    key: Arc<ApiKey>,
    (id, kind): (OrderId, DocumentKind),
    form: Form<'_>,
) -> Answer {
    // Checked before the documents are read. What adds them checks again.
    api.add_documents.intake.order(&key, id).await?;
    let receiving = upload::receive(request, payload, api, &key, form);
    let erased = erased(&api.add_documents, &key, id);
    let received = match select(pin!(receiving), pin!(erased)).await {
        Either::Left((received, _)) => received?,
        Either::Right((error, _)) => return Err(error.into()),
    };
    let Received { form, attempt, storing, answered } = received;
    let OrderForm { documents, held, replaces, .. } = form;
    let addition = Addition { order_id: id, kind, replaces, access: begun(request) };
    let added = if let (Some(answered), Some(attempt)) = (answered, &attempt) {
        let owner = key.owner();
        let repeated = api.add_documents.repeat(owner, &addition, answered, attempt).await?;
        count(&api.metrics, &repeated);
        repeated
    } else {
        let (add, metrics) = (api.add_documents.clone(), api.metrics.clone());
        let work = async move { add.add(&key, &addition, documents, attempt.as_ref()).await };
        let note = move |added: &AddedDocuments| {
            // Here, because the client may have disconnected before the answer.
            tracing::info!(
                order_id = added.order_id.0,
                documents = added.documents.len(),
                replayed = added.replayed,
                "added documents stored"
            );
            count(&metrics, added);
        };
        upload::store(api, storing, held, work, note).await?
    };
    Ok(response(request, api, kind, &added))
}

fn count(metrics: &ApiMetrics, added: &AddedDocuments) {
    if added.replayed {
        metrics.replays.inc();
    } else {
        metrics.stored(added.documents.iter().map(|document| document.size));
        metrics.stored_unscanned(added.order_id, added.unscanned);
    }
}

fn response(
    request: &HttpRequest,
    api: &Api,
    kind: DocumentKind,
    added: &AddedDocuments,
) -> HttpResponse {
    let messages = ["documents added", "documents added before, answered again"];
    let documents = added.documents.len();
    let mut response = created::begin(request, added.order_id, documents, added.replayed, messages);
    let url = path::of_documents(&api.base_path, added.order_id, kind);
    let (positions, total) = (added.range.first_position.., added.range.total);
    let is_signed = kind == DocumentKind::Signed;
    let record =
        |(position, document)| DocumentRecord::new(document, kind, position, added.replaces, &url);
    response.json(AddedRecord {
        order_id: added.order_id.0,
        documents_uploaded: (!is_signed).then_some(total),
        signed_documents_uploaded: is_signed.then_some(total),
        documents: positions.zip(&added.documents).map(record).collect(),
    })
}

#[derive(Serialize)]
struct AddedRecord<'a> {
    order_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents_uploaded: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_documents_uploaded: Option<u32>,
    documents: Vec<DocumentRecord<'a>>,
}

#[cfg(test)]
#[path = "add_documents_tests.rs"]
mod tests;
