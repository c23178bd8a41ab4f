//! `GET /api/order/{order_id}`: answers with an order of the client.

use actix_web::{HttpRequest, web};
use domain::order::StoredOrder;

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    observe::request_notes::OrderNote,
    orders::{path, record::WholeOrder},
    respond::{
        answer::{Response, answer},
        conditional,
        problem::Problem,
    },
    state::Api,
};

pub(crate) fn read(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let (stored, url) = find(request, &api).await?;
        conditional::json(request, &WholeOrder::new(&stored, &url), None)
    })
}

/// Returns the order that a request reads, and the path of its documents.
pub(crate) async fn find(
    request: &HttpRequest,
    api: &Api,
) -> Result<(StoredOrder, String), Problem> {
    let key = admit(request, api, Policy::Reads).await?;
    let id = path::order_id(request)?;
    let stored = api.read_order.order(key.client(), id).await?;
    OrderNote::read(id, None).leave(request);
    Ok((stored, path::of_documents(&api.base_path, id)))
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
