//! `GET /api/order/{order_id}/documents`: answers with the list of an order's documents.

use actix_web::{HttpRequest, web};

use crate::{
    answer::{Response, answer},
    authentication::admit,
    conditional,
    orders::{list::List, path, record::document_records},
    rate_limit::Policy,
    request_notes::OrderNote,
    state::Api,
};

pub(crate) fn list(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Reads).await?;
        let id = path::order_id(request)?;
        let stored = api.read_order.order(key.client(), id).await?;
        OrderNote::read(id, None).leave(request);
        let url = path::of_documents(&api.base_path, id);
        let records = document_records(&stored.documents, 0, &url);
        conditional::json(request, &List::new(url.clone(), false, records), None)
    })
}

#[cfg(test)]
#[path = "list_documents_tests.rs"]
mod tests;
