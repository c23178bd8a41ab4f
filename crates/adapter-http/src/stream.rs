//! A connection of a client: plain, or with TLS.
//!
//! What is promised of plain connections holds above TLS too. So this has the only differences: a
//! handshake comes first, TLS holds bytes of its own, and its end is announced.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};

use crate::connections::ConnectionTracker;

/// The first byte of every TLS handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;
/// Bytes of an answer that TLS holds for a client that does not read.
const WRITE_BUFFER: usize = 16 * 1024;
/// Bytes below TLS that every connection may send until its first head is complete. Handshakes and
/// heads of ordinary clients fit. TLS always has a buffer of this size.
const FREE_BYTES: usize = 4 * 1024;
/// Bytes beyond these for a connection with a permit: a head of the greatest size, or a large
/// record that begins with one.
const LARGE_BYTES: usize = 24 * 1024;
/// Time limit for a client to take the end of its connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Wire>>),
}

/// What became of a handshake.
pub(crate) enum Handshake {
    Done(Stream),
    /// The client does not speak TLS.
    Plain(TcpStream),
    Failed(io::Error),
    /// The client left without a byte, as health checks do.
    Gone,
}

impl Stream {
    /// Waits for the TLS handshake of a client. The caller limits its time.
    pub(crate) async fn handshake(
        tcp: TcpStream,
        config: Arc<ServerConfig>,
        connections: Arc<ConnectionTracker>,
    ) -> Handshake {
        let mut first = [0];
        match tcp.peek(&mut first).await {
            Ok(1) if first == [HANDSHAKE] => {}
            Ok(1) => return Handshake::Plain(tcp),
            Ok(_) | Err(_) => return Handshake::Gone,
        }
        let meter = Meter { left: FREE_BYTES, connections, permit: None };
        let wire = Wire { tcp, meter: Some(meter) };
        let accepting = TlsAcceptor::from(config).accept_with(wire, |session| {
            session.set_buffer_limit(Some(WRITE_BUFFER));
        });
        // Boxed only now: a connection that has sent nothing must be small.
        match Box::pin(accepting).await {
            Ok(stream) => Handshake::Done(Self::Tls(Box::new(stream))),
            Err(error) => Handshake::Failed(error),
        }
    }

    /// Returns the connection below TLS.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => &tls.get_ref().0.tcp,
        }
    }

    /// Waits until the client has sent bytes, or has gone.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tls(tls) if !tls.get_ref().1.wants_read() => Ok(()),
            _ => self.tcp().readable().await,
        }
    }

    /// Stops counting the bytes below TLS, and gives the permit for them back.
    pub(crate) fn first_head_taken(&mut self) {
        if let Self::Tls(tls) = self {
            tls.get_mut().0.meter = None;
        }
    }

    /// Announces the end of a TLS connection, so that the client knows that nothing was cut off. A
    /// plain connection has no such end.
    pub(crate) async fn close(&mut self) {
        if let Self::Tls(tls) = self {
            let _ = timeout(CLOSE_TIMEOUT, tls.shutdown()).await;
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(context, buffer),
            Self::Tls(tls) => match ready!(Pin::new(tls).poll_read(context, buffer)) {
                // Some clients leave without a word. HTTP shows itself whether a request is whole.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
                read => Poll::Ready(read),
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(context),
            Self::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }
}

/// The connection below TLS.
pub(crate) struct Wire {
    tcp: TcpStream,
    /// `None` when the first head is complete.
    meter: Option<Meter>,
}

/// Counts what a client sends before its first head is complete. TLS holds the bytes of records
/// and handshakes that are not complete, up to 64 KiB.
struct Meter {
    left: usize,
    connections: Arc<ConnectionTracker>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Meter {
    /// Counts bytes. Fails with [`io::ErrorKind::OutOfMemory`] if they are too many.
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > self.left && self.permit.is_none() {
            self.permit = self.connections.try_large_record();
            self.left += if self.permit.is_some() { LARGE_BYTES } else { 0 };
        }
        self.left = self.left.checked_sub(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(())
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        Poll::Ready(self.meter.as_mut().map_or(Ok(()), |meter| meter.count(read)))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
