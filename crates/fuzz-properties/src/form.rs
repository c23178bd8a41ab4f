use std::{
    collections::VecDeque,
    iter::once,
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::{FromRequest as _, dev, error::PayloadError, http::header, test::TestRequest, web};
use adapter_http::{
    Spool,
    internals::{FormSpace, OrderForm, Problem, ProblemCode, Texts, read_form},
};
use bytes::Bytes;
use domain::{
    api_key::{ClientId, Party},
    document::{DocumentLimits, Sha256Digest},
    order::OrderRequest,
};
use futures_util::{FutureExt as _, Stream};
use memchr::memmem;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// Low limits, so that small inputs reach them.
pub(super) const LIMITS: DocumentLimits = DocumentLimits { max_count: 3, max_bytes: 300 };
/// Number of small pieces. Each costs as much as reading a small form.
const SMALL_PIECES: usize = 16;

/// The runtime and spool of a thread.
struct Reader {
    runtime: Runtime,
    spool: Spool,
    _folder: TempDir,
}

thread_local! {
    static READER: Reader = {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let spool = Spool::open(folder.path(), u64::MAX).unwrap();
        Reader { runtime, spool, _folder: folder }
    };
}

/// A body that arrives in pieces, with a pause before each.
struct Arriving {
    pieces: VecDeque<Bytes>,
    paused: bool,
}

impl Stream for Arriving {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.paused = !self.paused;
        if self.paused {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.pieces.pop_front().map(Ok))
    }
}

/// Splits a body. The low bits of the byte choose the size of the small pieces, the others where
/// they begin. What is before and after them are large pieces.
fn split(body: &[u8], by: u8) -> VecDeque<Bytes> {
    let body = Bytes::copy_from_slice(body);
    let (size, start) = (usize::from(by % 32) + 1, body.len() * usize::from(by / 32) / 8);
    let end = body.len().min(start + SMALL_PIECES * size);
    let small = (start..end).step_by(size).map(|at| at..end.min(at + size));
    let pieces = once(0..start).chain(small).chain(once(end..body.len()));
    pieces.map(|range| body.slice(range)).filter(|piece| !piece.is_empty()).collect()
}

/// Reads a form that arrives whole, or in pieces as a byte splits it. Calls `inspect` while its files
/// exist.
pub(super) fn read<T>(
    content_type: &[u8],
    body: &[u8],
    split_by: Option<u8>,
    inspect: impl FnOnce(Result<OrderForm, Problem>) -> T,
) -> Option<T> {
    let content_type = header::HeaderValue::from_bytes(content_type).ok()?;
    let request = TestRequest::default()
        .insert_header((header::CONTENT_TYPE, content_type))
        .to_http_request();
    let pieces = match split_by {
        Some(by) => split(body, by),
        None => [Bytes::copy_from_slice(body)].into(),
    };
    let mut payload: dev::Payload =
        dev::Payload::Stream { payload: Box::pin(Arriving { pieces, paused: false }) };
    let payload = web::Payload::from_request(&request, &mut payload).now_or_never()?.ok()?;
    Some(READER.with(|reader| {
        let space = FormSpace {
            spool: &reader.spool,
            limits: LIMITS,
            party: Party::Client(ClientId(1)),
            texts: Texts::Order,
        };
        inspect(reader.runtime.block_on(read_form(&request, payload, space)))
    }))
}

/// The request of a form, and name, size and SHA-256 of its documents.
type Outcome = Option<(OrderRequest, Vec<(String, u64, Sha256Digest)>)>;

fn outcome(read: Result<OrderForm, Problem>) -> Outcome {
    // The pieces decide which of several errors is reported. Each must be the client's error.
    let ours = |problem: &Problem| {
        matches!(problem.code(), ProblemCode::Internal | ProblemCode::Unavailable)
    };
    let form = read.inspect_err(|problem| assert!(!ours(problem), "{problem:?}")).ok()?;
    let documents = form
        .documents
        .into_iter()
        .map(|document| (document.name_as_sent, document.file.size, document.file.sha256));
    Some((form.request, documents.collect()))
}

/// Asserts that any bytes are read as a form or rejected, independent of the pieces in which they
/// arrive. Every document of a form is exactly the bytes between two boundaries.
///
/// The first byte splits the body, the first line has the content type.
pub fn form(data: &[u8]) {
    let Some(((&split_by, content_type), body)) = memchr::memchr(b'\n', data)
        .and_then(|at| Some((data[..at].split_first()?, &data[at + 1..])))
    else {
        return;
    };
    let Some(whole) = read(content_type, body, None, outcome) else { return };
    let pieces =
        read(content_type, body, Some(split_by), outcome).expect("the content type is valid");
    assert_eq!(whole, pieces);

    let Some((_, documents)) = whole else { return };
    // Forms with a content type that `mime` does not read are not compared.
    let text = std::str::from_utf8(content_type).ok();
    let media_type = text.and_then(|text| text.parse::<mime::Mime>().ok());
    let Some(boundary) = media_type.as_ref().and_then(|it| it.get_param(mime::BOUNDARY)) else {
        return;
    };
    let contents = contents(body, boundary.as_str()).expect("a form that was read has boundaries");
    let mut contents = contents.into_iter();
    let is = |content: &[u8], size: u64, sha256: &Sha256Digest| {
        content.len() as u64 == size && sha256.0 == <[u8; 32]>::from(Sha256::digest(content))
    };
    assert!(documents.len() <= LIMITS.max_count);
    for (name, size, sha256) in documents {
        assert!(size <= LIMITS.max_bytes);
        assert!(
            contents.any(|content| is(content, size, &sha256)),
            "{name} is no part of the form"
        );
    }
}

/// Returns the contents of a form's parts by a simple reading of RFC 2046, section 5.1.1; `None` if
/// the last boundary is missing.
fn contents<'a>(body: &'a [u8], boundary: &str) -> Option<Vec<&'a [u8]>> {
    let (line, delimiter) = (format!("--{boundary}"), format!("\r\n--{boundary}"));
    let without_blanks =
        |rest: &'a [u8]| &rest[rest.iter().take_while(|byte| b" \t".contains(byte)).count()..];
    let starts = [0].into_iter().chain(memchr::memchr_iter(b'\n', body).map(|at| at + 1));
    let mut rest =
        starts.filter_map(|at| body[at..].strip_prefix(line.as_bytes())).find(|rest| {
            let last = rest.strip_prefix(b"--").map(without_blanks);
            without_blanks(rest).starts_with(b"\r\n")
                || last.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"\r\n"))
        })?;
    let mut contents = Vec::new();
    while let Some(part) = without_blanks(rest).strip_prefix(b"\r\n") {
        // The empty line after the headers may begin the delimiter of an empty part.
        let content = &part[memmem::find(part, b"\r\n\r\n")? + 2..];
        let end = memmem::find(content, delimiter.as_bytes())?;
        contents.push(&content[end.min(2)..end]);
        rest = &content[end + delimiter.len()..];
    }
    rest.starts_with(b"--").then_some(contents)
}
