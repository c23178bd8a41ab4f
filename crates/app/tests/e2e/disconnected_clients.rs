//! Clients that reset their connection while the service handles their order.

use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    harness::{CREATE, created, eventually, eventually_async, order},
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

const CLIENTS: usize = 5;

async fn metric(server: &ServiceProcess, name: &str) -> usize {
    let (_, metrics) = server.ops("/metrics").await;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_of_disconnected_clients_are_logged_and_counted() {
    let wiring = Wiring::new();
    let key = issue_key(&wiring);
    let server = ServiceProcess::start(&wiring, &["--rate-per-second=0"]);
    created(server.post(&key, "F-before").await).await;

    let lock = wiring.lock_database();
    let mut streams = Vec::new();
    for at in 0..CLIENTS {
        let body = order(&format!("F-{at}")).to_string();
        let head = format!(
            "POST {CREATE} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        streams.push(stream);
    }
    let in_progress = "notary_orders_orders_in_progress";
    eventually_async(async || metric(&server, in_progress).await == CLIENTS).await;
    for stream in streams {
        // Closing it now resets it.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
    let open = "notary_orders_open_connections";
    eventually_async(async || metric(&server, open).await == 0).await;
    drop(lock);

    let all = CLIENTS + 1;
    eventually(|| wiring.rows("orders") == i64::try_from(all).unwrap()).await;
    let counted = r#"notary_orders_orders_created_total{operation="json"}"#;
    eventually_async(async || metric(&server, counted).await == all).await;
    let log = server.stop_and_read_log();
    let logged = log.lines().filter_map(|line| serde_json::from_str(line).ok());
    let orders: Vec<(i64, bool)> = logged
        .filter(|event: &Value| event["message"] == "order created")
        .map(|event| (event["order_id"].as_i64().unwrap(), event["answered"] != false))
        .collect();
    let mut ids: Vec<i64> = orders.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((orders.len(), ids.len()), (all, all), "{log}");
    assert_eq!(orders.iter().filter(|(_, answered)| *answered).count(), 1, "{log}");
}
