//! Makes a form safe for actix-multipart, which may end a part where RFC 2046 does not:
//!
//! - It trusts the `Content-Length` of a part. RFC 7578, section 4.8, says that it must be ignored,
//!   and clients send wrong ones.
//! - It ends a part at a boundary after a lone carriage return, and drops the rest of that line.
//!
//! So a document could be stored short. A boundary right after the headers of a part is rejected,
//! too: it may end an empty part, but actix-multipart takes it and the next part for content.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::error::PayloadError;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use memchr::memmem::{self, Finder};

/// Maximum length of a part's headers.
const MAX_HEADERS: usize = 16 * 1024;
/// A header that actix-multipart must not see.
const CONTENT_LENGTH: &[u8] = b"content-length";

/// A form whose parts end at their boundaries only. It passes on every byte but those of
/// [`CONTENT_LENGTH`].
pub(super) struct StrictForm<S> {
    form: S,
    /// Finds a boundary, without its line ends.
    boundary: Finder<'static>,
    state: State,
    /// Whether no byte of the preamble or of the content was passed on yet.
    at_start: bool,
    /// Bytes that have arrived and were not passed on.
    held: BytesMut,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Before the first part. Its lines may end in a line feed alone.
    Preamble,
    /// In the headers of a part.
    Headers,
    /// In the content of a part.
    Content,
    /// After a boundary.
    Boundary,
    /// After the last boundary, or where actix-multipart fails.
    Rest,
}

impl<S> StrictForm<S> {
    pub(super) fn new(form: S, boundary: &str) -> Self {
        Self {
            form,
            boundary: Finder::new(&format!("--{boundary}")).into_owned(),
            state: State::Preamble,
            at_start: true,
            held: BytesMut::new(),
        }
    }

    /// Returns the next bytes to pass on; none if that needs more bytes.
    fn examined(&mut self) -> Result<Bytes, PayloadError> {
        let (length, next) = match self.state {
            State::Preamble | State::Content => match self.delimiter_end()? {
                Some(end) if self.state == State::Preamble => (end, State::Headers),
                Some(end) => (end, State::Boundary),
                // The others may belong to a delimiter, with the line ends around it.
                None => {
                    let kept = self.boundary.needle().len() + 4;
                    (self.held.len().saturating_sub(kept), self.state)
                }
            },
            State::Boundary => match self.held[..] {
                [b'\r', b'\n', ..] => (2, State::Headers),
                [] | [b'\r'] => (0, State::Boundary),
                _ => (self.held.len(), State::Rest),
            },
            State::Headers => match self.headers_end()? {
                Some(end) => (end, State::Content),
                None => (0, State::Headers),
            },
            State::Rest => (self.held.len(), State::Rest),
        };
        self.at_start = self.state != next || (self.at_start && length == 0);
        self.state = next;
        Ok(self.held.split_to(length).freeze())
    }

    /// Returns where the next delimiter ends.
    fn delimiter_end(&self) -> Result<Option<usize>, PayloadError> {
        let in_content = self.state == State::Content;
        for at in self.boundary.find_iter(&self.held) {
            let end = at + self.boundary.needle().len();
            match (&self.held[..at], &self.held[end..]) {
                ([], _) if self.at_start && in_content => {
                    return Err(malformed("a boundary follows the headers of a part"));
                }
                ([.., b'\r'], _) if in_content => {
                    return Err(malformed(
                        "a boundary follows a carriage return without a line feed",
                    ));
                }
                ([.., b'\r', b'\n'], _) if in_content => return Ok(Some(end)),
                (before, after) if !in_content => {
                    let begins_line =
                        before.ends_with(b"\n") || (before.is_empty() && self.at_start);
                    match after {
                        [b'\r', b'\n', ..] if begins_line => return Ok(Some(end + 2)),
                        // actix-multipart would skip the part behind it.
                        [b' ' | b'\t', ..] if begins_line => {
                            return Err(malformed("blanks follow the first boundary"));
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns where the headers of a part end, and renames those with its length.
    fn headers_end(&mut self) -> Result<Option<usize>, PayloadError> {
        let end = memmem::find(&self.held, b"\r\n\r\n");
        if end.unwrap_or(self.held.len().saturating_sub(3)) > MAX_HEADERS {
            return Err(malformed("the headers of a part are too long"));
        }
        let Some(end) = end.map(|end| end + 4) else { return Ok(None) };
        for line in self.held[..end].split_inclusive_mut(|byte| *byte == b'\n') {
            if !line.ends_with(b"\r\n") {
                return Err(malformed("a header line ends without a carriage return"));
            }
            if line
                .get(..CONTENT_LENGTH.len())
                .is_some_and(|name| name.eq_ignore_ascii_case(CONTENT_LENGTH))
            {
                line[0] = b'x';
            }
        }
        Ok(Some(end))
    }
}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Unpin> Stream for StrictForm<S> {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            let bytes = this.examined()?;
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            match ready!(this.form.poll_next_unpin(context)) {
                Some(chunk) => this.held.extend_from_slice(&chunk?),
                None if this.held.is_empty() => return Poll::Ready(None),
                // actix-multipart reports the missing end.
                None => this.state = State::Rest,
            }
        }
    }
}

fn malformed(reason: &'static str) -> PayloadError {
    io::Error::new(io::ErrorKind::InvalidData, reason).into()
}

#[cfg(test)]
#[path = "strict_tests.rs"]
mod tests;
