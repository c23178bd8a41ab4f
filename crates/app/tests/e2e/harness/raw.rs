//! Requests on raw connections, and their responses.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
};

use serde_json::{Value, json};

use crate::harness::PATIENCE;

/// A response on a raw connection.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub head: String,
    pub body: Value,
}

impl RawAnswer {
    /// Reads the only response of a connection.
    pub fn of(text: &str) -> Self {
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not a response: {text:?}"));
        Self {
            status: status(head),
            head: head.to_owned(),
            body: serde_json::from_str(body).unwrap_or(Value::Null),
        }
    }

    pub fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{self:?}");
        let media_type = "content-type: application/problem+json";
        assert!(self.head.to_ascii_lowercase().contains(media_type), "{}", self.head);
    }
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Sends bytes in one write, and may end that side of the connection. Returns what the service
/// sends until it closes the connection.
pub async fn exchange(address: SocketAddr, bytes: Vec<u8>, ends: bool) -> String {
    let exchanged = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut writer = stream.try_clone().unwrap();
        // The service may respond and stop reading before it has all bytes.
        let writing = std::thread::spawn(move || {
            let _ = writer.write_all(&bytes);
            if ends {
                let _ = writer.shutdown(Shutdown::Write);
            }
        });
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                panic!("the service does not close the connection: {error}")
            }
            // The service resets the connection if it closes it with bytes unread.
            _ => {}
        }
        writing.join().unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    });
    exchanged.await.unwrap()
}

/// Sends bytes, ends that side of the connection, and returns the statuses of all responses.
pub async fn answers(address: SocketAddr, bytes: Vec<u8>) -> Vec<u16> {
    statuses(&exchange(address, bytes, true).await)
}

/// Returns the statuses of the responses on a connection.
pub fn statuses(responses: &str) -> Vec<u16> {
    let (statuses, rest) = parse(responses);
    assert_eq!(rest, "", "bytes that are not a response");
    statuses
}

/// Returns the statuses of responses, and what is left: the beginning of a head. The body of the
/// last response may be incomplete.
pub fn parse(mut rest: &str) -> (Vec<u16>, &str) {
    let mut statuses = Vec::new();
    while let Some((head, body)) = rest.split_once("\r\n\r\n") {
        assert!(head.starts_with("HTTP/1."), "not a response: {head}");
        statuses.push(status(head));
        let length = head
            .to_ascii_lowercase()
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        // A response to HEAD has a length but no body.
        rest = body.get(length.unwrap_or(0)..).unwrap_or_default();
    }
    (statuses, rest)
}
