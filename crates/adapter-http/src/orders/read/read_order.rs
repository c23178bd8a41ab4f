//! `GET /api/order/{order_id}` and `GET /api/order/{order_id}/documents`: an order of the client,
//! and the list of its documents.

use actix_web::{HttpRequest, HttpResponse};
use domain::order::StoredOrder;

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    orders::{
        path,
        record::{DocumentRecord, WholeOrder},
        version,
    },
    request::notes::note,
    respond::{answer::Answer, conditional::with_tag, list, problem::Problem},
    state::{Api, State},
};

pub(crate) async fn read(request: HttpRequest, api: State) -> Answer {
    let stored = find(&request, &api).await?;
    let tag = version::tag(&stored);
    if version::is_known(&request, &stored) {
        return Ok(with_tag(HttpResponse::NotModified(), &tag).finish());
    }
    Ok(with_tag(HttpResponse::Ok(), &tag).json(WholeOrder::of(&stored, &api.base_path)))
}

pub(crate) async fn list_documents(request: HttpRequest, api: State) -> Answer {
    let stored = find(&request, &api).await?;
    let url = path::of_documents(&api.base_path, stored.id);
    let records = DocumentRecord::all(&stored.documents, 0, &url);
    list::whole(&request, url.clone(), records)
}

/// Returns the order that a request reads.
async fn find(request: &HttpRequest, api: &Api) -> Result<StoredOrder, Problem> {
    let key = admit(request, &api.access, Policy::Reads).await?;
    let id = path::order_id(request)?;
    note(request, |notes| notes.order = Some(id));
    Ok(api.read_order.order(key.owner(), id).await?)
}

#[cfg(test)]
#[path = "read_order_tests.rs"]
mod tests;
