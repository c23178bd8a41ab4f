//! `POST /api/order/{order_id}/documents`: adds documents to an order of the client.

use std::pin::pin;

use actix_web::{HttpRequest, HttpResponse, web};
use domain::use_cases::add_documents::AddedDocuments;
use futures_util::future::{Either, select};
use serde::Serialize;

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    form::OrderForm,
    orders::{
        create::{
            created,
            upload::{self, Received},
        },
        erasure::erased,
        path,
        record::DocumentRecord,
    },
    request::metrics::ApiMetrics,
    respond::answer::Answer,
    state::{Api, State},
};

pub(crate) async fn add(request: HttpRequest, payload: web::Payload, api: State) -> Answer {
    let key = admit(&request, &api.access, Policy::OrdersWithDocuments).await?;
    let id = path::order_id(&request)?;
    // Checked before the documents are read. What adds them checks again.
    api.add_documents.check(&key, id).await?;
    // It must not change: stored fingerprints contain it.
    let operation = format!("documents of {}", id.0);
    let receiving = upload::receive(&request, payload, &api, &key, &operation, false);
    let erased = erased(&api.add_documents, &key, id);
    let received = match select(pin!(receiving), pin!(erased)).await {
        Either::Left((received, _)) => received?,
        Either::Right((error, _)) => return Err(error.into()),
    };
    let Received { form, attempt, storing, answered } = received;
    let added = if let (Some(answered), Some(attempt)) = (answered, &attempt) {
        let repeated = api.add_documents.repeat(id, answered, attempt).await?;
        count(&api.metrics, &repeated);
        repeated
    } else {
        let OrderForm { documents, held, .. } = form;
        let (add, metrics) = (api.add_documents.clone(), api.metrics.clone());
        let work = async move { add.add(&key, id, documents, attempt.as_ref()).await };
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
        upload::store(&api, storing, held, work, note).await?
    };
    Ok(response(&request, &api, &added))
}

fn count(metrics: &ApiMetrics, added: &AddedDocuments) {
    if added.replayed {
        metrics.replays.inc();
    } else {
        metrics.stored(added.documents.iter().map(|document| document.size));
        metrics.stored_unscanned(added.order_id, added.unscanned);
    }
}

fn response(request: &HttpRequest, api: &Api, added: &AddedDocuments) -> HttpResponse {
    let messages = ["documents added", "documents added before, answered again"];
    let documents = added.documents.len();
    let mut response = created::begin(request, added.order_id, documents, added.replayed, messages);
    let url = path::of_documents(&api.base_path, added.order_id);
    let first = added.range.first_position;
    response.json(AddedRecord {
        order_id: added.order_id.0,
        documents_uploaded: added.range.total(),
        documents: DocumentRecord::all(&added.documents, first, &url).collect(),
    })
}

#[derive(Serialize)]
struct AddedRecord<'a> {
    order_id: i64,
    documents_uploaded: u32,
    documents: Vec<DocumentRecord<'a>>,
}

#[cfg(test)]
#[path = "add_documents_tests.rs"]
mod tests;
