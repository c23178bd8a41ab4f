//! SIGTERM under full load: every request on a connection that was taken gets its own answer.
//! `STOPS` says how often; `just stops` does it fifty times.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use serde_json::Value;
use tokio::task::block_in_place;

use crate::{
    harness::{CREATE, CREATE_WITH_DOCUMENTS, order, raw_form_with_deed, setting},
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

const STOPS: u32 = 3;

/// How a client uses its connections.
#[derive(Clone, Copy)]
enum Habit {
    /// For one request after the other, until an answer closes it.
    Keeps,
    /// For one request each.
    Opens,
    /// For orders with documents.
    Uploads,
}

const CROWD: &[(Habit, usize)] = &[(Habit::Keeps, 16), (Habit::Opens, 8), (Habit::Uploads, 4)];

struct Client<'a> {
    habit: Habit,
    address: &'a str,
    key: &'a str,
    next: &'a AtomicUsize,
}

impl Client<'_> {
    /// Orders until no connection is taken any more; how many orders were acknowledged.
    ///
    /// # Panics
    /// If a connection was taken and a request on it got no answer, or not its own.
    fn run(&self) -> usize {
        let mut acknowledged = 0;
        loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => acknowledged += self.converse(stream),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                    return acknowledged;
                }
            }
        }
    }

    fn converse(&self, mut stream: TcpStream) -> usize {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        for acknowledged in 1.. {
            let file_number = format!("F-{}", self.next.fetch_add(1, Ordering::Relaxed));
            stream
                .write_all(&self.request(&file_number))
                .unwrap_or_else(|error| panic!("{file_number} cannot be sent: {error}"));
            if answer_closes(&mut answers, &file_number) {
                return acknowledged;
            }
        }
        unreachable!("a connection has an end");
    }

    fn request(&self, file_number: &str) -> Vec<u8> {
        let (path, content_type, body) = match self.habit {
            Habit::Keeps | Habit::Opens => {
                (CREATE, "application/json", order(file_number).to_string().into_bytes())
            }
            Habit::Uploads => (
                CREATE_WITH_DOCUMENTS,
                "multipart/form-data; boundary=b",
                raw_form_with_deed(file_number),
            ),
        };
        let connection =
            if matches!(self.habit, Habit::Opens) { "Connection: close\r\n" } else { "" };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n{connection}Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        [head.into_bytes(), body].concat()
    }
}

/// Reads the answer to an order; whether the connection ends with it.
fn answer_closes(answers: &mut BufReader<TcpStream>, file_number: &str) -> bool {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = answers
            .read_line(&mut head)
            .unwrap_or_else(|error| panic!("{file_number}: {error} after {head:?}"));
        assert_ne!(read, 0, "{file_number} has no answer but {head:?}");
    }
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 201 "), "{file_number}: {head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    answers.read_exact(&mut body).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["file_number"], file_number);
    head.contains("\r\nconnection: close\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_connected_at_a_stop_gets_an_answer_and_everybody_else_is_refused() {
    assert_answered(CROWD);
}

/// Between its connections the service has none.
#[tokio::test(flavor = "multi_thread")]
async fn so_does_a_lone_client_that_connects_for_each_order() {
    assert_answered(&[(Habit::Opens, 1)]);
}

fn assert_answered(crowd: &[(Habit, usize)]) {
    let stops = setting("STOPS", STOPS);
    let (wiring, next) = (Wiring::new(), AtomicUsize::new(0));
    let mut key = None;
    let mut acknowledged = 0;
    for _ in 0..stops {
        let service = ServiceProcess::start(&wiring, &["--rate-per-second=0"]);
        let key = key.get_or_insert_with(|| issue_key(&wiring)).clone();
        let address = service.address.clone();
        let before = next.load(Ordering::Relaxed);
        acknowledged += block_in_place(|| {
            thread::scope(|scope| {
                let client = |habit| Client { habit, address: &address, key: &key, next: &next };
                let clients: Vec<_> =
                    crowd.iter().flat_map(|(habit, count)| (0..*count).map(|_| *habit)).collect();
                let clients: Vec<_> = clients
                    .into_iter()
                    .map(|habit| scope.spawn(move || client(habit).run()))
                    .collect();
                // All are at it.
                while next.load(Ordering::Relaxed) < before + 20 * crowd.len() {
                    thread::sleep(Duration::from_millis(1));
                }
                thread::sleep(Duration::from_millis(fastrand::u64(0..100)));
                assert_eq!(service.stop("-TERM").0, Some(0));
                clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
            })
        });
    }
    println!("{stops} stops, {acknowledged} orders acknowledged");
    assert_eq!(
        acknowledged,
        next.load(Ordering::Relaxed),
        "every order that was asked for is answered"
    );
    assert_eq!(wiring.rows("orders"), i64::try_from(acknowledged).unwrap());
    assert_eq!(wiring.rows("documents"), i64::try_from(wiring.objects().len()).unwrap());
    assert_eq!(crate::harness::spooled(wiring.data()), Vec::<std::path::PathBuf>::new());
}
