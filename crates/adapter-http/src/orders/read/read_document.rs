//! `GET /api/order/{order_id}/documents/{position}`: sends a document.

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::{
        Method, StatusCode,
        header::{self, ContentRange, ContentRangeSpec, EntityTag, HeaderName},
    },
    web,
};
use domain::{document::StoredDocument, orders::order_error::OrderError};

use crate::{
    access::{authentication::admit, rate_limit::Policy},
    observe::{metrics::ApiMetrics, request_notes::OrderNote},
    orders::{
        path,
        read::download::{self, Download, OnlyLength},
    },
    respond::{
        answer::{Response, answer},
        conditional,
        problem::Problem,
    },
    state::Api,
};

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

pub(crate) fn read(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let key = admit(request, &api, Policy::Reads).await?;
        let (id, position) = (path::order_id(request)?, path::position(request)?);
        let document = api.read_order.document(key.client(), id, position).await?;
        OrderNote::read(id, Some(position)).leave(request);
        let (tag, size) = (EntityTag::new_strong(document.sha256.to_string()), document.size);
        if let Some(not_modified) = conditional::not_modified(request, &tag) {
            return Ok(not_modified);
        }
        let part = download::requested_range(request, &tag, size)?;
        let mut response = conditional::with_tag(begin(part, &document), &tag);
        if request.method() == Method::HEAD {
            return Ok(response.body(OnlyLength(size)));
        }
        let range = part.map_or(0..size, |(first, last)| first..last.saturating_add(1));
        let length = range.end.saturating_sub(range.start);
        let blocks = api.read_order.bytes(key.client(), id, position, &document, range).await;
        let blocks = blocks.map_err(|error| failed(error, &api.metrics))?;
        Ok(response.body(Download::new(blocks, length, (id.0, position), &api.metrics)))
    })
}

/// Begins the answer with a document, or with a part of it.
fn begin(part: Option<(u64, u64)>, document: &StoredDocument) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    if let Some(range) = part {
        let (range, instance_length) = (Some(range), Some(document.size));
        response
            .status(StatusCode::PARTIAL_CONTENT)
            .insert_header(ContentRange(ContentRangeSpec::Bytes { range, instance_length }));
    }
    response
        .content_type(document.media_type.as_str())
        .insert_header((header::CONTENT_DISPOSITION, download::disposition(document)))
        .insert_header((REPR_DIGEST, download::digest(document)))
        .insert_header((header::ACCEPT_RANGES, "bytes"))
        // A browser that shows the document in spite of its disposition executes nothing in it.
        .insert_header((header::CONTENT_SECURITY_POLICY, "sandbox"));
    response
}

/// Counts a document whose object is missing. The log has its order.
fn failed(error: OrderError, metrics: &ApiMetrics) -> Problem {
    if matches!(error, OrderError::MissingObject { .. }) {
        metrics.documents_missing.inc();
    }
    error.into()
}

#[cfg(test)]
#[path = "read_document_tests.rs"]
mod tests;
