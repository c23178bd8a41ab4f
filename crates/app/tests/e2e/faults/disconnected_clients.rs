//! Clients that reset their connection while the service handles their order.

use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    harness::service_process::ServiceProcess,
    harness::{created, eventually_async},
    wiring::Wiring,
};

const CLIENTS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn orders_of_disconnected_clients_are_logged_and_counted() {
    let wiring = Wiring::embedded();
    let server = ServiceProcess::keyed(&wiring, &["--rate-per-second=0"]);
    created(server.order("F-before").await).await;

    let in_progress = "notary_orders_orders_in_progress";
    let mut number = 0;
    let counted = r#"notary_orders_orders_created_total{operation="json"}"#;
    // On a busy machine the service may give all orders up before the database is unlocked; then come others.
    while server.metric(counted).await == 1 {
        let lock = wiring.lock_database();
        let mut streams = Vec::new();
        for _ in 0..CLIENTS {
            number += 1;
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let request = server.raw_order(&format!("F-{number}"), "");
            stream.write_all(request.as_bytes()).await.unwrap();
            streams.push(stream);
        }
        let open = "notary_orders_open_connections";
        eventually_async(async || server.metric(open).await == CLIENTS as u64).await;
        for _ in 0..100 {
            if server.metric(in_progress).await > 0 {
                break;
            }
        }
        for stream in streams {
            // Closing it now resets it.
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        eventually_async(async || server.metric(open).await == 0).await;
        drop(lock);
        eventually_async(async || server.metric(in_progress).await == 0).await;
    }
    // The database may have an order that the service gave up while it waited for the lock.
    let all = usize::try_from(server.metric(counted).await).unwrap();
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
    assert!(all <= wiring.rows("orders"), "{log}");
    assert_eq!(orders.iter().filter(|(_, answered)| *answered).count(), 1, "{log}");
}
