//! Reads the body of a request within limits of size and time.

use std::{
    cell::{Cell, RefCell},
    future::Future as _,
    io::ErrorKind,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::{
    HttpRequest,
    error::PayloadError,
    http::header::{self, HeaderMap},
    web,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::respond::problem::{Problem, ProblemCode};

/// Time limit for a whole JSON body.
const JSON_TIMEOUT: Duration = Duration::from_secs(15);
/// Minimum rate of a body in bytes per second.
const MIN_RATE: u64 = 1024;
/// Time that the client may need for [`MIN_RATE`] times as many bytes. The time in which the
/// service is busy does not count.
const PACE_TIME: Duration = Duration::from_secs(30);

/// Rejects a body by its headers, before it is read: one that has a content coding, or whose length
/// is over `cap`.
pub(crate) fn check_head(request: &HttpRequest, cap: u64) -> Result<(), Problem> {
    let coded = request
        .headers()
        .get_all(header::CONTENT_ENCODING)
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if coded {
        return Err(Problem::new(
            ProblemCode::UnsupportedMediaType,
            "The body must not have a content coding.",
        ));
    }
    if content_length(request.headers()).is_some_and(|length| length > cap) {
        Err(payload_too_large(cap))
    } else {
        Ok(())
    }
}

/// Returns the length of a body that the headers announce.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reports a body that is larger than the limit.
pub(crate) fn payload_too_large(cap: u64) -> Problem {
    Problem::new(ProblemCode::PayloadTooLarge, format!("The body is larger than {cap} bytes."))
}

/// Reports a body that arrives too slowly.
pub(crate) fn too_slow() -> Problem {
    let detail = format!(
        "The body did not arrive in time: a JSON body within {} s, a form at {MIN_RATE} bytes per \
         second.",
        JSON_TIMEOUT.as_secs()
    );
    Problem::new(ProblemCode::RequestTimeout, detail)
}

/// Reads the whole body into memory, at most `cap` bytes.
pub(crate) async fn read_all(
    request: &HttpRequest,
    payload: web::Payload,
    cap: u64,
) -> Result<Bytes, Problem> {
    let mut body = Body::new(request, payload, cap);
    let collect = async {
        let mut collected = Vec::new();
        while let Some(chunk) = body.next().await {
            collected.extend_from_slice(&chunk.map_err(|error| body.explain(&error))?);
        }
        Ok(collected.into())
    };
    timeout(JSON_TIMEOUT, collect).await.map_err(|_| too_slow())?
}

/// A body that fails when it exceeds its cap, or stays below the minimum rate. Clones read the same
/// body.
#[derive(Clone)]
pub(crate) struct Body(Rc<Reading>);

struct Reading {
    payload: RefCell<web::Payload>,
    pace: RefCell<Pace>,
    failed: Cell<Option<Failed>>,
    cap: u64,
    /// `Content-Length`. actix ignores it for requests with an `Upgrade` header.
    length: Option<u64>,
    received: Cell<u64>,
}

/// Why the service stopped reading a body.
#[derive(Clone, Copy)]
enum Failed {
    TooLarge,
    TooSlow,
}

impl Body {
    pub(crate) fn new(request: &HttpRequest, payload: web::Payload, cap: u64) -> Self {
        Self(Rc::new(Reading {
            payload: RefCell::new(payload),
            pace: RefCell::default(),
            failed: Cell::new(None),
            cap,
            length: content_length(request.headers()),
            received: Cell::new(0),
        }))
    }

    /// Returns the problem of a body that failed with this error of its reader.
    pub(crate) fn explain(&self, error: &dyn std::error::Error) -> Problem {
        match self.0.failed.get() {
            Some(Failed::TooLarge) => payload_too_large(self.0.cap),
            Some(Failed::TooSlow) => too_slow(),
            None => Problem::malformed(format!("The body could not be read: {error}.")),
        }
    }

    /// Reads the rest of the body, so that the next request on the connection can be read.
    pub(crate) async fn finish(mut self) -> Result<(), Problem> {
        while let Some(chunk) = self.next().await {
            chunk.map_err(|error| self.explain(&error))?;
        }
        Ok(())
    }
}

impl Stream for Body {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Reading { payload, pace, failed, cap, length, received } = &*self.0;
        if length.is_some_and(|length| received.get() >= length) {
            return Poll::Ready(None);
        }
        let polled = payload.borrow_mut().poll_next_unpin(context);
        match &polled {
            Poll::Pending => {
                ready!(pace.borrow_mut().poll_too_slow(context));
                failed.set(Some(Failed::TooSlow));
                return Poll::Ready(Some(Err(PayloadError::Io(ErrorKind::TimedOut.into()))));
            }
            Poll::Ready(Some(Ok(chunk))) => {
                let bytes = chunk.len() as u64;
                pace.borrow_mut().arrived(bytes);
                received.set(received.get() + bytes);
                if received.get() > *cap {
                    failed.set(Some(Failed::TooLarge));
                    return Poll::Ready(Some(Err(PayloadError::Overflow)));
                }
            }
            Poll::Ready(_) => {}
        }
        polled
    }
}

/// Measures how fast a body arrives while the service waits for it.
#[derive(Default)]
struct Pace {
    /// Ends [`PACE_TIME`] of waiting. Made by the first wait: most bodies arrive with their head.
    timer: Option<Pin<Box<Sleep>>>,
    waiting_since: Option<Instant>,
    /// Since the last check: the time of waiting and the bytes that arrived.
    waited: Duration,
    bytes: u64,
}

impl Pace {
    fn arrived(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
    }

    /// Waits until the client was too slow.
    fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(PACE_TIME)));
            if self.waiting_since.is_none() {
                let now = Instant::now();
                self.waiting_since = Some(now);
                timer.as_mut().reset(now + PACE_TIME.saturating_sub(self.waited));
            }
            ready!(timer.as_mut().poll(context));
            if self.bytes < MIN_RATE * PACE_TIME.as_secs() {
                return Poll::Ready(());
            }
            (self.waiting_since, self.waited, self.bytes) = (None, Duration::ZERO, 0);
        }
    }
}

pub(crate) mod json;
pub(crate) mod kept;
pub(crate) mod limit;
#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
