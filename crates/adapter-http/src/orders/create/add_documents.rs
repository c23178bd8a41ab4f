//! `POST /api/order/{order_id}/documents`: adds documents to an order of the client.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::{order::OrderId, orders::add_documents::AddedDocuments};
use serde_json::json;

use crate::{
    access::{authentication::admit, idempotency_key::IDEMPOTENCY_REPLAYED, rate_limit::Policy},
    form::OrderForm,
    observe::{metrics::ApiMetrics, request_notes::note},
    orders::{
        create::upload::{self, Received},
        path,
        record::document_records,
    },
    respond::answer::Answer,
    state::{Api, State},
};

pub(crate) async fn add(request: HttpRequest, payload: web::Payload, api: State) -> Answer {
    let key = admit(&request, &api, Policy::OrdersWithDocuments).await?;
    let id = path::order_id(&request)?;
    // Checked before the documents are read. What adds them checks again.
    api.add_documents.check(&key, id).await?;
    let Received { form, attempt, storing, answered } =
        upload::receive(&request, payload, &api, &key, &operation(id), false).await?;
    let added = if let (Some(answered), Some(attempt)) = (answered, &attempt) {
        let repeated = api.add_documents.repeat(id, answered, attempt).await?;
        count(&api.metrics, &repeated);
        repeated
    } else {
        let OrderForm { documents, held, .. } = form;
        let (add, metrics) = (api.add_documents.clone(), api.metrics.clone());
        let work = async move { add.add(&key, id, documents, attempt.as_ref()).await };
        let note = move |added: &AddedDocuments| {
            log(added);
            count(&metrics, added);
        };
        upload::store(&api, storing, held, work, note).await?
    };
    Ok(response(&request, &api, &added))
}

/// Returns the name of the operation in fingerprints. It must not change: stored fingerprints
/// contain it.
fn operation(OrderId(id): OrderId) -> String {
    format!("documents of {id}")
}

/// Logs the documents here, because the client may have disconnected before the answer.
fn log(AddedDocuments { order_id, documents, replayed, .. }: &AddedDocuments) {
    tracing::info!(
        order_id = order_id.0,
        documents = documents.len(),
        replayed,
        "added documents stored"
    );
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
    note(request, |notes| {
        notes.order = Some(added.order_id);
        if added.replayed {
            notes.message = Some("documents added before, answered again");
        } else {
            notes.message = Some("documents added");
            notes.documents = Some(added.documents.len());
        }
    });
    let mut response = HttpResponse::Created();
    if added.replayed {
        response.insert_header((IDEMPOTENCY_REPLAYED, "true"));
    }
    let url = path::of_documents(&api.base_path, added.order_id);
    let documents = document_records(&added.documents, added.range.first_position, &url);
    response.json(json!({
        "order_id": added.order_id.0,
        "documents_uploaded": added.range.total(),
        "documents": documents.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
#[path = "add_documents_tests.rs"]
mod tests;
