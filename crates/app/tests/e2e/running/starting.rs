//! The operators' endpoints while the service starts.

use reqwest::StatusCode;
use serde_json::Value;
use tokio::net::TcpSocket;

use crate::{
    harness::service_process::ServiceProcess,
    harness::{client, eventually_async},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    operators_endpoints_answer_before_the_database_is_open,
}

async fn operators_endpoints_answer_before_the_database_is_open(kind: Kind) {
    let wiring = kind.wiring_without_tables();
    let lock = wiring.lock_start();
    // Keeps a port from others: the service may listen there, because this socket does not.
    let port = TcpSocket::new_v4().unwrap();
    port.set_reuseaddr(true).unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let ops = port.local_addr().unwrap();
    let starting = std::thread::spawn(move || {
        let server = ServiceProcess::start(&wiring, &[&format!("--ops-listen={ops}")]);
        (server, wiring)
    });
    let get = async |path: &str| client().get(format!("http://{ops}{path}")).send().await;
    eventually_async(async || get("/readyz").await.is_ok()).await;
    let ready = get("/readyz").await.unwrap();
    assert_eq!(ready.status(), StatusCode::SERVICE_UNAVAILABLE);
    let body: Value = ready.json().await.unwrap();
    assert_eq!(body["status"], "starting");
    assert!(body["reason"].as_str().unwrap().contains("database"), "{body}");
    assert_eq!(get("/healthz").await.unwrap().status(), StatusCode::OK);
    assert_eq!(get("/metrics").await.unwrap().status(), StatusCode::OK);

    drop(lock);
    let (server, _wiring) = tokio::task::spawn_blocking(|| starting.join()).await.unwrap().unwrap();
    server.gets_ready().await;
}
