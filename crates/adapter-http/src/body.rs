//! The body of a request as a stream with an end: of bytes, and of patience.

use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use actix_web::{HttpRequest, error::PayloadError, http::header, web};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};

use crate::problem::{Problem, ProblemCode};

/// Longest silence in the middle of a body.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Refuses a body that is coded, or announced to be larger than `cap`, before any of it is read.
pub(crate) fn announced(request: &HttpRequest, cap: u64) -> Result<(), Problem> {
    let coded = request.headers().get_all(header::CONTENT_ENCODING).any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if coded {
        return Err(Problem::new(ProblemCode::UnsupportedMediaType, "The body must not have a content coding."));
    }
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > cap) { Err(too_large(cap)) } else { Ok(()) }
}

fn too_large(cap: u64) -> Problem {
    Problem::new(ProblemCode::PayloadTooLarge, format!("The body is larger than {cap} bytes."))
}

/// The whole body in memory, of at most `cap` bytes; patience is for all of it.
pub(crate) async fn whole(payload: web::Payload, cap: u64) -> Result<Bytes, Problem> {
    let (mut body, overrun) = CappedBody::new(payload, cap);
    let collect = async {
        let mut collected = BytesMut::new();
        while let Some(chunk) = body.next().await {
            collected.extend_from_slice(&chunk?);
        }
        Ok::<_, PayloadError>(collected.freeze())
    };
    match tokio::time::timeout(PATIENCE, collect).await {
        Err(_) => Err(Problem::malformed("The body stopped arriving.")),
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) if overrun.happened() => Err(overrun.problem()),
        Ok(Err(error)) => Err(Problem::malformed(format!("The body could not be read: {error}."))),
    }
}

/// A body that fails when it exceeds its cap.
pub(crate) struct CappedBody {
    payload: web::Payload,
    left: u64,
    overrun: Overrun,
}

/// Tells whether a body failed because it exceeded its cap, after whoever read it made an error of its own of that.
#[derive(Clone)]
pub(crate) struct Overrun {
    cap: u64,
    happened: Rc<Cell<bool>>,
}

impl Overrun {
    pub(crate) fn happened(&self) -> bool {
        self.happened.get()
    }

    pub(crate) fn problem(&self) -> Problem {
        too_large(self.cap)
    }
}

impl CappedBody {
    pub(crate) fn new(payload: web::Payload, cap: u64) -> (Self, Overrun) {
        let overrun = Overrun { cap, happened: Rc::default() };
        (Self { payload, left: cap, overrun: overrun.clone() }, overrun)
    }
}

impl Stream for CappedBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.payload.poll_next_unpin(context);
        if let Poll::Ready(Some(Ok(chunk))) = &polled {
            let Some(left) = self.left.checked_sub(chunk.len() as u64) else {
                self.overrun.happened.set(true);
                return Poll::Ready(Some(Err(PayloadError::Overflow)));
            };
            self.left = left;
        }
        polled
    }
}
