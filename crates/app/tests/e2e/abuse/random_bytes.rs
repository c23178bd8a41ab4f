//! The service under random bytes: damaged requests and noise, over raw connections.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
};

use fastrand::Rng;

use crate::{
    harness::raw,
    harness::service_process::ServiceProcess,
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, FORM, JSON, PATIENCE, created, order, patiently,
        raw_order_parts, setting, spooled,
    },
    wiring::{Kind, on_both_wirings},
};

/// Variables with the number of connections and the seed, for longer runs (`just random-bytes`).
const CONNECTIONS: &str = "RANDOM_CONNECTIONS";
const SEED: &str = "RANDOM_SEED";
/// Number of concurrent connections.
const LANES: u64 = 8;

/// Returns a valid request. The file numbers are few, so that some orders are duplicates.
fn valid_request(rng: &mut Rng, key: &str) -> Vec<u8> {
    let number = format!("R-{}", rng.u32(..1_000));
    let head = |path: &str, media_type: &str| {
        let line = format!("POST {path} HTTP/1.1\r\nHost: test\r\n");
        format!("{line}Authorization: Bearer {key}\r\n{media_type}")
    };
    let chunked = |body: &str| {
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    };
    let whole = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let json = order(&number).to_string();
    let document = "--b\r\nContent-Disposition: form-data; name=\"documents\"; \
         filename=\"deed.pdf\"\r\n\r\n%PDF-1.7\r\n--b--\r\n";
    let form = raw_order_parts(&number) + document;
    let (json_head, form_head) = (head(CREATE, JSON), head(CREATE_WITH_DOCUMENTS, FORM));
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

/// Damages some bytes, also with tokens that have a meaning in HTTP, JSON and forms.
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
        let mut request = valid_request(rng, key);
        match rng.u8(..6) {
            0 => {}
            1 => request = (0..rng.usize(..600)).map(|_| rng.u8(..)).collect(),
            _ => damage(rng, &mut request),
        }
        sent.extend(request);
    }
    sent
}

/// Sends bytes in pieces, and reads the responses until the service closes the connection.
fn exchange(address: SocketAddr, rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let largest = [1, 7, 100, 5_000][rng.usize(..4)].max(bytes.len() / 200);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rng.usize(1..=largest).min(rest.len()));
        // The service may reject the request and close the connection before it has all bytes.
        if stream.write_all(piece).is_err() {
            break;
        }
        rest = later;
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut responses = Vec::new();
    match stream.read_to_end(&mut responses) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("neither answered nor closed within {PATIENCE:?}")
        }
        // The connection was reset if the service closed it with bytes unread.
        _ => responses,
    }
}

/// Sends requests over one connection after the other, and returns all statuses.
fn lane(address: SocketAddr, key: &str, seed: u64, connections: u64) -> Vec<u16> {
    let mut responses = Vec::new();
    for at in 0..connections {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(at));
        let sent = requests(&mut rng, key);
        let tried = std::panic::catch_unwind(move || {
            let responses = exchange(address, &mut rng, &sent);
            let (statuses, _) = raw::parse(str::from_utf8(&responses).expect("no raw bytes"));
            assert!(
                statuses.iter().all(|status| (100..500).contains(status)),
                "{statuses:?} to {}",
                sent.escape_ascii()
            );
            statuses
        });
        responses.extend(tried.unwrap_or_else(|_| panic!("connection {at} of {SEED}={seed}")));
    }
    responses
}

/// Sends random bytes over this many connections, unless the environment says otherwise.
async fn break_nothing(kind: Kind, connections: u64) {
    let wiring = kind.wiring();
    let server = ServiceProcess::keyed(&wiring, &["--rate-per-second=0"]);
    let (connections, seed) = (setting(CONNECTIONS, connections), setting(SEED, 6));
    let responses: Vec<u16> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|number| {
                let service = &server;
                let each = connections / LANES;
                scope.spawn(move || lane(service.address, &service.key, seed + number, each))
            })
            .collect();
        let joined = lanes.into_iter().map(|lane| lane.join().expect("the panic names the seed"));
        joined.flatten().collect()
    });
    // The bytes reached every part: orders were created, and every parser rejected some requests.
    for status in [100, 200, 201, 400, 401, 404, 409, 415] {
        assert!(responses.contains(&status), "{status} is not among {} responses", responses.len());
    }
    created(patiently(server.order("afterwards")).await).await;
    created(patiently(server.order_with_deed("afterwards, with a deed")).await).await;
    let log = server.stop_and_read_log();
    assert!(!log.contains("panicked") && !log.contains("\"level\":\"ERROR\""), "{log}");
    assert_eq!(spooled(wiring.data()), Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_never_break_the_service() {
    break_nothing(Kind::Embedded, 400).await;
}

on_both_wirings! {
    #[ignore = "nightly: sends random bytes over thousands of connections"]
    many_random_bytes_never_break_the_service,
}

async fn many_random_bytes_never_break_the_service(kind: Kind) {
    break_nothing(kind, 20_000).await;
}
