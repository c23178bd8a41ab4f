//! The document store of the embedded default fails during a download.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use crate::harness::{PATIENCE, TestApp, created, deed, eventually_async, file, form, order};

/// The largest document that the service accepts.
const SIZE: usize = 10 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn download_is_cut_off_when_the_store_fails() {
    let app = TestApp::start().await;
    let mut large = deed();
    large.resize(SIZE, b' ');
    let form = form(&order("F-1")).part("documents", file("large.pdf", large));
    created(app.create_with(form).await).await;
    let key = app.wiring.objects().into_keys().next().unwrap();
    let object = app.wiring.data().join("documents").join(key);

    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&app.address.into()).unwrap();
    let mut client = TcpStream::from(socket);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = app.head("/api/order/1/documents/0", "").replace("POST", "GET");
    client.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 1_000];
    client.read_exact(&mut first).unwrap();
    assert!(String::from_utf8_lossy(&first).contains("content-length: 10485760"));
    std::fs::File::options().write(true).open(object).unwrap().set_len(1).unwrap();

    let rest = tokio::task::spawn_blocking(move || {
        let mut rest = Vec::new();
        // The end of the connection may be a reset.
        let _ = client.read_to_end(&mut rest);
        rest.len()
    });
    assert!(rest.await.unwrap() + first.len() < SIZE);
    eventually_async(async || app.metric("notary_orders_downloads_cut_total").await == 1).await;
}
