use std::{future::poll_fn, pin::pin, sync::Arc, time::Duration};

use futures_util::poll;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    time::{Instant, advance, interval, timeout},
};

use super::*;
use crate::{
    connections::ConnectionTracker,
    exchange::{BODY_AHEAD, READ_AHEAD, STEP},
    first_head::discard_rest,
    read_bytes::BodyLength,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n";

/// Returns a client and its connection, which has had a request and its answer.
async fn answered() -> (TcpStream, Transport) {
    answered_of(Arc::default()).await
}

async fn answered_of(connections: Arc<ConnectionTracker>) -> (TcpStream, Transport) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let exchange = Rc::new(Exchange::new(connections));
    exchange.first(REQUEST);
    exchange.request_started(BodyLength::Known(0));
    exchange.answered(true);
    (client, Transport::new(Stream::Plain(stream), Bytes::new(), exchange))
}

/// Reads like the framework: all that is there, before it looks at it.
async fn read(transport: &mut Transport) -> usize {
    let mut total = 0;
    poll_fn(|context| {
        loop {
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *transport).poll_read(context, &mut buffer) {
                Poll::Pending if total > 0 => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(read) => {
                    read.unwrap();
                    if buffer.filled().is_empty() {
                        return Poll::Ready(());
                    }
                    total += buffer.filled().len();
                }
            }
        }
    })
    .await;
    total
}

/// Returns what the client has received when the connection ends.
async fn read_answer(mut client: TcpStream, transport: Transport) -> String {
    let exchange = transport.exchange();
    drop(transport);
    drop(exchange.take_stream());
    let mut answer = String::new();
    // The client may have sent bytes that the service did not read.
    let _ = client.read_to_string(&mut answer).await;
    answer
}

#[tokio::test(start_paused = true)]
async fn idle_connection_ends_after_75_seconds() {
    let (client, mut transport) = answered().await;
    let started = Instant::now();
    assert_eq!(read(&mut transport).await, 0);
    assert_eq!(started.elapsed().as_secs(), 75);
    assert_eq!(read_answer(client, transport).await, "");
}

#[tokio::test(start_paused = true)]
async fn head_that_began_with_the_last_request_has_ten_seconds() {
    let (mut client, mut transport) = answered().await;
    let exchange = transport.exchange();
    client.write_all(&[REQUEST, b"P"].concat()).await.unwrap();
    assert_eq!(read(&mut transport).await, REQUEST.len() + 1);
    exchange.request_started(BodyLength::Known(0));
    exchange.answered(true);
    let started = Instant::now();
    assert_eq!(read(&mut transport).await, 0);
    assert_eq!(started.elapsed().as_secs(), 10);
    assert_eq!(read_answer(client, transport).await, "");
}

#[tokio::test(start_paused = true)]
async fn later_head_has_ten_seconds() {
    let (mut client, mut transport) = answered().await;
    let started = Instant::now();
    client.write_all(b"G").await.unwrap();
    let mut second = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            read = read(&mut transport) => if read == 0 { break },
            _ = second.tick(), if started.elapsed().as_secs() < 9 => {
                client.write_all(b"E").await.unwrap();
            }
        }
    }
    assert_eq!(started.elapsed().as_secs(), 10);
    assert!(read_answer(client, transport).await.starts_with("HTTP/1.1 408"));
}

#[tokio::test]
async fn later_head_of_16_kib_is_rejected() {
    let (mut client, mut transport) = answered().await;
    client.write_all(&[b'x'; READ_AHEAD]).await.unwrap();
    let mut total = 0;
    loop {
        match read(&mut transport).await {
            0 => break,
            read => total += read,
        }
    }
    assert_eq!(total, READ_AHEAD);
    assert!(read_answer(client, transport).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test]
async fn framework_looks_at_a_long_head_before_it_gets_the_rest() {
    let (mut client, mut transport) = answered().await;
    client.write_all(&[b'x'; 2 * STEP]).await.unwrap();
    assert_eq!(read(&mut transport).await, STEP);
    assert_eq!(read(&mut transport).await, STEP);
}

#[tokio::test(start_paused = true)]
async fn request_reads_on_only_when_it_wants_more() {
    let (mut client, mut transport) = answered().await;
    let exchange = transport.exchange();
    exchange.request_started(BodyLength::Known(0));
    let writing = tokio::spawn(async move {
        client.write_all(&vec![b'x'; 10 * BODY_AHEAD]).await.unwrap();
        client
    });
    assert_eq!(read(&mut transport).await, 1024);
    for _ in 0..9 {
        exchange.body_wanted();
        let mut total = 0;
        while total < BODY_AHEAD {
            total += read(&mut transport).await;
        }
        assert_eq!(total, BODY_AHEAD);
        assert!(poll!(pin!(read(&mut transport))).is_pending());
        // A request in progress has no time limit here.
        advance(Duration::from_secs(3_600)).await;
        assert!(poll!(pin!(read(&mut transport))).is_pending());
    }
    drop(writing);
}

#[tokio::test]
async fn rejected_body_ends_the_transport_and_keeps_the_connection() {
    let (mut client, mut transport) = answered().await;
    let exchange = transport.exchange();
    exchange.request_started(BodyLength::Known(0));
    client.write_all(&vec![b'x'; 10 * READ_AHEAD]).await.unwrap();
    exchange.answered(false);
    while read(&mut transport).await > 0 {}
    drop(transport);
    let stream = exchange.take_stream().unwrap();
    let discarding = tokio::spawn(async move {
        discard_rest(stream.tcp(), Duration::from_secs(60)).await;
        drop(stream);
    });
    client.write_all(&vec![b'x'; 10 * READ_AHEAD]).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "it is closed, and not reset");
    discarding.await.unwrap();
}

#[tokio::test]
async fn continue_is_written_when_the_request_reads_its_body() {
    for (old_client, body_read, expected) in [
        (false, true, "HTTP/1.1 100 Continue\r\n\r\nanswer"),
        (false, false, "answer"),
        (true, true, "answer"),
    ] {
        let (client, mut transport) = answered().await;
        let exchange = transport.exchange();
        exchange.keep_interim_back(old_client);
        exchange.request_started(BodyLength::Known(0));
        transport.write_all(CONTINUE).await.unwrap();
        transport.flush().await.unwrap();
        if body_read {
            exchange.body_wanted();
            transport.flush().await.unwrap();
        }
        transport.write_all(b"answer").await.unwrap();
        exchange.answered(true);
        assert_eq!(read_answer(client, transport).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn unread_answer_has_ten_seconds_while_others_wait() {
    let connections = Arc::<ConnectionTracker>::default();
    let (client, mut transport) = answered_of(Arc::clone(&connections)).await;
    transport.exchange().request_started(BodyLength::Known(0));
    let answer = vec![b'x'; 100_000_000];
    let started = Instant::now();
    let mut writing = pin!(transport.write_all(&answer));
    assert!(timeout(Duration::from_secs(3_600), &mut writing).await.is_err());
    connections.expect_at_most(0);
    let _served = connections.serve().await;
    assert_eq!(writing.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!(started.elapsed() <= Duration::from_secs(3_602));
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn unread_download_has_a_minute_while_others_wait() {
    let connections = Arc::<ConnectionTracker>::default();
    let (client, mut transport) = answered_of(Arc::clone(&connections)).await;
    transport.exchange().request_started(BodyLength::Known(0));
    transport.exchange().download_started();
    connections.expect_at_most(0);
    let _served = connections.serve().await;
    let document = vec![b'x'; 100_000_000];
    let started = Instant::now();
    let ended = timeout(Duration::from_secs(3_600), transport.write_all(&document)).await;
    assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!((60..=62).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    drop(client);
}

/// Returns a client whose request has a body of this length, with its connection. No byte of the body
/// is sent.
async fn uploading(
    connections: Arc<ConnectionTracker>,
    length: u64,
) -> (TcpStream, Transport, Rc<Exchange>) {
    let (client, transport) = answered_of(connections).await;
    let exchange = transport.exchange();
    exchange.first(REQUEST);
    exchange.request_started(BodyLength::Known(length));
    (client, transport, exchange)
}

/// Reads bytes of the body past the framework.
async fn read_body(exchange: &Exchange, received: u64, memory: &mut [u8]) -> usize {
    poll_fn(|context| exchange.poll_read_body(context, received, memory)).await
}

#[tokio::test]
async fn framework_gets_stand_ins_for_what_the_request_reads_itself() {
    const LENGTH: usize = 3 * BODY_AHEAD;
    let (mut client, mut transport, exchange) = uploading(Arc::default(), LENGTH as u64).await;
    let body: Vec<u8> = (1..=250).cycle().take(LENGTH).collect();
    let writing = tokio::spawn({
        let sent = [&body, REQUEST].concat();
        async move {
            client.write_all(&sent).await.unwrap();
            client
        }
    });
    let (mut memory, mut received) = (vec![0; 2 * LENGTH], 0);
    while exchange.may_read_body(received as u64) {
        received += read_body(&exchange, received as u64, &mut memory[received..]).await;
        assert!(poll!(pin!(read(&mut transport))).is_pending());
    }
    assert!(memory[..received] == body);
    let _client = writing.await.unwrap();
    // Nor does it read into the next request.
    assert_eq!(read_body(&exchange, received as u64, &mut memory).await, 0);
    let mut stand_ins = 0;
    while stand_ins < LENGTH {
        exchange.body_wanted();
        stand_ins += read(&mut transport).await;
    }
    let of_next = stand_ins - LENGTH;
    exchange.answered(true);
    assert_eq!(of_next + read(&mut transport).await, REQUEST.len());
}

#[tokio::test]
async fn request_reads_no_body_that_the_framework_holds_or_whose_end_is_not_known() {
    let (mut client, mut transport, exchange) = uploading(Arc::default(), 10).await;
    client.write_all(b"12345").await.unwrap();
    assert_eq!(read(&mut transport).await, 5);
    assert!(!exchange.may_read_body(0));
    assert!(exchange.may_read_body(5));
    assert!(!exchange.may_read_body(10));
    exchange.request_started(BodyLength::Chunked);
    assert!(!exchange.may_read_body(5));
}

#[tokio::test]
async fn framework_gets_the_error_of_a_read_past_it() {
    let (client, mut transport, exchange) = uploading(Arc::default(), 10).await;
    client.set_zero_linger().unwrap();
    drop(client);
    assert_eq!(read_body(&exchange, 0, &mut [0; 10]).await, 0);
    exchange.body_wanted();
    let mut memory = [0; 10];
    let mut buffer = ReadBuf::new(&mut memory);
    let read = poll_fn(|context| Pin::new(&mut transport).poll_read(context, &mut buffer)).await;
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn requests_read_no_body_themselves_in_a_crowd() {
    let connections = Arc::<ConnectionTracker>::default();
    let (_client, _transport, exchange) = uploading(Arc::clone(&connections), 10).await;
    assert!(exchange.may_read_body(0));
    let mut served = Vec::new();
    while !connections.are_crowded() {
        served.push(connections.serve().await.unwrap());
    }
    assert!(!exchange.may_read_body(0));
}
