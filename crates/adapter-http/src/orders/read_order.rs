//! `GET /api/order/{order_id}`, `…/documents` and `…/history`: an order of the client, the list of its
//! documents, and its history in pages.

use actix_web::{HttpRequest, HttpResponse};
use domain::{
    document::DocumentKind,
    order::StoredOrder,
    ports::{HistoryId, HistoryQuery},
    use_cases::order_error::OrderError,
};

use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::{
        path,
        record::{DocumentRecord, EntryRecord, WholeOrder},
        version,
    },
    request::notes::note,
    respond::{
        answer::Answer,
        conditional::with_tag,
        list::{self, Others, Parameters},
        problem::Problem,
    },
    state::{Api, State},
};

pub(crate) async fn read(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let stored = find(audit, &request, &api).await?;
    let tag = version::tag(&stored);
    if version::is_known(&request, &stored) {
        return Ok(with_tag(HttpResponse::NotModified(), &tag).finish());
    }
    Ok(with_tag(HttpResponse::Ok(), &tag).json(WholeOrder::of(&stored, &api.base_path)))
}

pub(crate) async fn list_documents(audit: Audit, request: HttpRequest, api: State) -> Answer {
    list_kind(audit, &request, &api, DocumentKind::ToSign).await
}

pub(crate) async fn list_signed(audit: Audit, request: HttpRequest, api: State) -> Answer {
    list_kind(audit, &request, &api, DocumentKind::Signed).await
}

async fn list_kind(audit: Audit, request: &HttpRequest, api: &Api, kind: DocumentKind) -> Answer {
    let stored = find(audit, request, api).await?;
    let url = path::of_documents(&api.base_path, stored.id, kind);
    list::whole(request, url, DocumentRecord::of_kind(&stored, kind, &api.base_path))
}

pub(crate) async fn list_history(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Reads).await?;
    let id = path::order_id(&request)?;
    note(&request, |notes| notes.order = Some(id));
    let least = HistoryId::CREATED.0;
    let paging = Parameters::of(request.query_string()).paging(least)?;
    let query = HistoryQuery { limit: paging.limit, cursor: paging.cursor(HistoryId) };
    let page = match api.read_order.by(&admitted).history(admitted.owner(), id, &query).await {
        Err(OrderError::UnknownCursor) => {
            let detail = "must be the identifier of an entry of this history";
            return Err(paging.unknown_cursor("unknown_entry", detail));
        }
        page => page?,
    };
    let others = Others::from(&page);
    let records = page.items.into_iter().map(|entry| (entry.id.0, EntryRecord::of(entry)));
    let url = path::of_history(&api.base_path, id);
    list::page(&request, url, &paging, others, records)
}

/// Returns the order that a request reads.
async fn find(audit: Audit, request: &HttpRequest, api: &Api) -> Result<StoredOrder, Problem> {
    let admitted = audit.admit(request, &api.admission, Policy::Reads).await?;
    let id = path::order_id(request)?;
    note(request, |notes| notes.order = Some(id));
    Ok(api.read_order.by(&admitted).order(admitted.owner(), id).await?)
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
