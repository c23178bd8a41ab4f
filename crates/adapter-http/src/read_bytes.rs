//! Counts the bytes of a connection, to tell an idle connection from one whose next head has begun,
//! and to find chunked bodies whose end has two readings.
//!
//! The framework takes all bytes that have arrived. If they are more than the request, it keeps the
//! rest, which may be the beginning of the next head, and does not tell the transport.

use actix_web::http::header::{self, HeaderMap};

const HEAD_END: u32 = u32::from_be_bytes(*b"\r\n\r\n");
/// Other ends that the framework accepts: an empty line after a line feed alone.
const EMPTY_LINES: [(u32, u32); 2] = [(0xffff, 0x0a0a), (0x00ff_ffff, 0x000a_0d0a)];

/// The length of a body as its head announces it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BodyLength {
    Known(u64),
    Chunked,
}

impl BodyLength {
    /// Reads the headers of a request that the framework has accepted.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match content_length(headers) {
            Some(length) => Self::Known(length),
            None if headers.contains_key(header::TRANSFER_ENCODING) => Self::Chunked,
            None => Self::Known(0),
        }
    }
}

/// Returns the length of a body that the headers announce.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The bytes of the current request that the framework has got, or the request has read itself.
pub(crate) enum ReadBytes {
    Counted {
        count: u64,
        /// The length of the head, when its end was seen.
        head: Option<u64>,
        body: BodyLength,
        /// The last bytes of the head.
        last: u32,
        /// The bytes after the head, read as chunks.
        chunks: Chunks,
    },
    /// The framework got more than a request, or a head with unusual line ends. So it is not known
    /// where the next request begins, for the rest of the connection.
    Uncounted { body: BodyLength },
    /// A request ended in doubt ([`Self::is_end_doubtful`]), so what follows may be part of it.
    Lost,
}

/// A place in a chunked body. The framework rejects chunks with another form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Chunks {
    /// In the digits of a length.
    Length(u64),
    /// Behind them, in their line.
    Extension(u64),
    /// In data and its line end, before so many bytes.
    Data(u64),
    /// Behind the line of the last chunk.
    LastLine,
    /// Behind the carriage return of the empty line that ends the body.
    EmptyLine,
    End,
    /// Behind the end.
    Beyond,
    /// In a trailer, or in bytes that are no chunks.
    Other,
}

impl Default for ReadBytes {
    fn default() -> Self {
        let (body, chunks) = (BodyLength::Known(0), Chunks::Length(0));
        Self::Counted { count: 0, head: None, body, last: 0, chunks }
    }
}

impl ReadBytes {
    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let Self::Counted { count, head, body, last, chunks } = self else { return };
        let mut rest = bytes;
        while let (None, [byte, after @ ..]) = (&head, rest) {
            *last = (*last << 8) | u32::from(*byte);
            *count += 1;
            if *last == HEAD_END {
                *head = Some(*count);
            } else if EMPTY_LINES.iter().any(|(mask, end)| *last & mask == *end) {
                *self = Self::Uncounted { body: *body };
                return;
            }
            rest = after;
        }
        *count += rest.len() as u64;
        *chunks = chunks.after(rest);
    }

    pub(crate) fn request_started(&mut self, length: BodyLength) {
        if let Self::Counted { body, .. } | Self::Uncounted { body } = self {
            *body = length;
        }
    }

    pub(crate) fn request_ended(&mut self) {
        let is_exact = match self {
            Self::Counted { count, head: Some(head), body: BodyLength::Known(length), .. } => {
                head.checked_add(*length) == Some(*count)
            }
            Self::Counted { body: BodyLength::Chunked, chunks, .. } => *chunks == Chunks::End,
            _ => false,
        };
        *self = if is_exact {
            Self::default()
        } else if self.is_end_doubtful() {
            Self::Lost
        } else {
            Self::Uncounted { body: BodyLength::Known(0) }
        };
    }

    /// Returns how many bytes of the body are still to come. Returns `None` if its length is not
    /// known, or the framework has bytes that the request has not received.
    pub(crate) fn body_left(&self, received: u64) -> Option<u64> {
        match self {
            Self::Counted { count, head: Some(head), body: BodyLength::Known(length), .. }
                if count - head == received =>
            {
                length.checked_sub(received)
            }
            _ => None,
        }
    }

    /// Returns whether the end of an earlier request is in doubt.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }

    /// Returns whether another reader may see the end of the request elsewhere.
    ///
    /// The framework ends a line of a trailer only at CR LF. RFC 9112, section 2.2 lets a reader end
    /// it at LF. So a proxy may take for a request what the framework takes for a trailer.
    pub(crate) fn is_end_doubtful(&self) -> bool {
        match self {
            Self::Counted { body: BodyLength::Chunked, chunks, .. } => {
                !matches!(chunks, Chunks::End | Chunks::Beyond)
            }
            Self::Counted { .. } => false,
            Self::Uncounted { body } => *body == BodyLength::Chunked,
            Self::Lost => true,
        }
    }

    /// Returns whether the framework has no byte of another request.
    pub(crate) fn is_between_requests(&self) -> bool {
        matches!(self, Self::Counted { count: 0, .. })
    }
}

impl Chunks {
    fn after(mut self, mut bytes: &[u8]) -> Self {
        while let [byte, after @ ..] = bytes {
            let mut rest = after;
            self = match (self, byte) {
                (Self::Length(0) | Self::Extension(0), b'\n') => Self::LastLine,
                // Two bytes end the line of the data.
                (Self::Length(length) | Self::Extension(length), b'\n') => {
                    Self::Data(length.saturating_add(2))
                }
                (Self::Extension(length), _)
                | (Self::Length(length), b';' | b' ' | b'\t' | b'\r') => Self::Extension(length),
                (Self::Length(length), digit) => char::from(*digit)
                    .to_digit(16)
                    .and_then(|digit| length.checked_mul(16)?.checked_add(digit.into()))
                    .map_or(Self::Other, Self::Length),
                (Self::Data(length), _) => {
                    let skipped = bytes.len().min(usize::try_from(length).unwrap_or(usize::MAX));
                    rest = &bytes[skipped..];
                    match length - skipped as u64 {
                        0 => Self::Length(0),
                        left => Self::Data(left),
                    }
                }
                (Self::LastLine, b'\r') => Self::EmptyLine,
                (Self::EmptyLine, b'\n') => Self::End,
                (Self::End | Self::Beyond, _) => return Self::Beyond,
                (Self::LastLine | Self::EmptyLine | Self::Other, _) => return Self::Other,
            };
            bytes = rest;
        }
        self
    }
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
    fn rest_of_a_body_is_known_after_a_usual_head_only() {
        for (head, left) in [
            (&b"POST / HTTP/1.1\r\nHost: t\r\n\r\n"[..], Some(600)),
            (b"POST / HTTP/1.1\r\nHost: t\n\n", None),
            (b"POST / HTTP/1.1\nHost: t\n\r\n", None),
        ] {
            for size in [1, head.len()] {
                let mut bytes = ReadBytes::default();
                head.chunks(size).for_each(|piece| bytes.add(piece));
                bytes.request_started(BodyLength::Known(1_000));
                // The framework has more than the request, which begins with the end of a head.
                let body = [&b"--b\r\nContent-Disposition: x\r\n\r\n"[..], &[b'x'; 369]].concat();
                bytes.add(&body);
                assert_eq!(bytes.body_left(400), left, "{}", head.escape_ascii());
                assert_eq!(bytes.body_left(369), None, "{}", head.escape_ascii());
            }
        }
    }

    #[test]
    fn end_of_chunks_is_certain_without_trailer_only() {
        for (body, doubtful) in [
            (&b"0\r\n\r\n"[..], false),
            (b"3;name=value\r\n0\r\n\r\n000\r\n\r\n", false),
            (b"1\r\n{\r\n0\r\n\r\nPOST / HTTP/1.1\r\n", false),
            (b"0a\r\n0\r\n\r\n0\r\n\r\n", true),
            (b"1\r\n{\r\n0\r\nX: y\r\n\r\n", true),
            (b"1\r\n{\r\n0\r\n\nPOST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n", true),
        ] {
            for size in [1, body.len()] {
                let mut bytes = ReadBytes::default();
                bytes.add(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
                bytes.request_started(BodyLength::Chunked);
                body.chunks(size).for_each(|piece| bytes.add(piece));
                assert_eq!(bytes.is_end_doubtful(), doubtful, "{}", body.escape_ascii());
                bytes.request_ended();
                bytes.request_started(BodyLength::Known(0));
                assert_eq!(bytes.is_lost(), doubtful, "{}", body.escape_ascii());
            }
        }
    }

    #[test]
    fn chunks_after_pipelined_request_have_doubtful_end() {
        let mut bytes = ReadBytes::default();
        bytes.add(b"GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\n\r\n0\r\n\r\n");
        bytes.request_started(BodyLength::Known(0));
        assert!(!bytes.is_end_doubtful());
        bytes.request_ended();
        bytes.request_started(BodyLength::Chunked);
        assert!(bytes.is_end_doubtful());
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
