//! A panic is a bug, which may quote what a client sent: the log says where it was, the client that
//! something went wrong, and neither what it quoted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, what cannot go on fails the test"
)]

use std::{path::Path, process::Command, sync::Arc};

use app::{Machine, adapters::Storage, logging, serve::Service, settings::Settings};
use async_trait::async_trait;
use clap::Parser;
use domain::{
    duplicate_window::DuplicateWindow,
    manage_keys::KeyTerms,
    order::{OrderId, StoredOrder},
    ports::{CreateError, NewOrder, OrderRepo, StoreError},
};
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

/// Names the data directory to the process that is to panic.
const DATA: &str = "DATA_OF_THE_PROCESS_THAT_PANICS";
const MARKER: &str = "mkpaniczq";

/// Says what it was handed, and gives up.
struct Panicking;

#[async_trait]
impl OrderRepo for Panicking {
    async fn create(&self, order: &NewOrder, _: DuplicateWindow) -> Result<OrderId, CreateError> {
        panic!("this order is too much: {} {order:?}", order.order.signer.name)
    }

    async fn find(&self, _: OrderId) -> Result<Option<StoredOrder>, StoreError> {
        Ok(None)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

fn order() -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": format!("{MARKER}@example.com") },
        "signingDetailsFormData": {
            "fileNumber": MARKER, "signingDate": "2026-12-01", "signingTimeType": "anytime", "timeZoneId": "America/Chicago",
            "propertyAddress": MARKER, "signingType": "Refinance", "signerName": MARKER, "signerPhone": "+1 555 010 0199",
            "signerEmail": format!("{MARKER}@example.com"), "city": "Dallas", "state": "TX", "zipcode": "75201"
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}

/// Serves on a store that panics, and asks for an order of either kind.
async fn panic_twice(data: &str) {
    let flags = [
        "notary-orders",
        "--listen=127.0.0.1:0",
        "--ops-listen=127.0.0.1:0",
        "--log-format=json",
        "--log-level=trace",
        "--data-dir",
        data,
    ];
    let settings = Flags::parse_from(flags).settings;
    let _written = logging::start(&settings);
    let machine = Machine::default();
    let storage =
        Storage { orders: Arc::new(Panicking), ..Storage::open(&settings).await.unwrap() };
    let (_, key) = storage
        .manage_keys(&machine)
        .issue(KeyTerms { name: "test".to_owned(), ..KeyTerms::default() }, "tests")
        .await
        .unwrap();
    let service = Service::start(&settings, &machine, storage).await.unwrap();
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let client = reqwest::Client::new();
    let post = |path: &str| {
        client
            .post(format!("http://{}/api/order/{path}", service.api_address))
            .bearer_auth(key.expose())
    };
    let mut form = Form::new().part(
        "documents",
        Part::bytes(contract_tests::documents::bytes("deed-of-trust.pdf"))
            .file_name(format!("{MARKER}.pdf")),
    );
    for (name, value) in order().as_object().unwrap() {
        form = form.text(name.clone(), value.to_string());
    }
    for request in [post("create").json(&order()), post("create-with-documents").multipart(form)] {
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let body = answer.text().await.unwrap();
        assert_eq!(status, 500, "{body}");
        assert!(body.contains(r#""code":"internal""#) && !body.contains(MARKER), "{body}");
    }
    service.stop().await;
}

#[test]
fn a_panic_tells_nobody_what_a_client_sent() {
    if let Ok(data) = std::env::var(DATA) {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(panic_twice(&data));
        return;
    }
    // In a process of its own: the log and the panic hook are a process's.
    let data = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let name = "a_panic_tells_nobody_what_a_client_sent";
    let child = Command::new(this)
        .args(["--exact", name, "--nocapture"])
        .env(DATA, data.path())
        .output()
        .unwrap();
    let (log, out) =
        (String::from_utf8(child.stderr).unwrap(), String::from_utf8(child.stdout).unwrap());
    assert!(child.status.success() && out.contains("1 passed"), "{out}\n{log}");
    assert!(!log.contains(MARKER), "{}", log.lines().find(|line| line.contains(MARKER)).unwrap());
    let panics: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|event: &Value| event["message"] == "panic")
        .collect();
    assert_eq!(panics.len(), 2, "{log}");
    for panic in panics {
        let create = panic["place"].as_str().unwrap();
        assert_eq!(Path::new(create.split(':').next().unwrap()).file_name().unwrap(), "panics.rs");
        assert!(panic["span"]["request_id"].is_string(), "{panic}");
    }
}
