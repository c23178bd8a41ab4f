//! The transport below the framework: a connection with limits of time and memory.
//!
//! The framework has a time limit for the first head of a connection only, holds 128 KiB of a head
//! or an unread body, and sends `100 Continue` before it asks for an answer.

use std::{
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use crate::{
    exchange::{Exchange, HEAD_TIMEOUT, Phase},
    stream::Stream,
};

/// The answer to a head that does not arrive in time.
pub(crate) const HEAD_TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// The answer to a head that is too large.
pub(crate) const HEAD_TOO_LARGE: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\n\
    connection: close\r\ncontent-length: 0\r\n\r\n";
/// Time limit for a client to read its answer while others may need the connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for [`DOWNLOAD_PROGRESS`] of a download. The kernel takes a download in large steps.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a download after which its time begins anew.
const DOWNLOAD_PROGRESS: usize = 16 * 1024;
/// The interim answer as the framework writes it.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection.
pub(crate) struct Transport {
    exchange: Rc<Exchange>,
    /// The first bytes, which arrived before the framework took over.
    first: Bytes,
    /// Reset only when it fires, or for an earlier deadline: a busy connection costs no timers.
    timer: Pin<Box<Sleep>>,
    /// What is left of an interim answer.
    interim: &'static [u8],
    /// Whether the framework has written bytes and not flushed them.
    unflushed: bool,
    /// When the client first did not read its answer fast enough.
    blocked_since: Option<Instant>,
    /// Bytes written since then.
    progress: usize,
    /// Whether the framework has seen every byte of a head that it was allowed to read so far.
    full: bool,
}

impl Transport {
    /// Continues a connection whose first bytes were read.
    pub(crate) fn new(stream: Stream, first: Bytes, exchange: Rc<Exchange>) -> Self {
        exchange.keep_stream(stream);
        exchange.first(&first);
        Self {
            exchange,
            first,
            timer: Box::pin(sleep(HEAD_TIMEOUT)),
            interim: &[],
            unflushed: false,
            blocked_since: None,
            progress: 0,
            full: false,
        }
    }

    pub(crate) fn exchange(&self) -> Rc<Exchange> {
        Rc::clone(&self.exchange)
    }

    /// Waits until the connection may be read again. The framework reads until it must wait, and
    /// only then looks at what it has.
    fn poll_allowance(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exchange.phase() == Phase::Request {
            self.exchange.park(context.waker());
        } else if self.full && !self.exchange.allow_rest_of_head() {
            return self.end(context, HEAD_TOO_LARGE);
        } else {
            self.full = true;
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Waits until the deadline of the connection.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.exchange.deadline() else { return Poll::Pending };
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        while self.timer.as_mut().poll(context).is_ready() {
            if self.timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    /// Waits until the client must have read its answer.
    fn poll_unread(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let limit = if self.exchange.is_download() { DOWNLOAD_TIMEOUT } else { ANSWER_TIMEOUT };
        let deadline = *self.blocked_since.get_or_insert_with(Instant::now) + limit;
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            if Instant::now() >= deadline && self.exchange.is_in_crowd() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline.max(Instant::now() + ANSWER_TIMEOUT / 10));
        }
    }

    /// Returns the result of a call that waits for the client to read, or fails when the client must
    /// have read.
    fn unless_unread<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_pending() && self.poll_unread(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }

    /// Ends the connection, as if its client had. Answers a head that has begun, if it can.
    fn end(&mut self, context: &mut Context<'_>, answer: &[u8]) -> Poll<io::Result<()>> {
        if !self.unflushed && self.exchange.phase() == (Phase::Head { begun: true }) {
            // The client may have closed the connection.
            let _ = self.exchange.poll_stream(|stream| stream.poll_write(context, answer));
            let _ = self.exchange.poll_stream(|stream| stream.poll_flush(context));
        }
        Poll::Ready(Ok(()))
    }

    /// Writes an interim answer, if one is due.
    fn poll_interim(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exchange.take_due_interim() {
            self.interim = CONTINUE;
        }
        while !self.interim.is_empty() {
            let interim = self.interim;
            let write = |stream: Pin<&mut Stream>| stream.poll_write(context, interim);
            let written = ready!(self.exchange.poll_stream(write))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.interim = &self.interim[written..];
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let length = self.first.len().min(buffer.remaining());
            let first = self.first.split_to(length);
            buffer.put_slice(&first);
            if self.first.is_empty() {
                self.first = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
        if self.exchange.phase() == Phase::Rest {
            return Poll::Ready(Ok(()));
        }
        let allowance = self.exchange.allowance();
        if allowance == 0 {
            return self.poll_allowance(context);
        }
        self.full = false;
        let stand_ins = self.exchange.take_stand_ins(allowance.min(buffer.remaining()));
        if stand_ins > 0 {
            // The request drops these bytes, so their values do not matter.
            buffer.initialize_unfilled_to(stand_ins);
            buffer.advance(stand_ins);
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = self.exchange.take_error() {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        let read = self.exchange.poll_stream(|stream| {
            Pin::new(&mut stream.get_mut().take(allowance as u64)).poll_read(context, buffer)
        });
        self.exchange.read(&buffer.filled()[before..]);
        if read.is_pending() && self.poll_deadline(context).is_ready() {
            return self.end(context, HEAD_TOO_SLOW);
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.starts_with(CONTINUE) && self.exchange.take_swallow() {
            return Poll::Ready(Ok(CONTINUE.len()));
        }
        ready!(self.poll_interim(context))?;
        self.unflushed = true;
        let written = self.exchange.poll_stream(|stream| stream.poll_write(context, bytes));
        if let Poll::Ready(Ok(written)) = &written
            && self.exchange.is_download()
        {
            self.progress += *written;
            if self.progress >= DOWNLOAD_PROGRESS {
                (self.blocked_since, self.progress) = (None, 0);
            }
        }
        self.unless_unread(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_interim(context))?;
        // Only TLS holds bytes that are not flushed.
        let flushed = self.exchange.poll_stream(|stream| stream.poll_flush(context));
        ready!(self.unless_unread(flushed, context))?;
        self.unflushed = false;
        if self.exchange.phase() != Phase::Request {
            self.blocked_since = None;
        }
        // The framework reads again only when it is woken.
        if self.poll_deadline(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exchange.phase() == Phase::Rest {
            // The owner of the connection ends it later.
            return Poll::Ready(Ok(()));
        }
        // TLS has an end to send, behind what waits for the client.
        let shut_down = self.exchange.poll_stream(|stream| stream.poll_shutdown(context));
        self.unless_unread(shut_down, context)
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
