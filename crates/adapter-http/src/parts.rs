//! Reads the parts of a form in one pass. Their content is passed on as it arrived.
//!
//! A part ends at its boundary (RFC 2046, section 5.1.1) and has no length of its own (RFC 7578,
//! section 4.8). Some clients send one; it is not read.
//!
//! Forms that another parser could understand otherwise are rejected: a boundary after a lone
//! carriage return or right after the headers of a part, a line that only starts like a boundary, a
//! header line that ends with a line feed alone.

use std::{
    future::poll_fn,
    io, mem,
    task::{Context, Poll, ready},
};

use actix_web::{
    error::PayloadError,
    http::header::{self, ContentDisposition, DispositionType, HeaderValue},
};
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use memchr::memmem::{self, Finder};

/// Maximum length of a part's headers.
const MAX_HEADERS: usize = 16 * 1024;
/// Maximum number of a part's headers.
const MAX_HEADER_COUNT: usize = 32;

/// Bytes outside of contents that are examined at a time.
const STEP: usize = 2 * 1024;

/// The parts of a form.
pub(crate) struct Parts<S> {
    form: S,
    /// Finds the first boundary, with the end of the line before it.
    first: Finder<'static>,
    /// Finds any later boundary, without a line end.
    boundary: Finder<'static>,
    state: State,
    /// Bytes that have arrived and were not examined yet.
    arrived: Bytes,
    /// Bytes before those, which were examined and not passed on yet.
    pending: BytesMut,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Before the first boundary, where lines may end in LF alone.
    Preamble,
    /// After a boundary, perhaps only a line of the preamble that starts like the first one.
    Boundary { preamble: bool },
    /// In the headers of a part.
    Headers,
    /// In the content of a part.
    Content,
    /// After the last boundary.
    End,
}

/// The headers of a part that matter.
pub(crate) struct PartHead {
    pub(crate) disposition: ContentDisposition,
    /// The disposition as it was sent.
    pub(crate) written_disposition: HeaderValue,
}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Unpin> Parts<S> {
    pub(crate) fn new(form: S, boundary: &str) -> Self {
        let finder = |text: String| Finder::new(&text).into_owned();
        Self {
            form,
            first: finder(format!("\n--{boundary}")),
            boundary: finder(format!("--{boundary}")),
            state: State::Preamble,
            arrived: Bytes::new(),
            // The form may start with its first boundary, without a line end before it.
            pending: BytesMut::from(&b"\r\n"[..]),
        }
    }

    /// Skips the rest of the current part. Returns the head of the next one, or `None` after the
    /// last.
    pub(crate) async fn next(&mut self) -> Result<Option<PartHead>, PayloadError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Returns the next bytes of the current part, or `None` at its end.
    pub(crate) async fn content(&mut self) -> Result<Option<Bytes>, PayloadError> {
        poll_fn(|context| self.poll_content(context)).await
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<PartHead>, PayloadError>> {
        while ready!(self.poll_content(context))?.is_some() {}
        loop {
            if let Some(head) = self.head()? {
                return Poll::Ready(Ok(Some(head)));
            }
            if self.state == State::End {
                return Poll::Ready(Ok(None));
            }
            if self.arrived.is_empty() {
                ready!(self.poll_more(context))?;
            }
            let length = self.arrived.len().min(STEP);
            self.pending.extend_from_slice(&self.arrived.split_to(length));
        }
    }

    fn poll_content(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, PayloadError>> {
        while self.state == State::Content {
            let bytes = self.examine_content()?;
            if !bytes.is_empty() {
                return Poll::Ready(Ok(Some(bytes)));
            }
            if self.state == State::Content {
                ready!(self.poll_more(context))?;
            }
        }
        Poll::Ready(Ok(None))
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<(), PayloadError>> {
        match ready!(self.form.poll_next_unpin(context)) {
            Some(chunk) => self.arrived = chunk?,
            None if self.state == State::Boundary { preamble: false }
                && self.pending[..] == *b"--" =>
            {
                self.state = State::End;
            }
            None => return Poll::Ready(Err(malformed("the form ends before its last boundary"))),
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the head of a part. `None` if that needs more bytes, or there is no other part.
    fn head(&mut self) -> Result<Option<PartHead>, PayloadError> {
        loop {
            self.state = match self.state {
                State::Preamble => {
                    let length = self.first.needle().len();
                    let Some(at) = self.first.find(&self.pending) else {
                        self.pending.advance((self.pending.len() + 1).saturating_sub(length));
                        return Ok(None);
                    };
                    self.pending.advance(at + length);
                    State::Boundary { preamble: true }
                }
                State::Boundary { preamble } => match (&self.pending[..], preamble) {
                    ([b'\r', b'\n', ..], _) => State::Headers,
                    ([b'-', b'-', b'\r', b'\n', ..], _) => State::End,
                    ([] | [b'\r' | b'-'] | [b'-', b'-'] | [b'-', b'-', b'\r'], _) => {
                        return Ok(None);
                    }
                    (_, true) => State::Preamble,
                    (_, false) => return Err(malformed("a line only starts like a boundary")),
                },
                State::Headers => {
                    let end = memmem::find(&self.pending, b"\r\n\r\n");
                    if end.unwrap_or(self.pending.len().saturating_sub(3)) > MAX_HEADERS {
                        return Err(malformed("the headers of a part are too long"));
                    }
                    let Some(end) = end else { return Ok(None) };
                    let (boundary, content) = (self.boundary.needle(), &self.pending[end + 4..]);
                    let known = content.len().min(boundary.len());
                    if content[..known] == boundary[..known] {
                        if known < boundary.len() {
                            return Ok(None);
                        }
                        return Err(malformed("a boundary follows the headers of a part"));
                    }
                    let mut headers = self.pending.split_to(end + 4);
                    // The line end of the boundary.
                    headers.advance(2);
                    self.state = State::Content;
                    return parse_head(&headers).map(Some);
                }
                State::Content | State::End => return Ok(None),
            };
        }
    }

    /// Returns the next bytes of a part's content, up to its end or to the possible start of a
    /// boundary. Returns none when the content has ended or more must arrive.
    fn examine_content(&mut self) -> Result<Bytes, PayloadError> {
        let length = self.delimiter_length();
        let held = self.pending.len();
        if held == 0 {
            let Some(at) = self.delimiter(&self.arrived)? else {
                let passed = (self.arrived.len() + 1).saturating_sub(length);
                let content = self.arrived.split_to(passed);
                self.pending.extend_from_slice(&mem::take(&mut self.arrived));
                return Ok(content);
            };
            let content = self.arrived.split_to(at);
            self.skip_arrived(length);
            self.state = State::Boundary { preamble: false };
            return Ok(content);
        }
        // So many bytes decide whether the held ones start a boundary.
        let more = self.arrived.len().min(length - 1);
        self.pending.extend_from_slice(&self.arrived[..more]);
        let end = self.delimiter(&self.pending)?;
        if end.is_none() && more == length - 1 {
            self.pending.truncate(held);
            return Ok(self.pending.split().freeze());
        }
        self.skip_arrived(more);
        let passed = end.unwrap_or((held + more + 1).saturating_sub(length));
        let content = self.pending.split_to(passed).freeze();
        if end.is_some() {
            self.pending.advance(length);
            self.state = State::Boundary { preamble: false };
        }
        Ok(content)
    }

    /// Returns the bytes of the content that are not passed on yet, if deciding needs more bytes.
    /// After the first content of a part, they are fewer than a delimiter has.
    pub(crate) fn held_back(&self) -> Option<&[u8]> {
        (self.state == State::Content && self.arrived.is_empty()).then_some(&self.pending)
    }

    /// Examines bytes that its reader has read itself: those of [`Self::held_back`] and the next of
    /// the form. Returns how many of them are content for sure, and holds the others.
    pub(crate) fn examine(&mut self, bytes: &[u8]) -> Result<usize, PayloadError> {
        let length = self.delimiter_length();
        let end = self.delimiter(bytes)?;
        let passed = end.unwrap_or((bytes.len() + 1).saturating_sub(length));
        self.pending.clear();
        if end.is_some() {
            self.arrived = Bytes::copy_from_slice(&bytes[passed + length..]);
            self.state = State::Boundary { preamble: false };
        } else {
            self.pending.extend_from_slice(&bytes[passed..]);
        }
        Ok(passed)
    }

    /// Skips bytes, and gives up the memory of all when none is left: the next may be long in coming.
    fn skip_arrived(&mut self, count: usize) {
        self.arrived.advance(count);
        if self.arrived.is_empty() {
            self.arrived = Bytes::new();
        }
    }

    /// Returns the length of a delimiter: a line end and a boundary.
    fn delimiter_length(&self) -> usize {
        2 + self.boundary.needle().len()
    }

    /// Returns where the delimiter of a part's content starts.
    fn delimiter(&self, content: &[u8]) -> Result<Option<usize>, PayloadError> {
        for at in self.boundary.find_iter(content) {
            match content[..at] {
                [.., b'\r', b'\n'] => return Ok(Some(at - 2)),
                [.., b'\r'] => {
                    return Err(malformed(
                        "a boundary follows a carriage return without a line feed",
                    ));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Reads the headers of a part, with the empty line after them.
fn parse_head(headers: &[u8]) -> Result<PartHead, PayloadError> {
    if headers.split_inclusive(|byte| *byte == b'\n').any(|line| !line.ends_with(b"\r\n")) {
        return Err(malformed("a header line ends without a carriage return"));
    }
    let mut parsed = [httparse::EMPTY_HEADER; MAX_HEADER_COUNT];
    let Ok(httparse::Status::Complete((_, parsed))) = httparse::parse_headers(headers, &mut parsed)
    else {
        return Err(malformed("the headers of a part cannot be read"));
    };
    let values = |name: header::HeaderName| {
        parsed.iter().filter(move |header| header.name.eq_ignore_ascii_case(name.as_str()))
    };
    let nested = |content_type: &httparse::Header<'_>| {
        let content_type = str::from_utf8(content_type.value).ok();
        content_type
            .and_then(|content_type| content_type.parse::<mime::Mime>().ok())
            .is_some_and(|content_type| content_type.type_() == mime::MULTIPART)
    };
    if values(header::CONTENT_TYPE).any(nested) {
        return Err(malformed("a part has parts itself"));
    }
    let mut dispositions = values(header::CONTENT_DISPOSITION);
    let (Some(written), None) = (dispositions.next(), dispositions.next()) else {
        return Err(malformed("a part does not have one Content-Disposition"));
    };
    let written_disposition = HeaderValue::from_bytes(written.value)
        .map_err(|_| malformed("a Content-Disposition cannot be read"))?;
    let disposition = ContentDisposition::from_raw(&written_disposition)
        .ok()
        .filter(|disposition| disposition.disposition == DispositionType::FormData)
        .ok_or_else(|| malformed("a Content-Disposition is not form-data"))?;
    Ok(PartHead { disposition, written_disposition })
}

fn malformed(reason: &'static str) -> PayloadError {
    io::Error::new(io::ErrorKind::InvalidData, reason).into()
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
