//! Keeps the body of a request until its answer is sent, and tells the connection about both.
//!
//! The framework closes the connection of a body that was not read to its end, and lets the client
//! read the answer first. If a chunked body were dropped earlier, it would be read without end.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use actix_web::{
    HttpMessage as _,
    body::{BodySize, BoxBody, MessageBody},
    dev::{Payload, ServiceRequest},
    error::PayloadError,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};

use crate::{exchange::Exchange, read_bytes::BodyLength};

/// A body that the handler and the answer share.
#[derive(Clone)]
pub(crate) struct UnreadBody(Rc<Shared>);

struct Shared {
    body: RefCell<Payload>,
    /// `None` in tests without a connection.
    exchange: Option<Rc<Exchange>>,
}

impl UnreadBody {
    /// Replaces the body of a request by a shared one. The request has begun.
    pub(crate) fn share(request: &mut ServiceRequest) -> Self {
        let exchange = request.request().conn_data::<Rc<Exchange>>().cloned();
        if let Some(exchange) = &exchange {
            exchange.request_started(BodyLength::of(request.headers()));
        }
        let body = RefCell::new(request.take_payload());
        let unread = Self(Rc::new(Shared { body, exchange }));
        request.set_payload(Payload::Stream { payload: Box::pin(unread.clone()) });
        unread
    }

    /// Returns whether the whole body has arrived.
    fn is_whole(&self) -> bool {
        let mut body = self.0.body.borrow_mut();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match body.poll_next_unpin(&mut context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None) => return true,
                Poll::Ready(Some(Err(_))) | Poll::Pending => return false,
            }
        }
    }
}

impl Stream for UnreadBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.0.body.borrow_mut().poll_next_unpin(context);
        if let (Poll::Pending, Some(exchange)) = (&polled, &self.0.exchange) {
            exchange.body_wanted();
        }
        polled
    }
}

/// An answer that keeps the body of its request.
pub(crate) struct AnswerWithBody {
    answer: BoxBody,
    unread: UnreadBody,
}

impl AnswerWithBody {
    pub(crate) fn new(answer: BoxBody, unread: UnreadBody) -> Self {
        Self { answer, unread }
    }
}

/// The answer is sent, or its client is gone.
impl Drop for AnswerWithBody {
    fn drop(&mut self) {
        if let Some(exchange) = &self.unread.0.exchange {
            exchange.answered(self.unread.is_whole());
        }
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
