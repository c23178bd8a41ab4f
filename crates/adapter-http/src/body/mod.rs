//! Reads the body of a request within limits of size and time.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use actix_web::{
    HttpRequest,
    error::PayloadError,
    http::header::{self, HeaderMap},
    web,
};
use bytes::Bytes;
use futures_util::{
    StreamExt as _,
    stream::{LocalBoxStream, try_unfold},
};
use tokio::time::{Instant, timeout};

use crate::{
    guard::Connection,
    respond::problem::{Problem, ProblemCode},
};

/// Time limit for a whole JSON body.
const JSON_TIMEOUT: Duration = Duration::from_secs(15);
/// A body over this size in bytes is read in large steps, if its connection gets a permit for them.
const LARGE_BODY: u64 = 64 * 1024;
/// Minimum rate of a body in bytes per second.
const MIN_RATE: u64 = 1024;
/// Time that the client may need for [`MIN_RATE`] times as many bytes. The time in which the
/// service is busy does not count.
const PACE_TIME: Duration = Duration::from_secs(30);

/// Rejects a body by its headers, before it is read: one that has a content coding, or whose length
/// is over `cap`.
pub(crate) fn check_head(request: &HttpRequest, cap: u64) -> Result<(), Problem> {
    let is_coding = |coding: &[u8]| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    };
    let mut codings = request.headers().get_all(header::CONTENT_ENCODING);
    if codings.any(|value| value.as_bytes().split(|byte| *byte == b',').any(is_coding)) {
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
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
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
    let mut body = limited(request, payload, cap);
    let collect = async {
        // A vector that grows takes up to twice as much.
        let length = content_length(request.headers()).filter(|length| *length <= cap);
        let mut collected =
            Vec::with_capacity(length.and_then(|length| length.try_into().ok()).unwrap_or(0));
        while let Some(chunk) = body.next().await {
            collected.extend_from_slice(&chunk.map_err(|error| explain(&error, cap))?);
        }
        Ok(collected.into())
    };
    timeout(JSON_TIMEOUT, collect).await.map_err(|_| too_slow())?
}

/// Returns a body that fails when it exceeds its cap, or stays below the minimum rate. Call it with a permit, and drop
/// it before that: without it, little of the body is read.
pub(crate) fn limited(
    request: &HttpRequest,
    payload: web::Payload,
    cap: u64,
) -> LocalBoxStream<'static, Result<Bytes, PayloadError>> {
    let connection = request.conn_data::<Arc<Connection>>().cloned();
    let length = content_length(request.headers());
    if let Some(connection) = &connection {
        connection.open(length.unwrap_or(cap) > LARGE_BODY);
    }
    let (received, waited, recent) = (0, Duration::ZERO, 0);
    let reading = Reading { payload, connection, cap, length, received, waited, recent };
    let chunks = try_unfold(reading, |mut reading| async {
        Ok(reading.next().await?.map(|chunk| (chunk, reading)))
    });
    chunks.boxed_local()
}

/// Returns the problem of a body with this cap that failed with this error.
pub(crate) fn explain(error: &PayloadError, cap: u64) -> Problem {
    match error {
        PayloadError::Io(io) if io.kind() == ErrorKind::FileTooLarge => payload_too_large(cap),
        PayloadError::Io(io) if io.kind() == ErrorKind::TimedOut => too_slow(),
        PayloadError::EncodingCorrupted => Problem::malformed("The chunks of the body are broken."),
        // actix reports a chunk without a valid length in the same way.
        _ => Problem::malformed("The body ended early, or its chunks are broken."),
    }
}

struct Reading {
    payload: web::Payload,
    /// The connection of the body, which a test may not have.
    connection: Option<Arc<Connection>>,
    cap: u64,
    /// `Content-Length`. actix ignores it for requests with an `Upgrade` header.
    length: Option<u64>,
    received: u64,
    /// Since the last check of the rate: the time of waiting and the bytes that arrived.
    waited: Duration,
    recent: u64,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.close_body();
        }
    }
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Bytes>, PayloadError> {
        if self.length.is_some_and(|length| self.received >= length) {
            return Ok(None);
        }
        loop {
            let since = Instant::now();
            let left = PACE_TIME.saturating_sub(self.waited);
            match timeout(left, self.payload.next()).await {
                Ok(chunk) => {
                    let Some(chunk) = chunk.transpose()? else { return Ok(None) };
                    self.waited += since.elapsed();
                    self.recent += chunk.len() as u64;
                    self.received += chunk.len() as u64;
                    return if self.received > self.cap {
                        Err(PayloadError::Io(ErrorKind::FileTooLarge.into()))
                    } else {
                        Ok(Some(chunk))
                    };
                }
                Err(_) if self.recent < MIN_RATE * PACE_TIME.as_secs() => {
                    return Err(PayloadError::Io(ErrorKind::TimedOut.into()));
                }
                Err(_) => (self.waited, self.recent) = (Duration::ZERO, 0),
            }
        }
    }
}

pub(crate) mod held;
pub(crate) mod json;
#[cfg(test)]
mod tests;
