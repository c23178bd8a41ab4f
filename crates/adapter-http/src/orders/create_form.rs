//! `POST /api/order/create-with-documents`: creates an order from a multipart form.

use std::sync::Arc;

use actix_web::{HttpRequest, web};
use domain::{
    idempotency::{Answered, Attempt},
    person::Caller,
    use_cases::{create_order::CreatedOrder, order_error::OrderError},
};

use crate::{
    admission::{authentication::admit, preconditions::Preconditions, rate_limit::Policy},
    form::{OrderForm, Texts},
    orders::{
        created::{self, FORM},
        upload::{self, Form, StoreForm},
    },
    respond::answer::Answer,
    state::State,
};

/// Path of the operation, below the base path.
pub(crate) const PATH: &str = "/api/order/create-with-documents";

pub(crate) async fn create(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let caller = admit(&request, &api.admission, Policy::OrdersWithDocuments).await?;
    preconditions.check_creation()?;
    let form = Form { operation: FORM, texts: Texts::Order, limits: api.limits };
    let creation = Creation { api: api.clone(), caller: Arc::clone(&caller) };
    let created = upload::carry_out(&request, payload, &api, &caller, form, creation).await?;
    Ok(created::response(&request, &api, FORM, &created))
}

/// Creates an order of a form.
struct Creation {
    api: State,
    caller: Arc<Caller>,
}

impl StoreForm for Creation {
    type Stored = CreatedOrder;

    async fn store(
        &self,
        form: OrderForm,
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, OrderError> {
        let OrderForm { request, documents, .. } = form;
        self.api.create_order.create(&self.caller, request, Some(documents), attempt).await
    }

    async fn repeat(
        &self,
        form: OrderForm,
        answered: Answered,
        attempt: &Attempt,
    ) -> Result<CreatedOrder, OrderError> {
        self.api.create_order.repeat(answered, attempt, form.request).await
    }

    fn log(&self, CreatedOrder { stored, replayed, .. }: &CreatedOrder) {
        tracing::info!(
            order_id = stored.id.0,
            documents = stored.documents.len(),
            test = stored.is_test,
            replayed,
            "order with documents stored"
        );
    }

    fn count(&self, created: &CreatedOrder) {
        created::count(&self.api.metrics, FORM, created);
    }
}

#[cfg(test)]
#[path = "create_form_tests.rs"]
mod tests;
