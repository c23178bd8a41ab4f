//! `GET /api/order`: answers with a page of the client's orders.

use actix_web::HttpRequest;
use domain::{
    appointment::parse_date,
    order::{
        FileNumber, OrderId,
        search::{SearchedText, read_statuses},
    },
    ports::{ListFilter, PageQuery},
    request::ViolationCode,
    use_cases::order_error::OrderError,
};

use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::{path, record::OrderRecord},
    respond::{
        answer::Answer,
        instants,
        list::{self, Fault, Others, Paging, fault},
        problem::{FieldProblem, Problem, ProblemCode},
    },
    state::State,
};

pub(crate) async fn list(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Reads).await?;
    let (query, paging) = parse(request.query_string())?;
    let page = match api.read_order.by(&admitted).page(admitted.owner(), &query).await {
        Err(OrderError::UnknownCursor) => {
            let detail = "must be the identifier of an order of this API key";
            return Err(paging.unknown_cursor("unknown_order", detail));
        }
        page => page?,
    };
    admitted.access().lists(page.items.len());
    let url = format!("{}{}", api.base_path, path::ORDERS);
    let records = page.items.iter().map(|order| (order.stored.id.0, OrderRecord::listed(order)));
    list::page(&request, url, &paging, Others::from(&page), records)
}

const FILE_NUMBER: &str = "file_number";
const CREATED_AFTER: &str = "created_after";
const CREATED_BEFORE: &str = "created_before";
const ORDER_STATUS: &str = "order_status";
const SIGNING_DATE_FROM: &str = "signing_date_from";
const SIGNING_DATE_TO: &str = "signing_date_to";
const UPDATED_AFTER: &str = "updated_after";
const SEARCH: &str = "search";

/// Reads the query of the URL. Reports every parameter at fault.
fn parse(query: &str) -> Result<(PageQuery, Paging), Problem> {
    let mut filter = ListFilter::default();
    let filters = [
        FILE_NUMBER,
        CREATED_AFTER,
        CREATED_BEFORE,
        ORDER_STATUS,
        SIGNING_DATE_FROM,
        SIGNING_DATE_TO,
        UPDATED_AFTER,
        SEARCH,
    ];
    let mut errors = Vec::new();
    let paging = Paging::read_all(1, query, &filters, &mut errors, |name, value| {
        read_filter(&mut filter, name, value)
    });
    if !filter.has_dates() {
        let detail = "must not be before signing_date_from";
        errors.push(FieldProblem::of_parameter(SIGNING_DATE_TO, "conflict", detail));
    }
    if !errors.is_empty() {
        return Err(Problem::invalid(ProblemCode::ValidationFailed, errors));
    }
    Ok((PageQuery { filter, limit: paging.limit, cursor: paging.cursor(OrderId) }, paging))
}

/// Reads a parameter into the filter.
fn read_filter(filter: &mut ListFilter, name: &str, value: &str) -> Result<(), Fault> {
    let named = |(code, detail): (ViolationCode, _)| (code.as_str(), detail);
    let instant = || {
        let detail = "must be an RFC 3339 datetime, such as 2026-12-01T20:30:00Z; \
            a plus sign in it is written %2B";
        instants::parse(value).ok_or_else(|| fault(ViolationCode::InvalidFormat, detail))
    };
    let date = || {
        let detail = "must be a date, such as 2026-12-01";
        parse_date(value).ok_or_else(|| fault(ViolationCode::InvalidFormat, detail))
    };
    match name {
        CREATED_AFTER => filter.created_after = Some(instant()?),
        CREATED_BEFORE => filter.created_before = Some(instant()?),
        UPDATED_AFTER => filter.updated_after = Some(instant()?),
        SIGNING_DATE_FROM => filter.signing_date_from = Some(date()?),
        SIGNING_DATE_TO => filter.signing_date_to = Some(date()?),
        ORDER_STATUS => filter.statuses = read_statuses(value).map_err(named)?,
        SEARCH => filter.search = Some(SearchedText::parse(value.to_owned()).map_err(named)?),
        _ => {
            let searched = FileNumber::searched(value.to_owned());
            filter.file_number = Some(searched.map_err(named)?);
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
