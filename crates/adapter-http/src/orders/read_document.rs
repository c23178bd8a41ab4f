//! `GET /api/order/{order_id}/documents/{position}`: sends a document, or a part of it.

use std::{convert::Infallible, io, sync::Arc};

use actix_web::{
    HttpRequest, HttpResponseBuilder,
    body::SizedStream,
    http::{
        Method,
        header::{self, EntityTag, HeaderName},
    },
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use domain::{
    document::{DocumentKind, StoredDocument},
    order::{Actor, DocumentId, OrderId},
    ports::{BlobStream, error_chain},
    use_cases::{change_order::Changer, order_error::OrderError},
};
use futures_util::{
    Stream,
    stream::{self, try_unfold},
};
use percent_encoding::percent_encode_byte;
use tracing::Span;

use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::{
        document_blocks::{Cut, DocumentBlocks},
        erasure::Look,
        path,
    },
    request::{metrics::ApiMetrics, notes::note},
    respond::{
        answer::Answer,
        conditional,
        range::{self, Part},
    },
    state::{Api, State},
};

/// The hash of the whole document (RFC 9530).
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Characters of `filename*` that are not escaped, besides letters and digits (RFC 8187, section
/// 3.2.1).
const PLAIN: &[u8] = b"!#$&+-.^_`|~";

/// Longest name in `filename*`, in characters. File systems and proxies take no much longer one.
const LONGEST_NAME: usize = 200;

pub(crate) async fn read(audit: Audit, request: HttpRequest, api: State) -> Answer {
    send(audit, &request, &api, DocumentKind::ToSign).await
}

pub(crate) async fn read_signed(audit: Audit, request: HttpRequest, api: State) -> Answer {
    send(audit, &request, &api, DocumentKind::Signed).await
}

async fn send(audit: Audit, request: &HttpRequest, api: &Api, kind: DocumentKind) -> Answer {
    let admitted = audit.admit(request, &api.admission, Policy::Reads).await?;
    let id = path::document(request, kind)?;
    api.downloads.hold(request, admitted.caller().party()).await?;
    let (reading, owner) = (api.read_order.by(&admitted).clone(), admitted.owner());
    let (document, object) = reading.document(owner, id).await?;
    note(request, |notes| {
        (notes.order, notes.document) = (Some(id.order), Some(id.position));
    });
    let (tag, size) = (EntityTag::new_strong(document.sha256.to_string()), document.size);
    if let Some(not_modified) = conditional::not_modified(request, &tag) {
        return Ok(not_modified);
    }
    let part = range::requested(request, &tag, size)?;
    let mut response = conditional::with_tag(begin(part, &document), &tag);
    if request.method() == Method::HEAD {
        return Ok(response.body(SizedStream::new(size, stream::empty::<Result<_, Infallible>>())));
    }
    let (range, length) = (part.bytes(), part.length());
    // A part that ends the document counts, too, if the reader says which document the beginning was of.
    let is_resumed = request.headers().contains_key(header::IF_RANGE);
    let has_all = range.end == size && (range.start == 0 || is_resumed);
    let is_first = document.first_downloaded_at.is_none() && has_all;
    let is_for_other_side = Changer::of(admitted.caller()).actor != Actor::uploading(kind);
    let blocks = reading.bytes(owner, id, &object, range).await;
    if matches!(blocks, Err(OrderError::MissingObject(_))) {
        // The log has its order.
        api.metrics.documents_missing.inc();
    }
    let keys = api.admission.keys.clone();
    let look = Look::at(reading.clone(), keys, Arc::clone(admitted.caller()), id);
    let note_end = move || {
        if is_first && is_for_other_side {
            reading.note_download(id);
        }
    };
    Ok(response.body(body(blocks?, length, id, look, note_end, &api.metrics)))
}

/// Begins the answer with a document, or with a part of it.
fn begin(part: Part, document: &StoredDocument) -> HttpResponseBuilder {
    let mut response = part.response();
    let digest = BASE64_STANDARD.encode(document.sha256.0);
    response
        .content_type(document.media_type.as_str())
        .insert_header((header::CONTENT_DISPOSITION, disposition(document)))
        .insert_header((REPR_DIGEST, format!("sha-256=:{digest}:")))
        // A browser that shows the document in spite of its disposition executes nothing in it.
        .insert_header((header::CONTENT_SECURITY_POLICY, "sandbox"));
    response
}

/// Returns the value of `Content-Disposition` (RFC 6266): the sanitized name, and the end of the name
/// as sent, with its extension.
fn disposition(StoredDocument { name, name_as_sent, .. }: &StoredDocument) -> String {
    let start = name_as_sent.char_indices().rev().nth(LONGEST_NAME - 1).map_or(0, |(at, _)| at);
    let mut value = format!("attachment; filename=\"{name}\"; filename*=UTF-8''");
    for byte in name_as_sent[start..].bytes() {
        if byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) {
            value.push(byte.into());
        } else {
            value.push_str(percent_encode_byte(byte));
        }
    }
    value
}

/// Returns the next `length` bytes of a document. When the store fails, the order is erased, the document
/// withdrawn or the key revoked, the body fails too, and actix cuts the connection: a part must not look whole.
/// `note_end` runs when all bytes were taken.
fn body<F: Fn() + 'static>(
    blocks: BlobStream,
    length: u64,
    DocumentId { order: OrderId(order_id), position: document, .. }: DocumentId,
    look: Look,
    note_end: F,
    metrics: &ApiMetrics,
) -> SizedStream<impl Stream<Item = io::Result<Bytes>> + use<F>> {
    let (sent, cut) = (metrics.document_bytes_read.clone(), metrics.downloads_cut.clone());
    // actix reads a body outside of the span of its request.
    let span = Span::current();
    let cut_off = move |cut_off| {
        let _entered = span.enter();
        match cut_off {
            Cut::Gone => {
                tracing::info!(
                    order_id,
                    document,
                    "download cut off: erased, withdrawn, or the key was revoked"
                );
            }
            Cut::Broken(error) => {
                let error = error_chain(&*error);
                tracing::error!(order_id, document, error, "download cut off: the store failed");
                cut.inc();
            }
        }
        io::Error::from(io::ErrorKind::UnexpectedEof)
    };
    let blocks = DocumentBlocks { blocks, left: length, look };
    let blocks = try_unfold((blocks, sent, cut_off, note_end), move |state| async move {
        let (mut blocks, sent, cut_off, note_end) = state;
        let Some(block) = blocks.next().await.map_err(&cut_off)? else {
            note_end();
            return Ok(None);
        };
        sent.inc_by(block.len() as u64);
        Ok(Some((block, (blocks, sent, cut_off, note_end))))
    });
    SizedStream::new(length, blocks)
}

#[cfg(test)]
#[path = "download_tests.rs"]
mod download_tests;

#[cfg(test)]
#[path = "read_document_tests.rs"]
mod tests;
