//! `GET /api/order/{order_id}`, `…/documents`, `…/history` and `…/notes`: an order of the client, the list of
//! its documents, and its history and notes in pages.

use actix_web::{HttpRequest, HttpResponse};
use domain::{
    api_key::Owner,
    document::{DocumentCounts, DocumentKind},
    order::{OrderId, attention::Attention},
    ports::{HistoryEntry, HistoryId, HistoryQuery, NoteNumber, NoteQuery},
    use_cases::{order_error::OrderError, people::name_doers::Viewer, read_order::ReadOrder},
};

use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::{
        path,
        record::{DocumentRecord, EntryRecord, NumberedNoteRecord, WholeOrder},
        version,
    },
    request::notes::note,
    respond::{
        answer::Answer,
        conditional::with_tag,
        list::{self, Others, Paging, Parameters},
        problem::Problem,
    },
    state::{Api, State},
};

pub(crate) async fn read(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let (reading, owner, id) = begin(audit, &request, &api).await?;
    let now = api.clock.now();
    if version::names_known(&request) {
        let listed = reading.listed(owner, id).await?;
        let attention = Attention::of(&listed.stored, listed.counts, now);
        if version::is_known(&request, &listed.stored, &attention) {
            let tag = version::tag(&listed.stored, &attention);
            return Ok(with_tag(HttpResponse::NotModified(), &tag).finish());
        }
    }
    let stored = reading.order(owner, id).await?;
    let counts = DocumentCounts::of(&stored.documents, &stored.signed_documents);
    let tag = version::tag(&stored, &Attention::of(&stored, counts, now));
    let names = api.name_doers.of_order(Viewer::Side(owner.party), &stored).await?;
    let whole = WholeOrder::of(&stored, &api.base_path, now, &names);
    Ok(with_tag(HttpResponse::Ok(), &tag).json(whole))
}

pub(crate) async fn list_documents(audit: Audit, request: HttpRequest, api: State) -> Answer {
    list_kind(audit, &request, &api, DocumentKind::ToSign).await
}

pub(crate) async fn list_signed(audit: Audit, request: HttpRequest, api: State) -> Answer {
    list_kind(audit, &request, &api, DocumentKind::Signed).await
}

async fn list_kind(audit: Audit, request: &HttpRequest, api: &Api, kind: DocumentKind) -> Answer {
    let (reading, owner, id) = begin(audit, request, api).await?;
    let stored = reading.with_documents(owner, id).await?;
    let url = path::of_documents(&api.base_path, id, kind);
    let names = api.name_doers.of_order(Viewer::Side(owner.party), &stored).await?;
    list::whole(request, url, DocumentRecord::of_kind(&stored, kind, &api.base_path, &names))
}

pub(crate) async fn list_history(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let (reading, owner, id) = begin(audit, &request, &api).await?;
    let least = HistoryId::CREATED.0;
    let paging = Parameters::of(request.query_string()).paging(least)?;
    let query = HistoryQuery { limit: paging.limit, cursor: paging.cursor(HistoryId) };
    let page = match reading.history(owner, id, &query).await {
        Err(OrderError::UnknownCursor) => {
            let detail = "must be the identifier of an entry of this history";
            return Err(paging.unknown_cursor("unknown_entry", detail));
        }
        page => page?,
    };
    let others = Others::from(&page);
    let acts = page.items.iter().map(|entry| (entry.change.actor, entry.change.by));
    let names = api.name_doers.named(Viewer::Side(owner.party), acts).await?;
    let record = |entry: HistoryEntry| (entry.id.0, EntryRecord::of(entry, &names));
    let records = page.items.into_iter().map(record);
    let url = path::of_history(&api.base_path, id);
    list::page(&request, url, &paging, others, records)
}

pub(crate) async fn list_notes(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let (reading, owner, id) = begin(audit, &request, &api).await?;
    let paging = Paging::parse(request.query_string())?;
    let query = NoteQuery { limit: paging.limit, cursor: paging.cursor(NoteNumber) };
    let page = match reading.notes(owner, id, &query).await {
        Err(OrderError::UnknownCursor) => {
            let detail = "must be the identifier of a note of this order";
            return Err(paging.unknown_cursor("unknown_entry", detail));
        }
        page => page?,
    };
    let others = Others::from(&page);
    let acts = page.items.iter().map(|it| (it.note.author, it.note.by));
    let names = api.name_doers.named(Viewer::Side(owner.party), acts).await?;
    let records = page.items.iter().map(|it| (it.number.0, NumberedNoteRecord::of(it, &names)));
    let url = path::of_notes(&api.base_path, id);
    list::page(&request, url, &paging, others, records)
}

/// Admits a read of an order. Returns what reads it, and which order of whom.
async fn begin(
    audit: Audit,
    request: &HttpRequest,
    api: &Api,
) -> Result<(ReadOrder, Owner, OrderId), Problem> {
    let admitted = audit.admit(request, &api.admission, Policy::Reads).await?;
    let id = path::order_id(request)?;
    note(request, |notes| notes.order = Some(id));
    api.answers.hold(request, admitted.caller().party()).await?;
    Ok((api.read_order.by(&admitted).clone(), admitted.owner(), id))
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
