use prometheus::Registry;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpListener,
    time::{Instant, sleep},
};
use tokio_rustls::{
    TlsConnector, client,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, pem::PemObject as _},
    },
};

use super::*;
use crate::{
    exchange::Exchange,
    first_head,
    tls::{Tls, TlsPair, tests::pem},
    transport::Transport,
};

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: t\r\n\r\n";

/// Returns a connection of a client, and what becomes of its handshake at the service.
async fn connect(
    connections: &Arc<ConnectionTracker>,
) -> (TcpStream, impl Future<Output = Handshake> + use<>, CertificateDer<'static>) {
    let (certificate, key) = pem();
    let pair = TlsPair::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let config = Tls::new(pair, &Registry::new()).unwrap().current();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let service = listener.accept().await.unwrap().0;
    let root = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    (client, Stream::handshake(service, config, Arc::clone(connections)), root)
}

/// Returns both ends of a connection whose handshake is done.
async fn connected(connections: &Arc<ConnectionTracker>) -> (client::TlsStream<TcpStream>, Stream) {
    let (client, handshake, root) = connect(connections).await;
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let connecting = connector.connect("localhost".try_into().unwrap(), client);
    match tokio::join!(connecting, handshake) {
        (Ok(client), Handshake::Done(service)) => (client, service),
        _ => panic!("the handshake failed"),
    }
}

async fn first_head(connections: &ConnectionTracker, stream: &mut Stream) -> Option<Vec<u8>> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let first = first_head::receive(stream, connections, deadline).await;
    first.map(|first| first.bytes.to_vec())
}

#[tokio::test]
async fn head_in_a_record_with_much_of_its_body_is_received() {
    let connections = Arc::default();
    let (mut client, mut service) = connected(&connections).await;
    let sent = [HEAD, &[b'x'; 16_000]].concat();
    client.write_all(&sent).await.unwrap();
    let mut received = first_head(&connections, &mut service).await.unwrap();
    assert!(received.starts_with(HEAD) && received.len() < 1024);
    service.first_head_taken();
    while received.len() < sent.len() {
        service.readable().await.unwrap();
        assert_ne!(service.read_buf(&mut received).await.unwrap(), 0);
    }
    assert_eq!(received, sent);
}

#[tokio::test]
async fn end_without_an_announcement_is_an_end() {
    let connections = Arc::default();
    let (mut client, mut service) = connected(&connections).await;
    client.get_mut().0.shutdown().await.unwrap();
    assert_eq!(service.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn end_is_announced() {
    let connections = Arc::default();
    let (mut client, mut service) = connected(&connections).await;
    service.close().await;
    // An error otherwise.
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn client_without_tls_is_told_apart() {
    let connections = Arc::default();
    for (sent, spoke) in [(HEAD, true), (b"", false)] {
        let (mut client, handshake, _) = connect(&connections).await;
        client.write_all(sent).await.unwrap();
        drop(client);
        match handshake.await {
            Handshake::Plain(_) => assert!(spoke),
            Handshake::Gone => assert!(!spoke),
            _ => panic!("no handshake began"),
        }
    }
}

#[tokio::test]
async fn large_handshake_needs_a_permit() {
    // The record of a handshake message of 60,000 bytes, most of which do not come.
    let hello = |bytes: usize| [&[22, 3, 1, 64, 0, 1, 0, 234, 96][..], &vec![0; bytes]].concat();
    for (bytes, free, failed) in [(4_000, false, false), (5_000, true, false), (5_000, false, true)]
    {
        let connections = Arc::<ConnectionTracker>::default();
        let mut taken = Vec::new();
        while !free && let Some(permit) = connections.try_large_record() {
            taken.push(permit);
        }
        let (mut client, handshake, _) = connect(&connections).await;
        client.write_all(&hello(bytes)).await.unwrap();
        tokio::select! {
            done = handshake => assert!(failed && matches!(done, Handshake::Failed(_)), "{bytes}"),
            () = sleep(Duration::from_millis(300)) => assert!(!failed, "{bytes} {free}"),
        }
    }
}

#[tokio::test]
async fn endless_handshake_fails() {
    let connections = Arc::default();
    let (client, handshake, _) = connect(&connections).await;
    let record = [&[22, 3, 1, 64, 0][..], &[1, 0, 234, 96], &[0; 16 * 1024 - 4]].concat();
    let (_reader, mut writer) = client.into_split();
    let sending = tokio::spawn(async move { while writer.write_all(&record).await.is_ok() {} });
    assert!(matches!(handshake.await, Handshake::Failed(_)));
    sending.await.unwrap();
}

#[tokio::test]
async fn large_first_record_without_a_permit_is_rejected_readably() {
    let connections = Arc::<ConnectionTracker>::default();
    let (mut client, mut service) = connected(&connections).await;
    let mut taken = Vec::new();
    while let Some(permit) = connections.try_large_record() {
        taken.push(permit);
    }
    client.write_all(&[HEAD, &[b'x'; 16_000]].concat()).await.unwrap();
    let (received, mut answer) = (first_head(&connections, &mut service), String::new());
    let (received, read) = tokio::join!(received, client.read_to_string(&mut answer));
    assert!(received.is_none() && read.is_ok());
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[tokio::test]
async fn unread_answer_and_end_have_a_time_limit_in_a_crowd() {
    let connections = Arc::<ConnectionTracker>::default();
    let mut served = Vec::new();
    while !connections.are_crowded() {
        served.push(connections.serve().await.unwrap());
    }
    let (_client, service) = connected(&connections).await;
    let exchange = std::rc::Rc::new(Exchange::new(Arc::clone(&connections)));
    let mut transport = Transport::new(service, bytes::Bytes::new(), exchange);
    tokio::time::pause();
    // The last bytes wait in TLS, and only the flush waits for the client.
    while let Ok(written) =
        tokio::time::timeout(Duration::from_secs(1), transport.write(&[0; 16 * 1024])).await
    {
        written.unwrap();
    }
    let started = Instant::now();
    let flushed = transport.flush().await.unwrap_err().kind();
    let shut_down = transport.shutdown().await.unwrap_err().kind();
    assert_eq!([flushed, shut_down], [io::ErrorKind::TimedOut; 2]);
    assert!(started.elapsed() < Duration::from_secs(30));
}
