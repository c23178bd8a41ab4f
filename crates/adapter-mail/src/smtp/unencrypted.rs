use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A connection that begins without encryption. Each read returns at most one line. Under TLS that
/// costs a few more reads, because replies are short.
///
/// lettre keeps its read buffer across STARTTLS. An attacker could append plaintext replies to the
/// reply to STARTTLS, and lettre would read them as replies under TLS. CVE-2011-0411 is the same
/// flaw in a server.
#[derive(Debug)]
pub(super) struct Unencrypted(pub(super) TcpStream);

impl AsyncTokioStream for Unencrypted {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }
}

impl AsyncRead for Unencrypted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tcp = &mut self.get_mut().0;
        let mut bytes = [0; 512];
        let space = bytes.len().min(buffer.remaining());
        let mut peeked = ReadBuf::new(&mut bytes[..space]);
        ready!(tcp.poll_peek(context, &mut peeked))?;
        let line =
            peeked.filled().split_inclusive(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        let mut read = ReadBuf::new(&mut bytes[..line]);
        ready!(Pin::new(tcp).poll_read(context, &mut read))?;
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Unencrypted {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}
