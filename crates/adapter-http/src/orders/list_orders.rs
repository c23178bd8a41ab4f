//! `GET /api/order`: answers with a page of the client's orders.

use actix_web::{HttpRequest, web};
use domain::read_order::ReadError;

use crate::{
    answer::{Response, answer},
    authentication::admit,
    list,
    orders::{
        list_query::{ListQuery, shown},
        path,
        record::OrderRecord,
    },
    rate_limit::Policy,
    state::Api,
};

pub(crate) fn list(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Reads).await?;
        let query = ListQuery::parse(request.query_string())?;
        let page = match api.read_order.page(key.client(), &query.page).await {
            Err(ReadError::UnknownCursor) => return Err(query.unknown_cursor()),
            page => page?,
        };
        let url = format!("{}{}", api.base_path, path::ORDERS);
        let records =
            page.orders.iter().map(|order| OrderRecord::new(&order.stored, Some(order.documents)));
        list::page(request, url, &query.paging, shown(&page), records)
    })
}

#[cfg(test)]
#[path = "list_orders_tests.rs"]
mod tests;
