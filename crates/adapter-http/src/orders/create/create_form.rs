//! `POST /api/order/create-with-documents`: creates an order from a multipart form.

use actix_web::{HttpRequest, web};
use domain::orders::create_order::CreatedOrder;

use crate::{
    access::{authentication::admit, fingerprint::attempt, rate_limit::Policy},
    form::{self, FormSpace, OrderForm, Uploads},
    orders::create::{
        created::{self, Operation},
        upload::{self, Received},
    },
    respond::answer::{Response, answer},
    state::Api,
};

/// Path of the operation, below the base path.
pub(crate) const PATH: &str = "/api/order/create-with-documents";

pub(crate) fn create(request: HttpRequest, payload: web::Payload, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::OrdersWithDocuments).await?;
        let read = async |space: FormSpace<'_>| form::read(request, payload, space).await;
        let fingerprint = |claim, form: &OrderForm| {
            attempt(claim, Operation::Form.as_str(), &form.request, &form.uploads.documents)
        };
        let Received { form, attempt, storing, answered } =
            upload::receive(request, &api, &key, read, fingerprint).await?;
        let created = if let (Some(answered), Some(attempt)) = (answered, &attempt) {
            let repeated = api.create_order.repeat(answered, attempt).await?;
            created::count(&api.metrics, Operation::Form, &repeated);
            repeated
        } else {
            let OrderForm { request, uploads: Uploads { documents, held } } = form;
            let (create, metrics) = (api.create_order.clone(), api.metrics.clone());
            let work = async move {
                create.create_with_documents(&key, request, documents, attempt.as_ref()).await
            };
            let note = move |created: &CreatedOrder| {
                log(created);
                created::count(&metrics, Operation::Form, created);
            };
            upload::store(&api, storing, held, work, note).await?
        };
        Ok(created::response(request, Operation::Form, &created))
    })
}

/// Logs the order here, because the client may have disconnected before the answer.
fn log(CreatedOrder { stored, replayed, .. }: &CreatedOrder) {
    tracing::info!(
        order_id = stored.id.0,
        documents = stored.documents.len(),
        test = stored.is_test,
        replayed,
        "order with documents stored"
    );
}

#[cfg(test)]
#[path = "create_form_tests.rs"]
mod tests;
