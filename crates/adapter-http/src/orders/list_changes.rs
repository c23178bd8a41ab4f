//! `GET /api/order/changes`: a page of the feed of changes.

use actix_web::HttpRequest;
use domain::{
    order::feed::{FeedChange, FeedCursor, FeedEntry},
    request::ViolationCode,
    use_cases::order_error::OrderError,
};
use serde::Serialize;

use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::path,
    respond::{
        answer::Answer,
        conditional,
        instants::timestamp,
        list::Parameters,
        problem::{FieldProblem, Problem, ProblemCode},
    },
    state::State,
};

const AFTER: &str = "after";

/// The value of `after` that asks for the cursor of now.
const NOW: &str = "now";

pub(crate) async fn list(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Reads).await?;
    let (after, limit) = parse(request.query_string())?;
    api.answers.hold(&request, admitted.caller().party()).await?;
    let reading = api.read_order.by(&admitted);
    let page = match reading.changes(admitted.owner(), after, limit).await {
        Err(OrderError::UnknownCursor) => {
            let detail = "must be a cursor of this database, which may be restored from an older \
                backup: begin without it";
            let error = FieldProblem::of_parameter(AFTER, "unknown_cursor", detail);
            return Err(Problem::invalid(ProblemCode::ValidationFailed, vec![error]));
        }
        page => page?,
    };
    admitted.access().lists(page.entries.len());
    let is_test = admitted.owner().is_test;
    let changes = Changes {
        object: "list",
        url: format!("{}{}", api.base_path, path::CHANGES),
        has_more: page.has_more,
        next_after: page.next.to_string(),
        data: page.entries.into_iter().map(|entry| Change::of(entry, is_test)).collect(),
    };
    conditional::json(&request, &changes, None)
}

/// Reads the query of the URL: the place where the page begins, `None` for now, and the number of entries.
fn parse(query: &str) -> Result<(Option<FeedCursor>, usize), Problem> {
    let mut parameters = Parameters::of(query);
    let after = parameters.read(AFTER, |text| {
        if text == NOW {
            return Ok(None);
        }
        let detail = "must be the cursor of an entry, the next_after of a page, or now";
        text.parse::<FeedCursor>()
            .map(Some)
            .map_err(|_| (ViolationCode::InvalidFormat, detail.into()))
    });
    let limit = parameters.limit();
    parameters.end()?;
    Ok((after.unwrap_or(Some(FeedCursor::START)), limit))
}

#[derive(Serialize)]
struct Changes {
    object: &'static str,
    url: String,
    has_more: bool,
    next_after: String,
    data: Vec<Change>,
}

/// The record of a change.
#[derive(Serialize)]
struct Change {
    cursor: String,
    order_id: i64,
    file_number: Option<String>,
    kind: String,
    at: String,
    order_status: String,
    signing_service_id: i64,
    is_test: bool,
}

impl Change {
    fn of(FeedEntry { cursor, change }: FeedEntry, is_test: bool) -> Self {
        let FeedChange { order, file_number, kind, at, status, signing_service } = change;
        Self {
            cursor: cursor.to_string(),
            order_id: order.0,
            file_number,
            kind,
            at: timestamp(at),
            order_status: status,
            signing_service_id: signing_service.0,
            is_test,
        }
    }
}

#[cfg(test)]
#[path = "list_changes_tests.rs"]
mod tests;
