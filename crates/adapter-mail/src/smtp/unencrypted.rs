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

/// The first byte of a TLS handshake (RFC 8446 section 5.1), which no SMTP command begins with.
const HANDSHAKE: u8 = 0x16;

/// A connection that begins without encryption. Until TLS begins it gives out one line at a time:
/// lettre keeps what it has read ahead, and would take what somebody on the way has put behind the
/// reply to STARTTLS for replies of the relay under TLS (CVE-2011-0411 is the same on the other
/// side).
#[derive(Debug)]
pub(super) struct Unencrypted {
    tcp: TcpStream,
    handed_over_to_tls: bool,
}

impl Unencrypted {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, handed_over_to_tls: false }
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
        if this.handed_over_to_tls {
            return Pin::new(&mut this.tcp).poll_read(context, buffer);
        }
        let mut bytes = [0; 512];
        let space = bytes.len().min(buffer.remaining());
        let mut ahead = ReadBuf::new(&mut bytes[..space]);
        ready!(this.tcp.poll_peek(context, &mut ahead))?;
        let line =
            ahead.filled().split_inclusive(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        let mut taken = ReadBuf::new(&mut bytes[..line]);
        ready!(Pin::new(&mut this.tcp).poll_read(context, &mut taken))?;
        buffer.put_slice(taken.filled());
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
        this.handed_over_to_tls |= bytes.first() == Some(&HANDSHAKE);
        Pin::new(&mut this.tcp).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(context)
    }
}
