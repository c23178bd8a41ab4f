//! The service under bytes of chance: requests that were damaged, and noise, over raw connections.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;

use crate::{
    harness::{CREATE, CREATE_WITH_DOCUMENTS, created, order, raw_order_parts, setting, spooled},
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

/// Connections of a run, and where their chance begins; for longer runs (`just random-bytes`) both
/// can be named.
const CONNECTIONS: &str = "RANDOM_CONNECTIONS";
const SEED: &str = "RANDOM_SEED";
/// Connections at a time.
const LANES: u64 = 8;
/// Longest time until a connection on which nothing more is sent is answered and closed.
const BOUND: Duration = Duration::from_secs(10);

/// A genuine request. Only some orders are told apart by their number, so that others meet the
/// duplicate rule.
fn genuine(rng: &mut Rng, key: &str) -> Vec<u8> {
    let number = format!("R-{}", rng.u32(..1_000));
    let head = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {key}\r\n")
    };
    let chunked = |body: &str| {
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    };
    let whole = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let json = order(&number).to_string();
    let document = "--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"deed.pdf\"\r\n\r\n%PDF-1.7\r\n--b--\r\n";
    let form = raw_order_parts(&number) + document;
    let json_head = head(CREATE) + "Content-Type: application/json\r\n";
    let form_head =
        head(CREATE_WITH_DOCUMENTS) + "Content-Type: multipart/form-data; boundary=b\r\n";
    match rng.u8(..8) {
        0 => format!("{json_head}Idempotency-Key: \"{number}\"\r\n{}", whole(&json)),
        1 => json_head + &chunked(&json),
        2 => json_head + "Expect: 100-continue\r\n" + &whole(&json),
        3 => json_head + &whole(&json),
        4 => form_head + &chunked(&form),
        5 | 6 => form_head + &whole(&form),
        _ => "GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(),
    }
    .into_bytes()
}

/// Damages bytes in some places, with what means something to HTTP, JSON and forms.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const TOKENS: [&[u8]; 16] = [
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b"\0",
        b" ",
        b":",
        b"Content-Length: 7\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Upgrade: websocket\r\n",
        b"--b\r\n",
        b"--b--",
        b"99999999999999999999",
        b"-1",
        b"\"",
        b"{",
        b"\xFF",
    ];
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=bytes.len());
        let end = bytes.len().min(at + rng.usize(..40));
        match rng.u8(..5) {
            0 if at < bytes.len() => bytes[at] = rng.u8(..),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            3 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, TOKENS[rng.usize(..TOKENS.len())].iter().copied())),
        }
    }
}

fn requests(rng: &mut Rng, key: &str) -> Vec<u8> {
    let mut sent = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let mut request = genuine(rng, key);
        match rng.u8(..6) {
            0 => {}
            1 => request = (0..rng.usize(..600)).map(|_| rng.u8(..)).collect(),
            _ => damage(rng, &mut request),
        }
        sent.extend(request);
    }
    sent
}

/// Sends bytes in pieces, and reads what comes back until the service closes the connection.
fn exchange(address: &str, rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    let largest = [1, 7, 100, 5_000][rng.usize(..4)].max(bytes.len() / 200);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rng.usize(1..=largest).min(rest.len()));
        // It may have refused the request, and be gone, before it has all of it.
        if stream.write_all(piece).is_err() {
            break;
        }
        rest = later;
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    match stream.read_to_end(&mut answers) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("neither answered nor closed within {BOUND:?}")
        }
        // Reset, because it closed the connection with bytes unread.
        _ => answers,
    }
}

/// The statuses of the answers on a connection, of which the last may have been cut off with it.
fn statuses(mut answers: &[u8]) -> Vec<u16> {
    let mut statuses = Vec::new();
    while let Some(end) = answers.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
        let head =
            std::str::from_utf8(&answers[..end]).expect("a head is text").to_ascii_lowercase();
        let status = head
            .strip_prefix("http/1.1 ")
            .or_else(|| head.strip_prefix("http/1.0 "))
            .unwrap_or_else(|| panic!("not an answer: {head}"));
        statuses.push(status[..3].parse().unwrap());
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        answers = &answers[(end + 4 + length).min(answers.len())..];
    }
    statuses
}

fn lane(address: &str, key: &str, seed: u64, connections: u64) -> Vec<u16> {
    let mut answers = Vec::new();
    for at in 0..connections {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(at));
        let sent = requests(&mut rng, key);
        let tried = std::panic::catch_unwind(move || {
            let statuses = statuses(&exchange(address, &mut rng, &sent));
            assert!(
                statuses.iter().all(|status| (100..500).contains(status)),
                "{statuses:?} to {}",
                sent.escape_ascii()
            );
            statuses
        });
        answers.extend(tried.unwrap_or_else(|_| panic!("connection {at} of {SEED}={seed}")));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_bytes_arrive_the_service_answers_or_closes_and_goes_on() {
    let wiring = Wiring::new();
    let key = issue_key(&wiring);
    let server = ServiceProcess::start(&wiring, &["--rate-per-second=0"]);
    let (connections, seed) = (setting(CONNECTIONS, 1_600), setting(SEED, 6));
    let answers: Vec<u16> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane_number| {
                scope.spawn({
                    let (address, key) = (&server.address, &key);
                    move || lane(address, key, seed + lane_number, connections / LANES)
                })
            })
            .collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("the seed is above")).collect()
    });
    // The bytes went far enough to mean something: orders were created, and every kind of reader
    // refused some.
    for status in [100, 200, 201, 400, 401, 404, 409, 415] {
        assert!(answers.contains(&status), "{status} is not among {} answers", answers.len());
    }
    let began = Instant::now();
    created(server.post(&key, "afterwards").await).await;
    created(server.post_with_deed(&key, "afterwards, with a deed").await).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let log = server.stop_and_read_log();
    assert!(!log.contains("panicked") && !log.contains("\"level\":\"ERROR\""), "{log}");
    assert_eq!(spooled(wiring.data()), Vec::<std::path::PathBuf>::new());
}
