//! Removes `Content-Length` from the headers of a form's parts.
//!
//! A part ends at its boundary (RFC 2046, section 5.1.1) and has no length of its own (RFC 7578,
//! section 4.8). Some clients send one. The parser trusts it, and would silently drop the rest of a
//! part whose length is too small.
//!
//! The parser also accepts a boundary after a lone carriage return as the end of a part, and drops
//! the rest of its line. It accepts a line feed alone as the end of a header line, and drops the
//! text between an empty line so ended and the next one. Such forms are rejected.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::error::PayloadError;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use memchr::memmem::Finder;

/// Longer headers pass unchanged: the parser rejects them.
const MAX_HEADERS: usize = 16 * 1024;

/// Bytes that are copied at a time, so that a form needs little more memory than this.
const STEP: usize = 8_192;

/// A form without `Content-Length` in its parts.
pub(crate) struct WithoutPartLengths<S> {
    form: S,
    /// Finds the first boundary, with the end of the line before it.
    first: Finder<'static>,
    /// Finds any later boundary, without a line end.
    boundary: Finder<'static>,
    state: State,
    /// Bytes that have arrived and were not examined yet.
    arrived: Bytes,
    /// Examined bytes that cannot be passed on yet.
    pending: BytesMut,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Before the first boundary, where lines may end in LF alone.
    Preamble,
    /// In the content of a part.
    Content,
    /// After a possible boundary, perhaps the first.
    Boundary { preamble: bool },
    /// In the headers of a part.
    Headers,
    /// After the last boundary, or after headers that the parser rejects.
    Rest,
}

impl<S> WithoutPartLengths<S> {
    pub(crate) fn new(form: S, boundary: &str) -> Self {
        // The form may start with its first boundary, without a line end before it.
        let pending = BytesMut::from(&b"\r\n"[..]);
        let finder = |text: String| Finder::new(&text).into_owned();
        let (first, boundary) =
            (finder(format!("\n--{boundary}")), finder(format!("--{boundary}")));
        Self { form, first, boundary, state: State::Preamble, arrived: Bytes::new(), pending }
    }

    /// Returns the length of a delimiter: a line end and a boundary.
    fn delimiter_length(&self) -> usize {
        2 + self.boundary.needle().len()
    }

    /// Returns where the delimiter of a part's content starts.
    fn delimiter(&self, content: &[u8]) -> Option<Result<usize, PayloadError>> {
        self.boundary.find_iter(content).find_map(|at| match content[..at] {
            [.., b'\r', b'\n'] => Some(Ok(at - 2)),
            [.., b'\r'] => {
                Some(Err(malformed("a boundary follows a carriage return without a line feed")))
            }
            _ => None,
        })
    }

    /// Returns the next bytes of a part's content without copying them: up to a boundary, or to the
    /// possible start of one.
    fn through(&mut self) -> Option<Result<Bytes, PayloadError>> {
        let length = self.delimiter_length();
        if self.state != State::Content || self.arrived.len() < 2 * length {
            return None;
        }
        let held = self.pending.len();
        if held > 0 {
            // One delimiter's length more decides whether the held bytes start a boundary.
            self.pending.extend_from_slice(&self.arrived[..length - 1]);
            if self.delimiter(&self.pending).is_some() {
                self.arrived.advance(length - 1);
                return self.ready();
            }
            self.pending.truncate(held);
            return Some(Ok(self.pending.split().freeze()));
        }
        let end = match self.delimiter(&self.arrived) {
            Some(Ok(at)) => {
                self.state = State::Boundary { preamble: false };
                at + length
            }
            Some(Err(error)) => return Some(Err(error)),
            None => self.arrived.len() + 1 - length,
        };
        Some(Ok(self.arrived.split_to(end)))
    }

    /// Returns the next examined bytes that can be passed on.
    fn ready(&mut self) -> Option<Result<Bytes, PayloadError>> {
        let passed = match self.state {
            State::Preamble | State::Content => {
                let preamble = self.state == State::Preamble;
                let (found, length) = if preamble {
                    (self.first.find(&self.pending).map(Ok), self.first.needle().len())
                } else {
                    (self.delimiter(&self.pending), self.delimiter_length())
                };
                match found {
                    Some(Ok(at)) => {
                        self.state = State::Boundary { preamble };
                        at + length
                    }
                    Some(Err(error)) => return Some(Err(error)),
                    // The possible start of a boundary waits for its end.
                    None => (self.pending.len() + 1).saturating_sub(length),
                }
            }
            State::Boundary { preamble } => {
                self.state = match (&self.pending[..], preamble) {
                    ([b'\r', b'\n', ..], _) => State::Headers,
                    ([b'-', b'-', ..], false) | ([b'-', b'-', b'\r', b'\n', ..], true) => {
                        State::Rest
                    }
                    ([] | [_] | [b'-', b'-'] | [b'-', b'-', b'\r'], _) => return None,
                    // A line that only starts like a boundary.
                    (_, true) => State::Preamble,
                    (_, false) => State::Content,
                };
                return self.ready();
            }
            State::Headers if self.pending.len() > MAX_HEADERS => {
                self.state = State::Rest;
                return self.ready();
            }
            State::Headers => {
                let end = memchr::memmem::find(&self.pending, b"\r\n\r\n")?;
                if self.pending[..end].split_inclusive(|byte| *byte == b'\n').any(is_bare_line) {
                    return Some(Err(malformed("a header line ends without a carriage return")));
                }
                let mut headers = without_length(&self.pending.split_to(end));
                headers.extend_from_slice(&self.pending.split_to(4));
                self.state = State::Content;
                return Some(Ok(headers.freeze()));
            }
            State::Rest => self.pending.len(),
        };
        (passed > 0).then(|| Ok(self.pending.split_to(passed).freeze()))
    }
}

fn malformed(reason: &'static str) -> PayloadError {
    io::Error::new(io::ErrorKind::InvalidData, reason).into()
}

/// Returns whether a line ends with a line feed alone.
fn is_bare_line(line: &[u8]) -> bool {
    line.ends_with(b"\n") && !line.ends_with(b"\r\n")
}

/// Returns header lines without `Content-Length`.
fn without_length(headers: &[u8]) -> BytesMut {
    const NAME: &[u8] = b"content-length";
    let mut remaining = BytesMut::with_capacity(headers.len());
    let mut first = true;
    for line in headers.split(|byte| *byte == b'\n') {
        let is_length = line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
            && line[NAME.len()..].trim_ascii_start().starts_with(b":");
        if !is_length {
            if !first {
                remaining.extend_from_slice(b"\n");
            }
            remaining.extend_from_slice(line);
            first = false;
        }
    }
    // The line end of the last line belongs to the empty line after it.
    let length =
        remaining.len() - usize::from(remaining.ends_with(b"\r") && !headers.ends_with(b"\r"));
    remaining.truncate(length);
    remaining
}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Unpin> Stream for WithoutPartLengths<S> {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(bytes) = self.ready().or_else(|| self.through()) {
                return Poll::Ready(Some(bytes));
            }
            if !self.arrived.is_empty() {
                let length = self.arrived.len().min(STEP);
                let step = self.arrived.split_to(length);
                self.pending.extend_from_slice(&step);
                continue;
            }
            match self.form.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(chunk))) => self.arrived = chunk,
                Poll::Ready(None) if !self.pending.is_empty() => {
                    let rest = self.pending.split();
                    return Poll::Ready(Some(Ok(rest.freeze())));
                }
                other => return other,
            }
        }
    }
}

#[cfg(test)]
#[path = "part_lengths_tests.rs"]
mod tests;
