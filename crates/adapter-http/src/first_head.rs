//! Waits for the first head of a connection.
//!
//! A connection of the framework has 11 KiB of buffers. So it begins with a whole head, or with
//! bytes that can become none, which the framework rejects. Idle connections and slow heads need
//! little more than their bytes. The head is parsed with the parser of the framework, which then
//! parses it again: the two cannot disagree.

use std::{io, time::Duration};

use bytes::Bytes;
use httparse::{EMPTY_HEADER, Request};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::SemaphorePermit,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    connections::{ConnectionTracker, FREE_HEAD},
    exchange::READ_AHEAD,
    stream::Stream,
    transport::{HEAD_TOO_LARGE, HEAD_TOO_SLOW},
};

/// The answer to a request that the service has no memory or no permit for.
pub(crate) const CROWDED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n\
    connection: close\r\ncontent-length: 0\r\n\r\n";
/// The answer to a client that speaks plain HTTP where TLS is expected.
pub(crate) const NO_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    content-length: 37\r\nconnection: close\r\n\r\nThis port expects TLS: use https://.\n";
/// Number of header lines that the framework accepts. It rejects more.
pub(crate) const MAX_LINES: usize = 96;
/// Time in which a client may read a rejection before its connection is reset.
const LINGER: Duration = Duration::from_secs(1);

/// The first bytes of a connection, and the memory that they hold.
pub(crate) struct FirstHead<'a> {
    pub(crate) bytes: Bytes,
    pub(crate) units: Option<SemaphorePermit<'a>>,
}

/// Reads until the head is complete, or until `deadline`. Answers one that is too slow or too large.
/// Returns `None` then, and if the client closes the connection.
pub(crate) async fn receive<'a>(
    stream: &mut Stream,
    connections: &'a ConnectionTracker,
    deadline: Instant,
) -> Option<FirstHead<'a>> {
    match read(stream, connections, deadline).await {
        Ok(first) => first,
        Err(answer) => {
            reject(stream, answer).await;
            None
        }
    }
}

/// Reads a head, or returns the answer that rejects it.
async fn read<'a>(
    stream: &mut Stream,
    connections: &'a ConnectionTracker,
    deadline: Instant,
) -> Result<Option<FirstHead<'a>>, &'static [u8]> {
    let (mut head, mut units) = (Vec::new(), None);
    loop {
        let readable = timeout_at(deadline, stream.readable()).await;
        if readable.map_err(|_| HEAD_TOO_SLOW)?.is_err() {
            return Ok(None);
        }
        if head.len() == head.capacity() {
            let size = (2 * head.len()).clamp(FREE_HEAD / 2, READ_AHEAD);
            if size > FREE_HEAD {
                // The memory of the smaller size is free only after the larger one is taken.
                units = Some(connections.try_take_head_units(size).ok_or(CROWDED)?);
            }
            head.reserve_exact(size - head.len());
        }
        let read = timeout_at(deadline, stream.read_buf(&mut head)).await;
        match read.map_err(|_| HEAD_TOO_SLOW)? {
            Ok(1..) if !is_partial(&head) => {
                return Ok(Some(FirstHead { bytes: head.into(), units }));
            }
            Ok(1..) if head.len() >= READ_AHEAD => return Err(HEAD_TOO_LARGE),
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => return Err(CROWDED),
            Ok(0) | Err(_) => return Ok(None),
        }
    }
}

/// Returns whether more bytes can make the head complete.
fn is_partial(head: &[u8]) -> bool {
    let mut lines = [EMPTY_HEADER; MAX_LINES];
    Request::new(&mut lines).parse(head).is_ok_and(|parsed| parsed.is_partial())
}

/// Answers, and closes the connection.
pub(crate) async fn reject(stream: &mut Stream, answer: &[u8]) {
    let _ = timeout(LINGER, stream.write_all(answer)).await;
    let _ = timeout(LINGER, stream.shutdown()).await;
    discard_rest(stream.tcp(), LINGER).await;
}

/// Discards what a client still sends, until it closes its side or `time` is over. Closing a
/// connection with unread bytes would reset it, and the client might lose the answer.
pub(crate) async fn discard_rest(stream: &TcpStream, time: Duration) {
    let discard = async {
        while stream.readable().await.is_ok() {
            match stream.try_read(&mut [0; 4096]) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return,
            }
        }
    };
    let _ = timeout(time, discard).await;
}

#[cfg(test)]
#[path = "first_head_tests.rs"]
mod tests;
