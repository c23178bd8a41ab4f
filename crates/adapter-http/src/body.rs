//! Reads the body of a request within limits of size and time.

use std::{
    cell::{Cell, RefCell},
    future::{Future as _, poll_fn},
    io::ErrorKind,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::{HttpRequest, error::PayloadError, http::header, web};
use bytes::{Buf as _, Bytes};
use futures_util::{Stream, StreamExt as _};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::{
    body_memory::{MemoryShare, UsedUp},
    budget::used_up,
    exchange::Exchange,
    problem::{Problem, ProblemCode},
    read_bytes::content_length,
};

/// Time limit for a whole JSON body.
const JSON_TIMEOUT: Duration = Duration::from_secs(15);
/// Minimum rate of a body in bytes per second.
const MIN_RATE: u64 = 1024;
/// Time that the client may need for [`MIN_RATE`] times as many bytes. The time in which the
/// service is busy does not count.
const PACE_TIME: Duration = Duration::from_secs(30);
/// Memory of a request besides the bytes of its body: its connection, head and handler.
const REQUEST_MEMORY: usize = 80 * 1024;

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

/// Returns the memory that allocated bytes take. Freed ones of other sizes leave holes between them.
pub(crate) fn memory_of(bytes: usize) -> usize {
    bytes + bytes / 2
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

/// A body in memory. Its bytes return to the budget when it is dropped.
#[derive(Debug)]
pub(crate) struct WholeBody {
    pub(crate) bytes: Bytes,
    _memory: Arc<MemoryShare>,
}

/// Reads the whole body into memory, at most `cap` bytes.
pub(crate) async fn read_all(
    request: &HttpRequest,
    payload: web::Payload,
    cap: u64,
    memory: Arc<MemoryShare>,
) -> Result<WholeBody, Problem> {
    let mut body = Body::new(request, payload, cap, Arc::clone(&memory));
    let most = usize::try_from(cap).unwrap_or(usize::MAX);
    // Allocated once: bytes that grow would leave holes in the memory of the process.
    let announced =
        content_length(request.headers()).filter(|length| *length <= cap).unwrap_or_default();
    let announced = usize::try_from(announced).unwrap_or_default();
    let collect = async {
        body.hold(REQUEST_MEMORY + memory_of(announced)).await?;
        let mut collected = Vec::with_capacity(announced);
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| body.explain(&error))?;
            body.append(&mut collected, &chunk, most).await?;
        }
        Ok::<_, Problem>(collected)
    };
    let collected = timeout(JSON_TIMEOUT, collect).await.map_err(|_| too_slow())??;
    memory.finish();
    Ok(WholeBody { bytes: collected.into(), _memory: memory })
}

/// A body that fails when it exceeds its cap, or stays below the minimum rate. Clones read the same
/// body.
#[derive(Clone)]
pub(crate) struct Body(Rc<Reading>);

struct Reading {
    payload: RefCell<web::Payload>,
    pace: RefCell<Pace>,
    memory: Arc<MemoryShare>,
    request: HttpRequest,
    failed: Cell<Option<Failed>>,
    cap: u64,
    /// `Content-Length`. The framework ignores it for requests with an `Upgrade` header.
    length: Option<u64>,
    received: Cell<u64>,
    /// Stand-ins that the framework is still to pass on ([`crate::exchange`]).
    stand_ins: Cell<u64>,
}

/// Why the service stopped reading a body.
#[derive(Clone, Copy)]
enum Failed {
    TooLarge,
    TooSlow,
    /// Other requests needed its memory.
    Evicted,
}

impl Body {
    pub(crate) fn new(
        request: &HttpRequest,
        payload: web::Payload,
        cap: u64,
        memory: Arc<MemoryShare>,
    ) -> Self {
        Self(Rc::new(Reading {
            payload: RefCell::new(payload),
            pace: RefCell::default(),
            memory,
            request: request.clone(),
            failed: Cell::new(None),
            cap,
            length: content_length(request.headers()),
            received: Cell::new(0),
            stand_ins: Cell::new(0),
        }))
    }

    /// Returns the problem of a body that failed with this error of its reader.
    pub(crate) fn explain(&self, error: &dyn std::error::Error) -> Problem {
        match self.0.failed.get() {
            Some(Failed::TooLarge) => payload_too_large(self.0.cap),
            Some(Failed::TooSlow) => too_slow(),
            Some(Failed::Evicted) => used_up(&self.0.request),
            None => Problem::malformed(format!("The body could not be read: {error}.")),
        }
    }

    /// Takes memory for the request.
    pub(crate) async fn hold(&self, bytes: usize) -> Result<(), Problem> {
        self.0.memory.take(bytes).await.map_err(|UsedUp| used_up(&self.0.request))
    }

    /// Appends a chunk to bytes that become at most `most`. Takes memory for what is allocated.
    pub(crate) async fn append(
        &self,
        bytes: &mut Vec<u8>,
        chunk: &[u8],
        most: usize,
    ) -> Result<(), Problem> {
        let length = bytes.len() + chunk.len();
        if length > bytes.capacity() {
            let capacity = length.max(most.min(2 * bytes.capacity()));
            self.hold(memory_of(capacity) - memory_of(bytes.capacity())).await?;
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Ends a wait for the client, because the service has something else to do first.
    pub(crate) fn stop_waiting(&self) {
        self.0.pace.borrow_mut().arrived(0);
    }

    /// Reads the rest of the body, so that the next request on the connection can be read.
    pub(crate) async fn finish(mut self) -> Result<(), Problem> {
        while let Some(chunk) = self.next().await {
            chunk.map_err(|error| self.explain(&error))?;
        }
        Ok(())
    }
}

impl Reading {
    fn arrived(&self, bytes: u64) {
        self.pace.borrow_mut().arrived(bytes);
        self.memory.received(bytes);
        self.received.set(self.received.get() + bytes);
    }

    /// Fails if other requests need the memory of this one.
    fn check_evicted(&self, context: &mut Context<'_>) -> Result<(), PayloadError> {
        match self.memory.poll_evicted(context) {
            Poll::Ready(()) => Err(self.fail(Failed::Evicted)),
            Poll::Pending => Ok(()),
        }
    }

    fn fail(&self, failed: Failed) -> PayloadError {
        self.failed.set(Some(failed));
        PayloadError::Io(ErrorKind::TimedOut.into())
    }

    /// Returns the next bytes of the framework, without stand-ins.
    fn poll_payload(&self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, PayloadError>>> {
        loop {
            let stand_ins = self.stand_ins.get();
            if stand_ins == 0 && self.length.is_some_and(|length| self.received.get() >= length) {
                return Poll::Ready(None);
            }
            let polled = self.payload.borrow_mut().poll_next_unpin(context);
            let Poll::Ready(Some(Ok(mut chunk))) = polled else { return polled };
            let skipped = chunk.len().min(usize::try_from(stand_ins).unwrap_or(usize::MAX));
            self.stand_ins.set(stand_ins - skipped as u64);
            chunk.advance(skipped);
            if !chunk.is_empty() {
                return Poll::Ready(Some(Ok(chunk)));
            }
            // The client sent these before, so it is not slow now.
            self.pace.borrow_mut().arrived(0);
        }
    }
}

impl Stream for Body {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reading = &*self.0;
        let mut polled = reading.poll_payload(context);
        match &mut polled {
            Poll::Pending => {
                if let Err(error) = reading.check_evicted(context) {
                    return Poll::Ready(Some(Err(error)));
                }
                ready!(reading.pace.borrow_mut().poll_too_slow(context));
                return Poll::Ready(Some(Err(reading.fail(Failed::TooSlow))));
            }
            Poll::Ready(Some(Ok(chunk))) => {
                reading.arrived(chunk.len() as u64);
                if reading.received.get() > reading.cap {
                    reading.failed.set(Some(Failed::TooLarge));
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

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
