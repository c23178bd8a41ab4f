//! `GET /api/order/{order_id}/documents`: answers with the list of an order's documents.

use actix_web::{HttpRequest, web};

use crate::{
    orders::{read::read_order::find, record::document_records},
    respond::{
        answer::{Response, answer},
        list,
    },
    state::Api,
};

pub(crate) fn list(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let (stored, url) = find(request, &api).await?;
        let records = document_records(&stored.documents, 0, &url);
        list::whole(request, url.clone(), records)
    })
}

#[cfg(test)]
#[path = "list_documents_tests.rs"]
mod tests;
