//! Keeps the body of a request until its answer is sent.
//!
//! The framework closes the connection of a body that was not read to its end, and lets the client
//! read the answer first. If a chunked body were dropped earlier, it would be read without end.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use actix_web::{
    HttpMessage as _,
    body::{BodySize, BoxBody, MessageBody},
    dev::{Payload, ServiceRequest},
    error::PayloadError,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};

/// A body that the handler and the answer share.
#[derive(Clone)]
pub(crate) struct UnreadBody(Rc<RefCell<Payload>>);

impl UnreadBody {
    /// Replaces the body of a request by a shared one.
    pub(crate) fn share(request: &mut ServiceRequest) -> Self {
        let unread = Self(Rc::new(RefCell::new(request.take_payload())));
        request.set_payload(Payload::Stream { payload: Box::pin(unread.clone()) });
        unread
    }
}

impl Stream for UnreadBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.borrow_mut().poll_next_unpin(context)
    }
}

/// An answer that keeps the body of its request.
pub(crate) struct AnswerWithBody {
    answer: BoxBody,
    _unread: UnreadBody,
}

impl AnswerWithBody {
    pub(crate) fn new(answer: BoxBody, unread: UnreadBody) -> Self {
        Self { answer, _unread: unread }
    }
}

impl MessageBody for AnswerWithBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.answer.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.answer).poll_next(context)
    }
}
