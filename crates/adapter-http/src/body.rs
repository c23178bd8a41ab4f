//! Reads the body of a request within limits of size and time.

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

/// Longest pause within a form.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a whole JSON body.
const JSON_TIMEOUT: Duration = Duration::from_secs(15);
/// Minimum rate of a form in bytes per second, averaged over its time after the first minute.
const MIN_RATE: u64 = 1024;
/// Time in which a form may be slower.
const MIN_RATE_GRACE: Duration = Duration::from_secs(60);

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
    if length(request).is_some_and(|length| length > cap) {
        Err(payload_too_large(cap))
    } else {
        Ok(())
    }
}

fn length(request: &HttpRequest) -> Option<u64> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reports a body that is larger than the limit.
pub(crate) fn payload_too_large(cap: u64) -> Problem {
    Problem::new(ProblemCode::PayloadTooLarge, format!("The body is larger than {cap} bytes."))
}

/// Reads the whole body into memory, at most `cap` bytes.
pub(crate) async fn read_all(
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
    match timeout(JSON_TIMEOUT, collect).await {
        Err(_) => Err(Problem::malformed(format!(
            "The body did not arrive within {} s.",
            JSON_TIMEOUT.as_secs()
        ))),
        Ok(Ok(())) => Ok(collected.freeze()),
        Ok(Err(error)) => Err(body.explain(&error)),
    }
}

/// A body that fails when it exceeds its cap, or stays below the minimum rate. Clones read the same
/// body.
#[derive(Clone)]
pub(crate) struct Body(Rc<Reading>);

struct Reading {
    payload: RefCell<web::Payload>,
    started: Instant,
    cap: u64,
    /// `Content-Length`. The framework ignores it for requests with an `Upgrade` header.
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

    /// Returns the problem of a body that failed with this error of its reader.
    pub(crate) fn explain(&self, error: &dyn std::error::Error) -> Problem {
        if self.0.received.get() > self.0.cap {
            payload_too_large(self.0.cap)
        } else {
            Problem::malformed(format!("The body could not be read: {error}."))
        }
    }

    /// Reads the rest of the body, so that the next request on the connection can be read.
    pub(crate) async fn finish(mut self) -> Result<(), Problem> {
        while let Some(chunk) = timeout(IDLE_TIMEOUT, self.next())
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
            if reading.started.elapsed() > MIN_RATE_GRACE + Duration::from_secs(received / MIN_RATE)
            {
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
