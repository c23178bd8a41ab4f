//! `POST /api/order/create-with-documents`: creates an order from a multipart form.

use actix_web::{HttpRequest, web};
use domain::use_cases::create_order::CreatedOrder;

use crate::{
    admission::{authentication::admit, rate_limit::Policy},
    form::{OrderForm, Texts},
    orders::{
        created::{self, FORM},
        upload::{self, Form, Received},
    },
    respond::answer::Answer,
    state::State,
};

/// Path of the operation, below the base path.
pub(crate) const PATH: &str = "/api/order/create-with-documents";

pub(crate) async fn create(request: HttpRequest, payload: web::Payload, api: State) -> Answer {
    let key = admit(&request, &api.admission, Policy::OrdersWithDocuments).await?;
    let form = Form { operation: FORM, texts: Texts::Order, limits: api.limits };
    let Received { form, attempt, storing, answered } =
        upload::receive(&request, payload, &api, &key, form).await?;
    let created = if let (Some(answered), Some(attempt)) = (answered, &attempt) {
        let repeated = api.create_order.repeat(answered, attempt, form.request).await?;
        created::count(&api.metrics, FORM, &repeated);
        repeated
    } else {
        let OrderForm { request: order, documents, held, .. } = form;
        let (create, metrics) = (api.create_order.clone(), api.metrics.clone());
        let work =
            async move { create.create(&key, order, Some(documents), attempt.as_ref()).await };
        let note = move |created: &CreatedOrder| {
            let CreatedOrder { stored, replayed, .. } = created;
            // Here, because the client may have disconnected before the answer.
            tracing::info!(
                order_id = stored.id.0,
                documents = stored.documents.len(),
                test = stored.is_test,
                replayed,
                "order with documents stored"
            );
            created::count(&metrics, FORM, created);
        };
        upload::store(&api, storing, held, work, note).await?
    };
    Ok(created::response(&request, FORM, &created))
}

#[cfg(test)]
#[path = "create_form_tests.rs"]
mod tests;
