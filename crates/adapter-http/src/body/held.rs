//! Holds the body of a request until its answer is sent.
//!
//! actix closes the connection of a body that was not read to its end, and lets the client read the
//! answer first. If a chunked body were dropped earlier, actix would read it without end.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use actix_web::{
    HttpMessage as _,
    body::{BodySize, BoxBody, MessageBody},
    dev::{Payload, ServiceRequest},
    error::PayloadError,
};
use bytes::Bytes;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use tokio::task::yield_now;

use crate::{
    admission::limits::Share,
    guard::{Connection, RequestInProgress},
};

/// A body that the handler and the answer share.
#[derive(Clone)]
pub(crate) struct HeldBody(Rc<Shared>);

struct Shared {
    body: RefCell<Payload>,
    /// When the last bytes were read.
    arrived: Cell<Instant>,
    /// Whether nothing follows. A body of actix that has failed would be waited for.
    ended: Cell<bool>,
    /// The connection of the body, which a test may not have.
    connection: Option<Arc<Connection>>,
}

impl HeldBody {
    /// Replaces the body of a request that has begun by a shared one.
    pub(crate) fn share(request: &mut ServiceRequest, started: Instant) -> Self {
        let (body, arrived) = (RefCell::new(request.take_payload()), Cell::new(started));
        let connection = request.conn_data::<Arc<Connection>>().cloned();
        let kept = Self(Rc::new(Shared { body, arrived, ended: Cell::default(), connection }));
        request.set_payload(Payload::Stream { payload: Box::pin(kept.clone()) });
        kept
    }

    /// Returns when the last bytes of the body were read; at first when the request began.
    pub(crate) fn arrived(&self) -> Instant {
        self.0.arrived.get()
    }

    /// Skips what has arrived of an unread body. Returns whether that is the rest. Then the connection stays
    /// open.
    pub(crate) async fn skip_arrived(&mut self) -> bool {
        for is_last in [false, true] {
            while let Some(chunk) = self.next().now_or_never() {
                if !matches!(chunk, Some(Ok(_))) {
                    return true;
                }
            }
            if !is_last {
                // actix decodes the bytes that arrived with the head.
                yield_now().await;
            }
        }
        false
    }
}

impl Stream for HeldBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.0.ended.get() {
            return Poll::Ready(None);
        }
        let chunk = self.0.body.borrow_mut().poll_next_unpin(context);
        if chunk.is_pending()
            && let Some(connection) = &self.0.connection
        {
            connection.body_is_awaited();
        }
        let chunk = ready!(chunk);
        self.0.ended.set(!matches!(chunk, Some(Ok(_))));
        self.0.arrived.set(Instant::now());
        Poll::Ready(chunk)
    }
}

/// Bytes that actix gets at once. It copies them, and a slow client holds the copy.
pub(crate) const SLICE: usize = 16 * 1024;

/// An answer that keeps its request, and its permit.
pub(crate) struct AnswerBody {
    pub(crate) content: BoxBody,
    /// Bytes of the content that actix has not got yet.
    pub(crate) rest: Bytes,
    pub(crate) is_head: bool,
    pub(crate) _request: (HeldBody, Option<RequestInProgress>, Option<Share>),
}

impl MessageBody for AnswerBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.content.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if self.is_head {
            // actix sends none, unless it has decoded a request behind this one. Then it notices
            // that this is too short, and ends the connection.
            return Poll::Ready(None);
        }
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.content).poll_next(context)) {
                Some(Ok(bytes)) => self.rest = bytes,
                end => return Poll::Ready(end),
            }
        }
        let length = SLICE.min(self.rest.len());
        Poll::Ready(Some(Ok(self.rest.split_to(length))))
    }
}
