//! A panic message may quote what a client sent. The log names only the location of the panic, and
//! the client gets a plain 500.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{path::Path, process::Command, sync::Arc};

use app::serve::Starting;
use async_trait::async_trait;
use clap::Parser;
use domain::{
    api_key::manage_keys::KeyTerms,
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::OrderId,
    ports::{NewDocuments, NewOrder, OrderRepo, StoreError, WriteError},
};
use operator::{Machine, adapters::Storage, settings::Settings};
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use telemetry::logging;

/// Variable that passes the data directory to the child process.
const CHILD_DATA_DIR: &str = "NOTARY_ORDERS_TEST_PANIC_DATA_DIR";
const MARKER: &str = "mkpaniczq";

/// A store whose panic message quotes the order.
struct Panicking;

#[async_trait]
impl OrderRepo for Panicking {
    async fn create(&self, order: &NewOrder, _: DuplicateWindow) -> Result<OrderId, WriteError> {
        panic!("cannot store {} {order:?}", order.order.signing.signer.name)
    }

    async fn add_documents(&self, _: &NewDocuments) -> Result<AddedRange, WriteError> {
        Err(WriteError::NoSuchOrder)
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
            "fileNumber": MARKER, "signingType": "Refinance", "signingDate": "2026-12-01",
            "signingTimeType": "anytime", "timeZoneId": "America/Chicago",
            "propertyAddress": MARKER, "city": "Dallas", "state": "TX", "zipcode": "75201",
            "signerName": MARKER, "signerPhone": "+1 555 010 0199",
            "signerEmail": format!("{MARKER}@example.com")
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}

/// Serves on a store that panics, and sends one order to each operation.
async fn cause_two_panics(data: &str) {
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
    let _log = logging::start(settings.is_json_log(), settings.log_level, None);
    let machine = Machine::default();
    let storage =
        Storage { orders: Arc::new(Panicking), ..Storage::open(&settings).await.unwrap() };
    let (_, key) = storage
        .manage_keys(&machine)
        .issue(KeyTerms { name: "test".to_owned(), ..KeyTerms::default() }, "tests")
        .await
        .unwrap();
    let starting = Starting::listen(&settings, &machine).unwrap();
    let service = starting.start(&settings, &machine, storage).await.unwrap();
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
        let response = request.send().await.unwrap();
        let status = response.status();
        let body = response.text().await.unwrap();
        assert_eq!(status, 500, "{body}");
        assert!(body.contains(r#""code":"internal""#) && !body.contains(MARKER), "{body}");
    }
    service.stop().await;
}

#[test]
fn panic_reveals_nothing_a_client_sent() {
    if let Ok(data) = std::env::var(CHILD_DATA_DIR) {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(cause_two_panics(&data));
        return;
    }
    // Runs in a child process: the logger and the panic hook are global.
    let data = tempfile::tempdir().unwrap();
    let executable = std::env::current_exe().unwrap();
    let name = "panic_reveals_nothing_a_client_sent";
    let child = Command::new(executable)
        .args(["--exact", name, "--nocapture"])
        .env(CHILD_DATA_DIR, data.path())
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
        let location = panic["location"].as_str().unwrap();
        let file = Path::new(location.split(':').next().unwrap());
        assert_eq!(file.file_name().unwrap(), "panics.rs");
        assert!(panic["span"]["request_id"].is_string(), "{panic}");
    }
}
