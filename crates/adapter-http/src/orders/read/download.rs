//! A document as an answer: its headers, the requested part, and its bytes as a stream.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::{
    HttpRequest,
    body::{BodySize, MessageBody},
    http::{
        Method,
        header::{self, EntityTag, Header as _, IfRange, Range},
    },
};
use bytes::Bytes;
use domain::{
    document::StoredDocument,
    ports::{BlobStream, error_chain},
};
use futures_util::StreamExt as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use prometheus::IntCounter;
use sfv::{DictSerializer, KeyRef};
use tracing::Span;

use crate::{observe::metrics::ApiMetrics, respond::problem::Problem};

/// Characters of `filename*` that are not escaped (RFC 8187, section 3.2.1).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Longest name in `filename*`, in characters. File systems and proxies take no much longer one.
const LONGEST_NAME: usize = 200;

/// Bytes that actix gets at once. It copies them, and a slow client holds the copy.
const SLICE: usize = 16 * 1024;

/// Returns the value of `Content-Disposition` (RFC 6266): the sanitized name, and the name as sent.
pub(crate) fn disposition(document: &StoredDocument) -> String {
    let extended = utf8_percent_encode(shortened(&document.name_as_sent), ESCAPED);
    format!("attachment; filename=\"{}\"; filename*=UTF-8''{extended}", document.name)
}

/// Returns the end of a name, with its extension.
fn shortened(name: &str) -> &str {
    let start = name.char_indices().rev().nth(LONGEST_NAME - 1).map_or(0, |(at, _)| at);
    &name[start..]
}

/// Returns the value of `Repr-Digest` (RFC 9530).
pub(crate) fn digest(document: &StoredDocument) -> String {
    let mut digests = DictSerializer::new();
    let _ = digests.bare_item(KeyRef::constant("sha-256"), &document.sha256.0[..]);
    digests.finish().unwrap_or_default()
}

/// Returns the first and the last byte that a request asks for; `None` if it asks for the whole
/// document, or in a way that the service does not understand (RFC 9110, section 14.2).
pub(crate) fn requested_range(
    request: &HttpRequest,
    tag: &EntityTag,
    size: u64,
) -> Result<Option<(u64, u64)>, Problem> {
    let mut values = request.headers().get_all(header::RANGE);
    let (Some(value), None) = (values.next(), values.next()) else { return Ok(None) };
    // The parser of actix accepts signs, and skips ranges that it cannot read.
    let one_range = |set: &str| {
        let set = set.trim();
        !set.is_empty() && set.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    let value = value.to_str().ok().filter(|value| {
        value.split_once('=').is_some_and(|(unit, set)| unit == "bytes" && one_range(set))
    });
    let range = match value.and_then(|value| value.parse().ok()) {
        Some(Range::Bytes(ranges)) if request.method() == Method::GET => ranges.first().cloned(),
        _ => None,
    };
    let Some(range) = range.filter(|_| is_unchanged(request, tag)) else { return Ok(None) };
    range.to_satisfiable_range(size).map(Some).ok_or_else(|| Problem::range_not_satisfiable(size))
}

/// Returns whether `If-Range` permits a part (RFC 9110, section 13.1.5). Documents have no date of
/// their last change, so only their tag can.
fn is_unchanged(request: &HttpRequest, tag: &EntityTag) -> bool {
    !request.headers().contains_key(header::IF_RANGE)
        || matches!(IfRange::parse(request), Ok(IfRange::EntityTag(known)) if known.strong_eq(tag))
}

/// The length of a body that is not sent.
pub(crate) struct OnlyLength(pub(crate) u64);

impl MessageBody for OnlyLength {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.0)
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, io::Error>>> {
        Poll::Ready(None)
    }
}

/// The bytes of a document. When the store fails, it fails too, and actix cuts the
/// connection: a part must not look whole.
pub(crate) struct Download {
    blocks: BlobStream,
    /// What is left of the last block.
    block: Bytes,
    left: u64,
    /// The order and the position, for the log.
    order_id: i64,
    position: u32,
    /// The span of the request. actix reads a body outside of it.
    span: Span,
    sent: IntCounter,
    cut: IntCounter,
}

impl Download {
    /// Sends `length` bytes.
    pub(crate) fn new(
        blocks: BlobStream,
        length: u64,
        (order_id, position): (i64, u32),
        metrics: &ApiMetrics,
    ) -> Self {
        Self {
            blocks,
            block: Bytes::new(),
            left: length,
            order_id,
            position,
            span: Span::current(),
            sent: metrics.document_bytes_read.clone(),
            cut: metrics.downloads_cut.clone(),
        }
    }

    fn fail(&mut self, error: &str) -> Poll<Option<Result<Bytes, io::Error>>> {
        let (order_id, document) = (self.order_id, self.position);
        self.span.in_scope(|| {
            tracing::error!(order_id, document, error, "download cut off: the store failed");
        });
        self.cut.inc();
        Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())))
    }
}

impl MessageBody for Download {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.left)
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        while self.block.is_empty() {
            match ready!(self.blocks.poll_next_unpin(context)) {
                Some(Ok(block)) => self.block = block,
                Some(Err(error)) => return self.fail(&error_chain(&error)),
                None => return self.fail("the object is shorter than the document"),
            }
        }
        let length = self.block.len().min(SLICE);
        let slice = self.block.split_to(length);
        let Some(left) = self.left.checked_sub(slice.len() as u64) else {
            return self.fail("the object is longer than the document");
        };
        self.left = left;
        self.sent.inc_by(slice.len() as u64);
        Poll::Ready(Some(Ok(slice)))
    }
}

#[cfg(test)]
#[path = "download_tests.rs"]
mod tests;
