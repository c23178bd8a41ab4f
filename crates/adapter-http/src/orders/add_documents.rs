//! `POST /api/order/{order_id}/documents` and `…/signed-documents`: the client adds documents to an
//! order, and the signing service the signed ones.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use domain::{
    api_key::Scope,
    document::DocumentKind,
    idempotency::{Answered, Attempt},
    order::{Actor, OrderId},
    person::Caller,
    precondition::OrderPrecondition,
    use_cases::{
        add_documents::{AddDocuments, AddedDocuments, Addition},
        order_error::OrderError,
        people::name_doers::{DoerNames, Viewer},
    },
};
use serde::Serialize;

use crate::{
    admission::{
        audit::{Admitted, Audit},
        preconditions::Preconditions,
        rate_limit::Policy,
    },
    form::{OrderForm, Texts},
    orders::{
        created,
        erasure::erased,
        path,
        record::DocumentRecord,
        upload::{self, Form, StoreForm},
        version,
    },
    respond::answer::Answer,
    state::{Api, State},
};

pub(crate) async fn add(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::OrdersWithDocuments).await?;
    let order_id = path::order_id(&request)?;
    // It must not change, like that of signed documents: stored fingerprints contain it.
    let operation = format!("documents of {}", order_id.0);
    let form = Form { operation: &operation, texts: Texts::Replaces, limits: api.limits };
    let precondition = version::of_order(&preconditions);
    let kind = DocumentKind::ToSign;
    let adding = Adding { api: api.clone(), admitted, order_id, kind, precondition };
    store(&request, payload, &api, form, adding).await
}

pub(crate) async fn add_signed(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let scope = |_: &Caller| Scope::OrdersUpdate;
    let policy = Policy::OrdersWithDocuments;
    let admitted = audit.admit_for(&request, &api.admission, policy, scope).await?;
    let order_id = path::order_id(&request)?;
    let operation = format!("signed documents of {}", order_id.0);
    let form = Form { operation: &operation, texts: Texts::None, limits: api.signed_limits };
    let precondition = version::of_order(&preconditions);
    let kind = DocumentKind::Signed;
    let adding = Adding { api: api.clone(), admitted, order_id, kind, precondition };
    store(&request, payload, &api, form, adding).await
}

async fn store(
    request: &HttpRequest,
    payload: web::Payload,
    api: &State,
    form: Form<'_>,
    adding: Adding,
) -> Answer {
    let (caller, kind) = (adding.admitted.caller().clone(), adding.kind);
    // Checked before the documents are read. What adds them checks again.
    adding.use_case().intake.order(&caller, adding.order_id).await?;
    let added = upload::carry_out(request, payload, api, &caller, form, adding).await?;
    let uploader = Actor::uploading(kind);
    let acts = added.documents.iter().map(|document| (uploader, document.by));
    let names = api.name_doers.named(Viewer::Side(caller.party()), acts).await?;
    Ok(response(request, api, kind, &added, &names))
}

/// Adds the documents of a form to an order.
struct Adding {
    api: State,
    admitted: Admitted,
    order_id: OrderId,
    kind: DocumentKind,
    precondition: OrderPrecondition,
}

impl Adding {
    fn use_case(&self) -> &AddDocuments {
        self.api.add_documents.by(&self.admitted)
    }

    fn addition(&self, replaces: Option<String>) -> Addition {
        let access = Some(self.admitted.access().clone());
        let precondition = self.precondition.clone();
        Addition { order_id: self.order_id, kind: self.kind, replaces, precondition, access }
    }
}

impl StoreForm for Adding {
    type Stored = AddedDocuments;

    /// Ends the request when an operator erases its order.
    async fn abandoned(&self) -> OrderError {
        erased(self.use_case(), self.admitted.caller(), self.order_id).await
    }

    async fn store(
        &self,
        form: OrderForm,
        attempt: Option<&Attempt>,
    ) -> Result<AddedDocuments, OrderError> {
        let OrderForm { documents, replaces, .. } = form;
        let (caller, addition) = (self.admitted.caller(), self.addition(replaces));
        self.use_case().add(caller, &addition, documents, attempt).await
    }

    async fn repeat(
        &self,
        form: OrderForm,
        answered: Answered,
        attempt: &Attempt,
    ) -> Result<AddedDocuments, OrderError> {
        let (owner, addition) = (self.admitted.owner(), self.addition(form.replaces));
        self.use_case().repeat(owner, &addition, answered, attempt).await
    }

    fn log(&self, added: &AddedDocuments) {
        tracing::info!(
            order_id = added.order_id.0,
            documents = added.documents.len(),
            replayed = added.replayed,
            "added documents stored"
        );
    }

    fn count(&self, added: &AddedDocuments) {
        let metrics = &self.api.metrics;
        if added.replayed {
            metrics.replays.inc();
        } else {
            metrics.stored(added.documents.iter().map(|document| document.size));
            metrics.stored_unscanned(added.order_id, added.unscanned);
        }
    }
}

fn response(
    request: &HttpRequest,
    api: &Api,
    kind: DocumentKind,
    added: &AddedDocuments,
    names: &DoerNames,
) -> HttpResponse {
    let messages = ["documents added", "documents added before, answered again"];
    let documents = added.documents.len();
    let mut response = created::begin(request, added.order_id, documents, added.replayed, messages);
    let url = path::of_documents(&api.base_path, added.order_id, kind);
    let (positions, total) = (added.range.first_position.., added.range.total);
    let is_signed = kind == DocumentKind::Signed;
    let first = format!("{url}/{}", added.range.first_position);
    response.insert_header((header::LOCATION, first));
    let records = positions.zip(&added.documents).map(|(position, document)| {
        let by = names.by(Actor::uploading(kind), document.by);
        DocumentRecord::new(document, kind, (position, added.replaces), &url, by)
    });
    response.json(AddedRecord {
        order_id: added.order_id.0,
        documents_uploaded: (!is_signed).then_some(total),
        signed_documents_uploaded: is_signed.then_some(total),
        documents: records.collect(),
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
