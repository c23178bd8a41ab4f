//! Parts of files (RFC 9110, section 14).

use std::ops::Range as Bytes;

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::{
        Method,
        header::{self, ContentRange, ContentRangeSpec, EntityTag, Header as _, IfRange, Range},
    },
};

use crate::respond::problem::Problem;

/// The part of a file that an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The first and the last byte; `None` for the whole file.
    requested: Option<(u64, u64)>,
    /// The size of the whole file, in bytes.
    size: u64,
}

impl Part {
    /// Returns the bytes of the file.
    pub(crate) fn bytes(self) -> Bytes<u64> {
        self.requested.map_or(0..self.size, |(first, last)| first..last.saturating_add(1))
    }

    /// Returns the number of bytes.
    pub(crate) fn length(self) -> u64 {
        let Bytes { start, end } = self.bytes();
        end.saturating_sub(start)
    }

    /// Begins the answer: 200 for the whole file, or 206.
    pub(crate) fn response(self) -> HttpResponseBuilder {
        let mut response = match self.requested {
            Some(_) => HttpResponse::PartialContent(),
            None => HttpResponse::Ok(),
        };
        response.insert_header((header::ACCEPT_RANGES, "bytes"));
        if self.requested.is_some() {
            let (range, instance_length) = (self.requested, Some(self.size));
            let spec = ContentRangeSpec::Bytes { range, instance_length };
            response.insert_header(ContentRange(spec));
        }
        response
    }
}

/// Returns the part that a request asks for. It is the whole file of `size` bytes if the request asks for
/// none, or in a way that the service does not understand (RFC 9110, section 14.2).
///
/// # Errors
/// The file does not have the range.
pub(crate) fn requested(
    request: &HttpRequest,
    tag: &EntityTag,
    size: u64,
) -> Result<Part, Problem> {
    let whole = Part { requested: None, size };
    let mut values = request.headers().get_all(header::RANGE);
    let (Some(value), None) = (values.next(), values.next()) else { return Ok(whole) };
    // The parser of actix accepts signs, and skips ranges that it cannot read.
    let one_range = |set: &str| {
        let set = set.trim();
        !set.is_empty() && set.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    let parts = value.to_str().ok().and_then(|value| value.split_once('='));
    let set = parts.filter(|(unit, set)| unit.eq_ignore_ascii_case("bytes") && one_range(set));
    let range = match set.and_then(|(_, set)| format!("bytes={set}").parse().ok()) {
        Some(Range::Bytes(ranges)) if request.method() == Method::GET => ranges.first().cloned(),
        _ => None,
    };
    let Some(range) = range.filter(|_| is_unchanged(request, tag)) else { return Ok(whole) };
    let requested = range.to_satisfiable_range(size);
    let requested = requested.ok_or_else(|| Problem::range_not_satisfiable(size))?;
    Ok(Part { requested: Some(requested), ..whole })
}

/// Returns whether `If-Range` permits a part (RFC 9110, section 13.1.5). Files have no date of their last
/// change, so only their tag can.
fn is_unchanged(request: &HttpRequest, tag: &EntityTag) -> bool {
    !request.headers().contains_key(header::IF_RANGE)
        || matches!(IfRange::parse(request), Ok(IfRange::EntityTag(known)) if known.strong_eq(tag))
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
