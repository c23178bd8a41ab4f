//! `GET /api/order`: answers with a page of the client's orders.

use actix_web::{HttpRequest, web};
use domain::orders::order_error::OrderError;

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    orders::{
        path,
        read::list_query::{ListQuery, shown},
        record::OrderRecord,
    },
    respond::{
        answer::{Response, answer},
        list,
    },
    state::Api,
};

pub(crate) fn list(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Reads).await?;
        let query = ListQuery::parse(request.query_string())?;
        let page = match api.read_order.page(key.client(), &query.page).await {
            Err(OrderError::UnknownCursor) => return Err(query.unknown_cursor()),
            page => page?,
        };
        let url = format!("{}{}", api.base_path, path::ORDERS);
        let records =
            page.items.iter().map(|order| OrderRecord::new(&order.stored, Some(order.documents)));
        list::page(request, url, &query.paging, shown(&page), records)
    })
}

#[cfg(test)]
#[path = "list_orders_tests.rs"]
mod tests;
