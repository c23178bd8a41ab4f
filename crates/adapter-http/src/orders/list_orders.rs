//! `GET /api/order`: answers with a page of the client's orders.

use actix_web::HttpRequest;
use domain::{
    api_key::Party,
    appointment::parse_date,
    order::{
        FileNumber, OrderId, SigningServiceId,
        attention::{AttentionFilter, read_attention},
        search::{MAX_NAME, SearchedName, SearchedText, read_statuses},
    },
    ports::{ListFilter, PageQuery},
    request::{Fault, Line, Text as _, ViolationCode, rules::text},
    use_cases::order_error::OrderError,
};
use time::{Date, OffsetDateTime};

use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::{path, record::EntryOfList},
    respond::{
        answer::Answer,
        list::{self, Others, Paging, Parameters, cursor_of, instant},
        problem::Problem,
    },
    state::State,
};

pub(crate) async fn list(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Reads).await?;
    let (party, now) = (admitted.caller().party(), api.clock.now());
    let (query, paging) = parse(request.query_string(), party, now)?;
    let walk = match query.filter.walked_orders() {
        Some(_) => Some(api.walks.acquire(&request, party).await?),
        None => None,
    };
    api.answers.hold(&request, party).await?;
    let page = match api.read_order.by(&admitted).page(admitted.owner(), &query).await {
        Err(OrderError::UnknownCursor) => {
            let detail = "must be the identifier of an order of this API key";
            return Err(paging.unknown_cursor("unknown_order", detail));
        }
        page => page?,
    };
    drop(walk);
    admitted.access().lists(page.items.len());
    let url = format!("{}{}", api.base_path, path::ORDERS);
    let records =
        page.items.iter().map(|order| (cursor_of(order.place()), EntryOfList::of(order, now)));
    list::page(&request, url, &paging, Others::from(&page), records)
}

/// Reads the query of the URL. Reports every parameter at fault. Each side filters by the other one.
fn parse(query: &str, party: Party, now: OffsetDateTime) -> Result<(PageQuery, Paging), Problem> {
    let mut parameters = Parameters::of(query);
    let (signing_service, client_name) = match party {
        Party::Client(_) => (parameters.read("signing_service_id", service), None),
        Party::Service(_) => (None, parameters.read("client", name)),
    };
    let codes = parameters.read("attention", read_attention);
    let filter = ListFilter {
        file_number: parameters.read("file_number", |text| FileNumber::searched(text.to_owned())),
        created_after: parameters.read("created_after", instant),
        created_before: parameters.read("created_before", instant),
        statuses: parameters.read("order_status", read_statuses).unwrap_or_default(),
        signing_date_from: parameters.read("signing_date_from", date),
        signing_date_to: parameters.read(SIGNING_DATE_TO, date),
        updated_after: parameters.read("updated_after", instant),
        search: parameters.read("search", |text| SearchedText::parse(text.to_owned())),
        signing_service,
        client_name,
        notary: parameters.read("notary", |text| SearchedName::parse(text.to_owned())),
        attention: codes.map(|codes| AttentionFilter { codes, now }),
        by_appointment: parameters.read("order_by", by_appointment).is_some(),
    };
    if !filter.has_dates() {
        parameters.conflict(SIGNING_DATE_TO, "must not be before signing_date_from");
    }
    let cursor_starts = parameters.cursor_starts(filter.by_appointment);
    let paging = parameters.paging(1)?;
    let (limit, cursor) = (paging.limit, paging.cursor(OrderId));
    Ok((PageQuery { filter, limit, cursor, cursor_starts }, paging))
}

const SIGNING_DATE_TO: &str = "signing_date_to";

fn by_appointment(text: &str) -> Result<(), Fault> {
    if text == "appointment" {
        return Ok(());
    }
    Err((ViolationCode::NotAllowed, "must be appointment".into()))
}

fn service(text: &str) -> Result<SigningServiceId, Fault> {
    let number = text.parse().ok().filter(|number| *number > 0 && !text.starts_with('+'));
    let detail = "must be the identifier of a signing service";
    number.map(SigningServiceId).ok_or((ViolationCode::InvalidFormat, detail.into()))
}

fn name(sent: &str) -> Result<String, Fault> {
    let line = Line::clean(sent.to_owned());
    text(MAX_NAME)(&line)?;
    Ok(line.into())
}

fn date(text: &str) -> Result<Date, Fault> {
    let detail = "must be a date, such as 2026-12-01";
    parse_date(text).ok_or((ViolationCode::InvalidFormat, detail.into()))
}

#[cfg(test)]
#[path = "list_orders_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "list_query_tests.rs"]
mod query_tests;
