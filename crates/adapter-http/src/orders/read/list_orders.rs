//! `GET /api/order`: answers with a page of the client's orders.

use actix_web::HttpRequest;
use domain::{
    order::{FileNumber, OrderId},
    ports::{Cursor, PageQuery},
    request::ViolationCode,
    use_cases::order_error::OrderError,
};

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    orders::{path, record::OrderRecord},
    respond::{
        answer::Answer,
        instants,
        list::{self, DEFAULT_LIMIT, Fault, Paging, fault},
        problem::Problem,
    },
    state::State,
};

pub(crate) async fn list(request: HttpRequest, api: State) -> Answer {
    let key = admit(&request, &api.access, Policy::Reads).await?;
    let (query, paging) = parse(request.query_string())?;
    let page = match api.read_order.page(key.owner(), &query).await {
        Err(OrderError::UnknownCursor) => {
            let detail = "must be the identifier of an order of this API key";
            return Err(paging.unknown_cursor("unknown_order", detail));
        }
        page => page?,
    };
    let url = format!("{}{}", api.base_path, path::ORDERS);
    let records = page.items.iter().map(|order| (order.stored.id.0, OrderRecord::listed(order)));
    list::page(&request, url, &paging, (page.has_older, page.has_newer), records)
}

const FILE_NUMBER: &str = "file_number";
const CREATED_AFTER: &str = "created_after";
const CREATED_BEFORE: &str = "created_before";

/// Reads the query of the URL. Reports every parameter at fault.
fn parse(query: &str) -> Result<(PageQuery, Paging), Problem> {
    let mut page = PageQuery {
        file_number: None,
        created_after: None,
        created_before: None,
        limit: DEFAULT_LIMIT,
        cursor: Cursor::Newest,
    };
    let filters = [FILE_NUMBER, CREATED_AFTER, CREATED_BEFORE];
    let paging = Paging::parse(query, &filters, |name, value| read_filter(&mut page, name, value))?;
    page.limit = paging.limit;
    page.cursor = paging.cursor(OrderId);
    Ok((page, paging))
}

/// Reads a parameter into the query.
fn read_filter(page: &mut PageQuery, name: &str, value: &str) -> Result<(), Fault> {
    let instant = || {
        let detail = "must be an RFC 3339 datetime, such as 2026-12-01T20:30:00Z; \
            a plus sign in it is written %2B";
        instants::parse(value).ok_or_else(|| fault(ViolationCode::InvalidFormat, detail))
    };
    match name {
        CREATED_AFTER => page.created_after = Some(instant()?),
        CREATED_BEFORE => page.created_before = Some(instant()?),
        _ => {
            let searched = FileNumber::searched(value.to_owned());
            page.file_number = Some(searched.map_err(|(code, detail)| (code.as_str(), detail))?);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "list_orders_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "list_query_tests.rs"]
mod query_tests;
