use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::exchange::HEAD_TIMEOUT;

/// Returns both ends of a connection: the client's and the service's.
async fn connection() -> (TcpStream, Stream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, Stream::Plain(listener.accept().await.unwrap().0))
}

/// Returns what the service receives of a client that sends these bytes, and the client.
async fn received(connections: &ConnectionTracker, bytes: &[u8]) -> (Option<Bytes>, TcpStream) {
    let (mut client, mut service) = connection().await;
    client.write_all(bytes).await.unwrap();
    let deadline = Instant::now() + HEAD_TIMEOUT;
    (receive(&mut service, connections, deadline).await.map(|first| first.bytes), client)
}

async fn answer(mut client: TcpStream) -> String {
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    answer
}

fn head(length: usize) -> Vec<u8> {
    let mut head = b"POST / HTTP/1.1\r\nX: ".to_vec();
    head.resize(length, b'x');
    head
}

#[tokio::test]
async fn whole_head_and_bytes_that_can_become_none_are_returned() {
    for bytes in
        ["GET / HTTP/1.1\r\n\r\nbody", "\r\nGET / HTTP/1.0\n\n", "\x16\x03\x01", "PRI * H2"]
    {
        let (first, _) = received(&ConnectionTracker::default(), bytes.as_bytes()).await;
        assert_eq!(first.as_deref(), Some(bytes.as_bytes()));
    }
}

#[tokio::test]
async fn head_in_pieces_is_returned_whole() {
    let (mut client, mut service) = connection().await;
    let receiving = tokio::spawn(async move {
        let deadline = Instant::now() + HEAD_TIMEOUT;
        receive(&mut service, &ConnectionTracker::default(), deadline).await.unwrap().bytes
    });
    let whole = [&head(6_000)[..], b"\r\n\r\n"].concat();
    for piece in whole.chunks(701) {
        client.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(receiving.await.unwrap(), whole);
}

#[tokio::test(start_paused = true)]
async fn head_has_ten_seconds() {
    for bytes in [&b""[..], b"G", &head(100)] {
        let started = Instant::now();
        let (first, client) = received(&ConnectionTracker::default(), bytes).await;
        assert_eq!(first, None);
        assert_eq!(started.elapsed().as_secs(), 10 + LINGER.as_secs(), "{}", bytes.len());
        assert!(answer(client).await.starts_with("HTTP/1.1 408"));
    }
}

#[tokio::test(start_paused = true)]
async fn large_head_is_rejected() {
    let (first, client) =
        received(&ConnectionTracker::default(), &head(READ_AHEAD + 100_000)).await;
    assert_eq!(first, None);
    assert!(answer(client).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test(start_paused = true)]
async fn small_heads_pass_while_large_ones_hold_all_memory() {
    let connections = ConnectionTracker::default();
    let mut held = Vec::new();
    while let Some(units) = connections.try_take_head_units(READ_AHEAD) {
        held.push(units);
    }
    let small = [&head(FREE_HEAD - 4)[..], b"\r\n\r\n"].concat();
    assert_eq!(received(&connections, &small).await.0.as_deref(), Some(&small[..]));
    let large = [&head(FREE_HEAD)[..], b"\r\n\r\n"].concat();
    let (first, client) = received(&connections, &large).await;
    assert_eq!(first, None);
    assert!(answer(client).await.starts_with("HTTP/1.1 503"));
    held.clear();
    assert_eq!(received(&connections, &large).await.0.as_deref(), Some(&large[..]));
}
