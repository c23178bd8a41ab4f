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

/// The first byte of a TLS handshake (RFC 8446 section 5.1). No SMTP command begins with it.
const HANDSHAKE: u8 = 0x16;

/// A connection that begins without encryption. Until TLS begins, each read returns at most one
/// line.
///
/// lettre keeps its read buffer across STARTTLS. An attacker could append plaintext replies to the
/// reply to STARTTLS, and lettre would read them as replies under TLS. CVE-2011-0411 is the same
/// flaw in a server.
#[derive(Debug)]
pub(super) struct Unencrypted {
    tcp: TcpStream,
    tls_started: bool,
}

impl Unencrypted {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, tls_started: false }
    }
}

impl AsyncTokioStream for Unencrypted {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }
}

impl AsyncRead for Unencrypted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.tls_started {
            return Pin::new(&mut this.tcp).poll_read(context, buffer);
        }
        let mut bytes = [0; 512];
        let space = bytes.len().min(buffer.remaining());
        let mut peeked = ReadBuf::new(&mut bytes[..space]);
        ready!(this.tcp.poll_peek(context, &mut peeked))?;
        let line =
            peeked.filled().split_inclusive(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        let mut read = ReadBuf::new(&mut bytes[..line]);
        ready!(Pin::new(&mut this.tcp).poll_read(context, &mut read))?;
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
        let this = self.get_mut();
        this.tls_started |= bytes.first() == Some(&HANDSHAKE);
        Pin::new(&mut this.tcp).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(context)
    }
}
