//! A receiver of webhooks, which answers each at once or never.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::latency::{Latencies, microseconds};

/// Beginning of the paths that get no answer.
const HANG: &str = "/hang";

/// A receiver on a free port. It serves until the process ends.
pub struct Receiver {
    address: SocketAddr,
    arrivals: Arc<Arrivals>,
}

#[derive(Default)]
struct Arrivals {
    answered: AtomicU64,
    /// Microseconds from the event to the webhook.
    delays: Mutex<Vec<u32>>,
}

impl Receiver {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let arrivals = Arc::<Arrivals>::default();
        let shared = Arc::clone(&arrivals);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let arrivals = Arc::clone(&shared);
                // A sender that goes away ends its connection.
                thread::spawn(move || serve(&connection?, &arrivals));
            }
        });
        Self { address, arrivals }
    }

    /// Returns the URL of an endpoint that answers.
    pub fn url(&self, number: usize) -> String {
        format!("http://{}/{number}", self.address)
    }

    /// Returns the URL of an endpoint that never answers.
    pub fn hanging_url(&self, number: usize) -> String {
        format!("http://{}{HANG}/{number}", self.address)
    }

    /// Returns the number of answered webhooks.
    pub fn answered(&self) -> u64 {
        self.arrivals.answered.load(Ordering::Relaxed)
    }

    /// Returns the times from the events to their webhooks so far.
    pub fn delays(&self) -> Latencies {
        Latencies::new(self.arrivals.delays.lock().unwrap().clone())
    }
}

fn serve(mut connection: &TcpStream, arrivals: &Arrivals) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut stream = BufReader::new(connection);
    loop {
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        if stream.read_line(&mut first)? == 0 {
            return Ok(());
        }
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        if first.split(' ').nth(1).unwrap().starts_with(HANG) {
            // Until the sender closes the connection.
            io::copy(&mut stream, &mut io::sink())?;
            return Ok(());
        }
        arrivals.delays.lock().unwrap().push(microseconds(age(&body)));
        arrivals.answered.fetch_add(1, Ordering::Relaxed);
        connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
}

/// Returns the time since the event of a webhook.
fn age(body: &[u8]) -> Duration {
    let event: serde_json::Value = serde_json::from_slice(body).unwrap();
    let at = OffsetDateTime::parse(event["timestamp"].as_str().unwrap(), &Rfc3339).unwrap();
    // Both clocks are that of this machine.
    SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .saturating_sub((at - OffsetDateTime::UNIX_EPOCH).try_into().unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_webhooks_are_counted() {
        let receiver = Receiver::start();
        let body = r#"{"type":"order.created","timestamp":"2026-12-01T20:30:00.123456Z"}"#;
        let webhook = |path: &str| {
            format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        };
        let mut client = TcpStream::connect(receiver.address).unwrap();
        client.write_all((webhook("/1") + &webhook("/2")).as_bytes()).unwrap();
        client.write_all(webhook("/hang/3").as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        assert_eq!((receiver.answered(), answers.matches("204").count()), (2, 2));
        assert_eq!(receiver.delays().count(), 2);
    }
}
