//! A minimal HTTP/1.1 client.

use std::{
    io::{self, Read, Write as _},
    net::TcpStream,
    time::Duration,
};

/// Time limit for a read or write.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The parts of a response that the measurements need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub retry_after: bool,
    /// The service closes the connection after this response.
    pub closes: bool,
    /// Bytes of the body.
    pub length: usize,
}

/// A connection for several requests.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    pub fn send(&mut self, piece: &[u8]) -> io::Result<()> {
        self.stream.write_all(piece)
    }

    pub fn answer(&mut self) -> io::Result<Answer> {
        read_answer(&mut self.stream, &mut self.buffer)
    }

    /// Sends a request and returns the answer with its body.
    pub fn get(&mut self, request: &[u8]) -> io::Result<(Answer, &[u8])> {
        self.send(request)?;
        let answer = self.answer()?;
        Ok((answer, &self.buffer[self.buffer.len() - answer.length..]))
    }

    /// Reads an answer in pieces of this size, and keeps none of its body. Calls `note` with the
    /// bytes of each piece.
    pub fn discard(&mut self, piece: &mut [u8], note: impl Fn(usize)) -> io::Result<Answer> {
        self.buffer.clear();
        let (answer, mut left) = loop {
            if let Some((answer, length)) = parse_head(&self.buffer)? {
                break (answer, length - self.buffer.len());
            }
            let count = read_some(&mut self.stream, piece)?;
            self.buffer.extend_from_slice(&piece[..count]);
            note(count);
        };
        while left > 0 {
            let count = read_some(&mut self.stream, piece)?;
            left = left.checked_sub(count).ok_or_else(|| malformed("bytes after the answer"))?;
            note(count);
        }
        Ok(answer)
    }
}

/// Reads at least one byte.
fn read_some(stream: &mut impl Read, piece: &mut [u8]) -> io::Result<usize> {
    match stream.read(piece)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

/// Sends a GET request on a new connection and returns the whole response.
pub fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Reads one response. Fails if there are bytes after it.
fn read_answer(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Answer> {
    buffer.clear();
    let mut piece = [0; 4096];
    let mut expected = None;
    loop {
        if expected.is_none() {
            expected = parse_head(buffer)?;
        }
        if let Some((answer, length)) = expected
            && buffer.len() >= length
        {
            return if buffer.len() == length {
                Ok(answer)
            } else {
                Err(malformed("bytes after the answer"))
            };
        }
        let count = read_some(stream, &mut piece)?;
        buffer.extend_from_slice(&piece[..count]);
    }
}

/// Parses a head. Returns the answer and the length of head and body, or `None` if the head is
/// incomplete.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(Answer, usize)>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = str::from_utf8(&bytes[..end]).map_err(|_| malformed("the head is not text"))?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok())
        .ok_or_else(|| malformed("no status"))?;
    let mut answer = Answer { status, retry_after: false, closes: false, length: 0 };
    let mut body = None;
    for line in lines {
        let (name, value) =
            line.split_once(':').ok_or_else(|| malformed("a header without a colon"))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            body = value.parse().ok();
        } else if name.eq_ignore_ascii_case("retry-after") {
            answer.retry_after = value.parse::<u32>().is_ok();
        } else if name.eq_ignore_ascii_case("connection") {
            answer.closes = value.eq_ignore_ascii_case("close");
        }
    }
    answer.length = body.ok_or_else(|| malformed("no content-length"))?;
    Ok(Some((answer, end + 4 + answer.length)))
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one piece per read.
    struct Pieces(Vec<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    const CREATED: &[u8] =
        b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}";
    const SHED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
        retry-after: 1\r\ncontent-length: 0\r\n\r\n";

    fn read(pieces: &[&[u8]]) -> io::Result<Answer> {
        read_answer(
            &mut Pieces(pieces.iter().map(|piece| piece.to_vec()).collect()),
            &mut Vec::new(),
        )
    }

    #[test]
    fn answer_may_arrive_in_pieces() {
        for at in 1..CREATED.len() {
            let answer = read(&[&CREATED[..at], &CREATED[at..]]).unwrap();
            let expected = Answer { status: 201, retry_after: false, closes: false, length: 2 };
            assert_eq!(answer, expected, "{at}");
        }
    }

    #[test]
    fn retry_after_and_close_are_parsed() {
        let shed = Answer { status: 503, retry_after: true, closes: true, length: 0 };
        assert_eq!(read(&[SHED]).unwrap(), shed);
        let without = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(read(&[without]).unwrap(), Answer { retry_after: false, closes: false, ..shed });
    }

    #[test]
    fn truncated_or_malformed_answer_is_an_error() {
        assert_eq!(
            read(&[&CREATED[..CREATED.len() - 1]]).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        let trailing = [CREATED, b"H"].concat();
        for bytes in [
            &trailing[..],
            b"HTTP/1.1 201 Created\r\n\r\n",
            b"HTTP/1.1 2\r\ncontent-length: 0\r\n\r\n",
            b"SSH-2.0\r\n\r\n",
        ] {
            assert_eq!(
                read(&[bytes]).unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
}
