//! The body of a request as a stream with an end: of bytes, and of patience.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use actix_web::{HttpRequest, error::PayloadError, http::header, web};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use tokio::time::{Instant, timeout};

use crate::problem::{Problem, ProblemCode};

/// Longest silence in the middle of a form.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Longest time for a JSON body, all of it.
const JSON_PATIENCE: Duration = Duration::from_secs(15);
/// A form may be slow, but not for ever: after a minute it must have come at this many bytes per
/// second.
const LEAST_RATE: u64 = 1024;
const RATE_FREE: Duration = Duration::from_secs(60);

/// Refuses a body that is coded, or announced to be larger than `cap`, before any of it is read.
pub(crate) fn announced(request: &HttpRequest, cap: u64) -> Result<(), Problem> {
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
    if length(request).is_some_and(|length| length > cap) { Err(too_large(cap)) } else { Ok(()) }
}

fn length(request: &HttpRequest) -> Option<u64> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(cap: u64) -> Problem {
    Problem::new(ProblemCode::PayloadTooLarge, format!("The body is larger than {cap} bytes."))
}

/// The whole body in memory, of at most `cap` bytes.
pub(crate) async fn whole(
    request: &HttpRequest,
    payload: web::Payload,
    cap: u64,
) -> Result<Bytes, Problem> {
    let mut body = Body::new(request, payload, cap);
    let mut collected = BytesMut::new();
    let collect = async {
        while let Some(chunk) = body.next().await {
            collected.extend_from_slice(&chunk?);
        }
        Ok::<_, PayloadError>(())
    };
    match timeout(JSON_PATIENCE, collect).await {
        Err(_) => Err(Problem::malformed(format!(
            "The body did not arrive within {} s.",
            JSON_PATIENCE.as_secs()
        ))),
        Ok(Ok(())) => Ok(collected.freeze()),
        Ok(Err(error)) => Err(body.explain(&error)),
    }
}

/// A body that fails when it exceeds its cap, or comes too slowly for too long. Clones read the
/// same body.
#[derive(Clone)]
pub(crate) struct Body(Rc<Reading>);

struct Reading {
    payload: RefCell<web::Payload>,
    started: Instant,
    cap: u64,
    /// The end that the request announces; the framework does not keep to it when the request has
    /// an `Upgrade` header.
    length: Option<u64>,
    received: Cell<u64>,
}

impl Body {
    pub(crate) fn new(request: &HttpRequest, payload: web::Payload, cap: u64) -> Self {
        Self(Rc::new(Reading {
            payload: RefCell::new(payload),
            started: Instant::now(),
            cap,
            length: length(request),
            received: Cell::new(0),
        }))
    }

    /// What the client is told of a body that failed, whatever its reader made of the failure.
    pub(crate) fn explain(&self, error: &dyn std::error::Error) -> Problem {
        if self.0.received.get() > self.0.cap {
            too_large(self.0.cap)
        } else {
            Problem::malformed(format!("The body could not be read: {error}."))
        }
    }

    /// Reads what its reader had no use for, so that the connection is in step for the next
    /// request.
    pub(crate) async fn finish(mut self) -> Result<(), Problem> {
        while let Some(chunk) = timeout(PATIENCE, self.next())
            .await
            .map_err(|_| Problem::malformed("The body stopped arriving."))?
        {
            chunk.map_err(|error| self.explain(&error))?;
        }
        Ok(())
    }
}

impl Stream for Body {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reading = &*self.0;
        if reading.length.is_some_and(|length| reading.received.get() >= length) {
            return Poll::Ready(None);
        }
        let polled = reading.payload.borrow_mut().poll_next_unpin(context);
        if let Poll::Ready(Some(Ok(chunk))) = &polled {
            let received = reading.received.get() + chunk.len() as u64;
            reading.received.set(received);
            if received > reading.cap {
                return Poll::Ready(Some(Err(PayloadError::Overflow)));
            }
            if reading.started.elapsed() > RATE_FREE + Duration::from_secs(received / LEAST_RATE) {
                return Poll::Ready(Some(Err(PayloadError::Io(
                    std::io::ErrorKind::TimedOut.into(),
                ))));
            }
        }
        polled
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
