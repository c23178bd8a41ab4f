//! A receiver that records every webhook, whatever becomes of its sender.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// The number of requests with each `webhook-id`.
type Received = Arc<Mutex<BTreeMap<String, usize>>>;

/// Holds the answers back until it is open.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}

pub struct Receiver {
    address: SocketAddr,
    received: Received,
    gate: Arc<Gate>,
}

impl Receiver {
    /// Receives until the end of the process.
    pub fn start() -> Self {
        let receiver = Self::holding();
        receiver.answer();
        receiver
    }

    /// Receives, and answers nothing until [`Self::answer`].
    pub fn holding() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Received::default());
        let gate = Arc::<Gate>::default();
        let (record, held) = (Arc::clone(&received), Arc::clone(&gate));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (record, held) = (Arc::clone(&record), Arc::clone(&held));
                // The killed sender may have gone.
                thread::spawn(move || receive(&stream, &record, &held));
            }
        });
        Self { address, received, gate }
    }

    /// Answers from now on.
    pub fn answer(&self) {
        self.gate.open();
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub fn received(&self) -> BTreeMap<String, usize> {
        self.received.lock().unwrap().clone()
    }
}

/// Records a request that arrives whole, and accepts it.
fn receive(mut stream: &TcpStream, received: &Received, gate: &Gate) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let header = |wanted: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        let field = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        field.map(|(_, value)| value.to_owned()).unwrap()
    };
    let (id, length) = (header("webhook-id"), header("content-length"));
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body)?;
    *received.lock().unwrap().entry(id).or_default() += 1;
    gate.wait();
    stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
}
