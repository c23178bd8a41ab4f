//! A mail relay that accepts every mail after a set time.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// A relay on a free port. It serves until the process ends.
pub struct Relay {
    address: SocketAddr,
    accepted: Arc<AtomicU64>,
}

impl Relay {
    /// Starts a relay that takes this time for each mail.
    pub fn start(time: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&accepted);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let counter = Arc::clone(&counter);
                // A client that goes away ends its session.
                thread::spawn(move || serve(&connection?, time, &counter));
            }
        });
        Self { address, accepted }
    }

    /// Returns the URL for `--mail-url`.
    pub fn url(&self) -> String {
        format!("smtp://{}?tls=none", self.address)
    }

    /// Returns the number of accepted mails.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

fn serve(mut connection: &TcpStream, time: Duration, accepted: &AtomicU64) -> io::Result<()> {
    connection.set_nodelay(true)?;
    connection.write_all(b"220 relay\r\n")?;
    let mut lines = BufReader::new(connection);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let reply: &[u8] = match line.get(..4).map(<[u8]>::to_ascii_uppercase).as_deref() {
            Some(b"EHLO") => b"250-relay\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n",
            Some(b"DATA") => {
                connection.write_all(b"354 go on\r\n")?;
                while line != b".\r\n" {
                    line.clear();
                    if lines.read_until(b'\n', &mut line)? == 0 {
                        return Ok(());
                    }
                }
                thread::sleep(time);
                accepted.fetch_add(1, Ordering::Relaxed);
                b"250 accepted\r\n"
            }
            Some(b"QUIT") => {
                connection.write_all(b"221 bye\r\n")?;
                return Ok(());
            }
            _ => b"250 ok\r\n",
        };
        connection.write_all(reply)?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn mails_of_a_session_are_counted() {
        let relay = Relay::start(Duration::ZERO);
        let mut client = TcpStream::connect(relay.address).unwrap();
        let mail = "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nSubject: x\r\n\r\n..\r\n.\r\n";
        client.write_all(format!("EHLO me\r\n{mail}{mail}QUIT\r\n").as_bytes()).unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        assert_eq!((relay.accepted(), replies.matches("250 accepted").count()), (2, 2));
        assert!(replies.ends_with("221 bye\r\n"), "{replies}");
    }
}
