//! A server with scripted responses that records its requests. It simulates failures that the
//! service cannot produce on demand.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Instant,
};

use serde_json::{Value, json};

/// The reaction to a complete request.
pub enum Reply {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Closes the connection without a response.
    Hangup,
    /// Closes the connection in the middle of a 201.
    TornCreated,
}

impl Reply {
    pub fn problem(
        status: u16,
        code: &str,
        headers: Vec<(&'static str, String)>,
        errors: Option<Value>,
    ) -> Self {
        let mut body = json!({
            "type": "about:blank",
            "title": "",
            "status": status,
            "detail": "what is wrong",
            "code": code,
            "request_id": "5a1c0e9d7b3f4a2286c0d1e5"
        });
        if let Some(errors) = errors {
            body["errors"] = errors;
        }
        let headers = [("Content-Type", "application/problem+json".to_owned())]
            .into_iter()
            .chain(headers)
            .collect();
        Self::Answer { status, headers, body: body.to_string() }
    }

    fn created(order_id: usize) -> Self {
        let headers = vec![("Content-Type", "application/json".to_owned())];
        Self::Answer { status: 201, headers, body: json!({ "order_id": order_id }).to_string() }
    }

    /// A new order without documents, which is a list of this order and a page of its changes, too.
    fn read() -> Self {
        let headers = vec![
            ("Content-Type", "application/json".to_owned()),
            ("ETag", "\"660c819a17000.1\"".to_owned()),
        ];
        let mut order = json!({ "order_id": 1, "order_status": "NEW", "notary_id": null });
        order["data"] = json!([order]);
        order["has_more"] = json!(false);
        order["next_after"] = json!("1-1");
        order["documents"] = json!([]);
        Self::Answer { status: 200, headers, body: order.to_string() }
    }

    fn write_to(&self, stream: &mut TcpStream) {
        let text = match self {
            Self::Answer { status, headers, body } => {
                let mut text = format!(
                    "HTTP/1.1 {status} Scripted\r\nConnection: close\r\nContent-Length: {}\r\n",
                    body.len()
                );
                for (name, value) in headers {
                    write!(text, "{name}: {value}\r\n").unwrap();
                }
                text + "\r\n" + body
            }
            Self::Hangup => String::new(),
            Self::TornCreated => "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\
                Content-Length: 400\r\n\r\n{\"order_id\":7"
                .to_owned(),
        };
        stream.write_all(text.as_bytes()).unwrap();
    }
}

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Request {
    pub at: Instant,
    /// The request line and the header fields.
    pub head: String,
    /// The body, unless it came in chunks.
    pub body: Vec<u8>,
}

impl Request {
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find_map(|(field, value)| field.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Reads a request to the end of its body.
    fn read_from(stream: &TcpStream) -> Option<Self> {
        let (mut reader, mut writer) = (BufReader::new(stream), stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap() == 0 {
                return None;
            }
        }
        let mut request = Self { at: Instant::now(), head, body: Vec::new() };
        if request.header("Expect").is_some() {
            writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        }
        if request.header("Transfer-Encoding").is_some() {
            while discard_chunk(&mut reader) > 0 {}
        } else {
            let length = request.header("Content-Length").map_or(0, |text| text.parse().unwrap());
            reader.take(length).read_to_end(&mut request.body).unwrap();
        }
        Some(request)
    }
}

fn discard_chunk(reader: &mut BufReader<&TcpStream>) -> u64 {
    let mut size = String::new();
    reader.read_line(&mut size).unwrap();
    let size = u64::from_str_radix(size.trim(), 16).unwrap();
    std::io::copy(&mut reader.take(size + 2), &mut std::io::sink()).unwrap();
    size
}

pub struct ScriptedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedServer {
    /// Follows the script; then creates every order, with ids from 1. Reads are neither part of the
    /// script nor recorded.
    pub fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let record = Arc::clone(&requests);
        let thread = std::thread::spawn(move || {
            let mut script = VecDeque::from(script);
            let mut order_id = 0;
            loop {
                let mut stream = listener.accept().unwrap().0;
                // `end` connects and sends nothing.
                let Some(request) = Request::read_from(&stream) else { return };
                if request.head.starts_with("GET ") {
                    Reply::read().write_to(&mut stream);
                    continue;
                }
                order_id += 1;
                record.lock().unwrap().push(request);
                let reply = script.pop_front().unwrap_or_else(|| Reply::created(order_id));
                reply.write_to(&mut stream);
            }
        });
        Self { address, requests, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests until now in order.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Stops the server and returns its requests in order.
    pub fn stop(mut self) -> Vec<Request> {
        self.end();
        self.requests()
    }

    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(TcpStream::connect(self.address));
            let _ = thread.join();
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.end();
    }
}
