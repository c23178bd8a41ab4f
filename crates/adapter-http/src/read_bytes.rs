//! Counts the bytes of a connection, to tell an idle connection from one whose next head has begun.
//!
//! The framework takes all bytes that have arrived. If they are more than the request, it keeps the
//! rest, which may be the beginning of the next head, and does not tell the transport.

use actix_web::http::header::{self, HeaderMap};

const HEAD_END: u64 = u64::from_be_bytes(*b"\0\0\0\0\r\n\r\n");
const LAST_CHUNK: u64 = u64::from_be_bytes(*b"\0\0\x000\r\n\r\n");

/// The length of a body as its head announces it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BodyLength {
    Known(u64),
    Chunked,
}

impl BodyLength {
    /// Reads the headers of a request that the framework has accepted.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let length = headers.get(header::CONTENT_LENGTH);
        match length.and_then(|length| length.to_str().ok()?.parse().ok()) {
            Some(length) => Self::Known(length),
            None if headers.contains_key(header::TRANSFER_ENCODING) => Self::Chunked,
            None => Self::Known(0),
        }
    }
}

/// The bytes of the current request that the framework has got.
pub(crate) enum ReadBytes {
    Counted {
        count: u64,
        /// The length of the head, when its end was seen.
        head: Option<u64>,
        body: BodyLength,
        /// The last eight bytes.
        last: u64,
    },
    /// The framework got more than a request, or a head with unusual line ends. So it is not known
    /// where the next request begins, for the rest of the connection.
    Uncounted,
}

impl Default for ReadBytes {
    fn default() -> Self {
        Self::Counted { count: 0, head: None, body: BodyLength::Known(0), last: 0 }
    }
}

impl ReadBytes {
    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let Self::Counted { count, head, last, .. } = self else { return };
        let mut rest = bytes;
        while let (None, [byte, after @ ..]) = (&head, rest) {
            *last = (*last << 8) | u64::from(*byte);
            *count += 1;
            if ends_with(*last, HEAD_END) {
                *head = Some(*count);
            }
            rest = after;
        }
        for byte in &rest[rest.len().saturating_sub(8)..] {
            *last = (*last << 8) | u64::from(*byte);
        }
        *count += rest.len() as u64;
    }

    pub(crate) fn request_started(&mut self, length: BodyLength) {
        if let Self::Counted { body, .. } = self {
            *body = length;
        }
    }

    pub(crate) fn request_ended(&mut self) {
        let is_exact = match self {
            Self::Counted { count, head: Some(head), body: BodyLength::Known(length), .. } => {
                head.checked_add(*length) == Some(*count)
            }
            Self::Counted { head: Some(_), body: BodyLength::Chunked, last, .. } => {
                ends_with(*last, LAST_CHUNK)
            }
            _ => false,
        };
        *self = if is_exact { Self::default() } else { Self::Uncounted };
    }

    /// Returns whether the framework has no byte of another request.
    pub(crate) fn is_between_requests(&self) -> bool {
        matches!(self, Self::Counted { count: 0, .. })
    }
}

/// Returns whether eight bytes end with others, before which there are zeros.
fn ends_with(last: u64, end: u64) -> bool {
    let mask = u64::MAX >> (end.leading_zeros() / 8 * 8);
    last & mask == end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the connection is idle after a request and its answer.
    fn is_idle_after(pieces: &[&[u8]], body: BodyLength) -> bool {
        let mut bytes = ReadBytes::default();
        for piece in pieces {
            bytes.add(piece);
        }
        bytes.request_started(body);
        bytes.request_ended();
        bytes.is_between_requests()
    }

    #[test]
    fn exact_request_leaves_nothing() {
        for (request, body) in [
            (&b"GET / HTTP/1.1\r\nHost: t\r\n\r\n"[..], BodyLength::Known(0)),
            (b"\r\nPOST / HTTP/1.1\r\n\r\n{\r\n\r\n}", BodyLength::Known(6)),
            (b"POST / HTTP/1.1\r\n\r\n1\r\n{\r\n0\r\n\r\n", BodyLength::Chunked),
        ] {
            assert!(is_idle_after(&[request], body), "{body:?}");
            let bytes: Vec<_> = request.chunks(1).collect();
            assert!(is_idle_after(&bytes, body), "{body:?}");
            assert!(!is_idle_after(&[request, b"P"], body), "{body:?}");
            assert!(!is_idle_after(&[&[request, b"P"].concat()], body), "{body:?}");
            assert!(!is_idle_after(&[request, b"\r\n"], body), "{body:?}");
        }
    }

    #[test]
    fn requests_after_each_other_are_counted_anew() {
        let mut bytes = ReadBytes::default();
        for _ in 0..2 {
            bytes.add(b"GET / HTTP/1.1\r\n\r\n");
            assert!(!bytes.is_between_requests());
            bytes.request_started(BodyLength::Known(0));
            bytes.request_ended();
            assert!(bytes.is_between_requests());
        }
    }
}
