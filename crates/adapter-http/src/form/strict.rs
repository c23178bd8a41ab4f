//! Makes a form safe for actix-multipart, which may end a part where RFC 2046 does not, and which
//! knows less of its grammar:
//!
//! - It trusts the `Content-Length` of a part. RFC 7578, section 4.8, says that it must be ignored,
//!   and clients send wrong ones.
//! - It ends a part at a boundary after a lone carriage return, and drops the rest of that line.
//! - It takes a boundary right after the headers of a part for content, and the next part with it.
//!   RFC 2046, section 5.1.1, says that it ends an empty part.
//! - It does not know blanks behind a boundary, and folded headers.
//!
//! So a document could be stored short, and the notary would print a deed without its last pages.

use std::{
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::error::PayloadError;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use memchr::memmem::{self, Finder};

/// Maximum length of a part's headers, and of the blanks behind a boundary.
const MAX_HEADERS: usize = 16 * 1024;
/// A header that actix-multipart must not see.
const CONTENT_LENGTH: &[u8] = b"content-length";

/// A form whose parts end at their boundaries only. It passes on every byte of their contents.
pub(super) struct StrictForm<S> {
    form: S,
    /// Whether the form has ended.
    ended: bool,
    /// Finds a boundary, without its line ends.
    boundary: Finder<'static>,
    state: State,
    /// The number of the part, from 1; 0 in the preamble.
    part: usize,
    /// Whether no byte of the preamble or of the content was passed on yet.
    at_start: bool,
    /// Bytes that have arrived and were not passed on.
    held: BytesMut,
    /// Passed on before them.
    queued: &'static [u8],
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Before the first part. Its lines may end in a line feed alone.
    Preamble,
    /// In the headers of a part.
    Headers,
    /// In the content of a part.
    Content,
    /// After the last boundary, whose end is passed on when the form has ended. So the whole body is
    /// read, and the next request on the connection can be.
    Rest,
}

impl<S> StrictForm<S> {
    pub(super) fn new(form: S, boundary: &str) -> Self {
        Self {
            form,
            ended: false,
            boundary: Finder::new(&format!("--{boundary}")).into_owned(),
            state: State::Preamble,
            part: 0,
            at_start: true,
            held: BytesMut::new(),
            queued: b"",
        }
    }

    /// Returns the next bytes to pass on; none if that needs more bytes.
    fn examined(&mut self) -> Result<Bytes, PayloadError> {
        if !self.queued.is_empty() && (self.state != State::Rest || self.ended) {
            return Ok(Bytes::from_static(mem::take(&mut self.queued)));
        }
        let in_preamble = self.state == State::Preamble;
        match self.state {
            State::Preamble | State::Content => {
                let (length, delimiter) = self.delimiter()?;
                let Some((end, is_last)) = delimiter else {
                    self.at_start &= length == 0;
                    let passed = self.held.split_to(length).freeze();
                    return Ok(if in_preamble { Bytes::new() } else { passed });
                };
                // The blanks behind the boundary, and the preamble, are left out.
                let mut passed = self.held.split_to(end);
                passed.truncate(length + self.boundary.needle().len());
                if in_preamble {
                    passed.advance(length);
                } else if length == 0 {
                    // The empty line after the headers belongs to the boundary.
                    passed = [b"\r\n", &passed[..]].concat()[..].into();
                }
                self.state = if is_last { State::Rest } else { State::Headers };
                self.part += 1;
                self.queued = if is_last { b"--\r\n" } else { b"\r\n" };
                Ok(passed.freeze())
            }
            State::Headers => self.headers(),
            State::Rest => {
                self.held.clear();
                Ok(Bytes::new())
            }
        }
    }

    fn malformed(&self, reason: &str) -> PayloadError {
        let part = self.part;
        let detail = if part == 0 { "The form".into() } else { format!("Part {part} of the form") };
        let detail = format!("{detail} cannot be read: {reason}.");
        PayloadError::Io(io::Error::new(io::ErrorKind::InvalidData, detail))
    }

    /// Searches the next delimiter. Returns how many bytes before it belong to none; and the end of its
    /// line and whether it is the last, if it has arrived.
    fn delimiter(&self) -> Result<(usize, Option<(usize, bool)>), PayloadError> {
        let (in_content, length) = (self.state == State::Content, self.boundary.needle().len());
        for start in self.boundary.find_iter(&self.held) {
            let begins_line = match &self.held[..start] {
                [] => self.at_start,
                [.., b'\r', b'\n'] => true,
                [.., b'\n'] => !in_content,
                [.., b'\r'] if in_content => {
                    return Err(
                        self.malformed("a boundary follows a carriage return without a line feed")
                    );
                }
                _ => false,
            };
            if !begins_line {
                continue;
            }
            let after = &self.held[start + length..];
            let (is_last, line) = after.strip_prefix(b"--").map_or((false, after), |it| (true, it));
            let blanks = line.iter().take_while(|byte| b" \t".contains(byte)).count();
            let line = &line[blanks..];
            let end = self.held.len() - line.len();
            match line {
                [b'\r', b'\n', ..] => {
                    return Ok((start, Some((end + 2, is_last))));
                }
                [] if is_last && self.ended => return Ok((start, Some((end, is_last)))),
                [] | [b'\r' | b'-'] if end - start > length + MAX_HEADERS => {
                    return Err(self.malformed("too many blanks follow a boundary"));
                }
                [] | [b'\r' | b'-'] if !self.ended => {
                    return Ok((start.saturating_sub(2), None));
                }
                [] | [b'\r' | b'-'] if in_content => {
                    return Err(self.malformed("the form ends before its last boundary"));
                }
                [b'\n', ..] => {
                    return Err(self.malformed("a line feed alone follows a boundary"));
                }
                _ if in_content => {
                    return Err(self.malformed("a line of it begins like a boundary"));
                }
                _ => {}
            }
        }
        // The others may belong to a delimiter.
        let possible = if self.ended { 0 } else { length + 2 };
        Ok((self.held.len().saturating_sub(possible), None))
    }

    /// Returns the headers of a part, without line breaks in them and without its length.
    fn headers(&mut self) -> Result<Bytes, PayloadError> {
        let end = memmem::find(&self.held, b"\r\n\r\n");
        if end.unwrap_or(self.held.len().saturating_sub(3)) > MAX_HEADERS {
            return Err(self.malformed("its headers are too long"));
        }
        let Some(end) = end.map(|end| end + 4) else { return Ok(Bytes::new()) };
        let mut headers = Vec::with_capacity(end);
        for line in self.held.split_to(end).split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\r\n") {
                return Err(self.malformed("a header line ends without a carriage return"));
            }
            let start = headers.len();
            if line.starts_with(b" ") || line.starts_with(b"\t") {
                headers.truncate(start.saturating_sub(2));
            }
            headers.extend_from_slice(line);
            if line
                .get(..CONTENT_LENGTH.len())
                .is_some_and(|it| it.eq_ignore_ascii_case(CONTENT_LENGTH))
            {
                headers[start] = b'x';
            }
        }
        (self.state, self.at_start) = (State::Content, true);
        Ok(headers.into())
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
            if this.ended {
                let fault = "no line is the boundary of its content type and ends with CR LF";
                let missing = (this.state == State::Preamble).then(|| Err(this.malformed(fault)));
                // actix-multipart reports a missing end.
                return Poll::Ready(missing);
            }
            match ready!(this.form.poll_next_unpin(context)) {
                Some(chunk) => this.held.extend_from_slice(&chunk?),
                None => this.ended = true,
            }
        }
    }
}

#[cfg(test)]
#[path = "strict_tests.rs"]
mod tests;
