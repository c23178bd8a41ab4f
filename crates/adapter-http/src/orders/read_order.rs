//! `GET /api/order/{order_id}`: answers with an order of the client.

use actix_web::{HttpRequest, web};

use crate::{
    answer::{Response, answer},
    authentication::admit,
    conditional,
    orders::{path, record::WholeOrder},
    problem::Problem,
    rate_limit::Policy,
    request_notes::OrderNote,
    state::Api,
};

pub(crate) fn read(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Reads).await?;
        let id = path::order_id(request)?;
        let stored = api.read_order.order(key.client(), id).await?;
        OrderNote::read(id, None).leave(request);
        let url = path::of_documents(&api.base_path, id);
        let order = WholeOrder::new(&stored, &url);
        let order = order.map_err(|error| Problem::internal().log(&error))?;
        conditional::json(request, &order, None)
    })
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
