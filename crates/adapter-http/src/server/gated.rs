//! A connection whose reads pass its gate (`gate.rs`).

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
};
use tokio_util::sync::PollSemaphore;

use crate::{
    gate::Reading,
    guard::{Connection, Connections},
};

/// Reads of discarded bytes in one turn, so that a fast client does not hold up others.
const DISCARDED_READS: usize = 16;

/// A connection for actix, with TLS or without.
pub(crate) struct Gated<Io> {
    io: Io,
    pub(crate) connection: Arc<Connection>,
    large_heads: PollSemaphore,
    /// The permit of a large head, until actix has decoded it and its request is answered.
    large_head: Option<OwnedSemaphorePermit>,
}

impl<Io: AsyncRead + Unpin> Gated<Io> {
    pub(crate) fn new(io: Io, connection: Arc<Connection>, connections: &Connections) -> Self {
        let large_heads = PollSemaphore::new(Arc::clone(&connections.large_heads));
        Self { io, connection, large_heads, large_head: None }
    }

    /// Reads at most this number of bytes.
    fn read_up_to(
        &mut self,
        bytes: usize,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        // A part of the buffer as a slice would be filled with zeros at each read.
        let mut part = (&mut self.io).take(bytes as u64);
        let read = Pin::new(&mut part).poll_read(context, buffer);
        if read.is_pending() {
            self.connection.has_read(None);
        }
        ready!(read)?;
        let bytes = buffer.filled().len() - before;
        self.connection.has_read(Some(bytes));
        Poll::Ready(Ok(()))
    }

    /// Reads and discards what has arrived. Completes at the end of the connection.
    fn discard(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..DISCARDED_READS {
            let mut discarded = ReadBuf::new(buffer.initialize_unfilled());
            ready!(Pin::new(&mut self.io).poll_read(context, &mut discarded))?;
            if discarded.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Gated<Io> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.connection.reading(context) {
            Reading::UpTo(bytes) => {
                this.large_head = None;
                this.read_up_to(bytes, context, buffer)
            }
            Reading::LargeHead(bytes) => {
                if this.large_head.is_none() {
                    this.large_head = ready!(this.large_heads.poll_acquire(context));
                }
                this.read_up_to(bytes, context, buffer)
            }
            Reading::Later => Poll::Pending,
            Reading::AfterDecoding => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Reading::TooLarge => {
                // A client that gets its answer before the rest is read may lose it.
                let _ = this.discard(context, buffer)?;
                // actix answers 431 when a head has 128 KiB.
                let filler = buffer.initialize_unfilled();
                filler.fill(b'x');
                let bytes = filler.len();
                buffer.advance(bytes);
                Poll::Ready(Ok(()))
            }
            Reading::Nothing => {
                this.large_head = None;
                this.discard(context, buffer)
            }
        }
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Gated<Io> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }
}
