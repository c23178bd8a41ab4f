//! A panic message may quote what a client sent. The log names only the location of the panic, and
//! the client gets a plain 500.

use std::{path::Path, process::Command, sync::Arc};

use app::serve::Starting;
use async_trait::async_trait;
use domain::{
    duplicate_window::DuplicateWindow,
    order::{DocumentId, OrderId, Refusal},
    ports::{
        Changed, Download, ListedOrder, NewOrder, OrderCommandRequest, OrderRepo, OrderUpdate,
        StoreError, WriteError,
    },
    use_cases::keys::manage_keys::KeyTerms,
};
use operator::{Machine, adapters::Storage};
use serde_json::Value;
use telemetry::logging;

use crate::{
    harness::{Api, client, deed, file, form, order, settings},
    wiring::Wiring,
};

/// Set in the process that panics: the logger and the panic hook are global.
const INSIDE: &str = "NOTARY_ORDERS_TEST_PANICS";
const MARKER: &str = "mkpaniczq";

/// A store whose panic message quotes the order.
struct Panicking;

#[async_trait]
impl OrderRepo for Panicking {
    async fn create(&self, order: &NewOrder, _: DuplicateWindow) -> Result<OrderId, WriteError> {
        panic!("cannot store {} {order:?}", order.order.signing.signer.name)
    }

    async fn change(&self, _: &OrderCommandRequest) -> Result<Changed, WriteError> {
        Err(Refusal::NoSuchOrder.into())
    }

    async fn update(&self, _: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError> {
        Ok(None)
    }

    async fn note_downloads(&self, _: &[Download]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn store_crc32(&self, _: DocumentId, _: u32) -> Result<(), StoreError> {
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Serves on a store that panics, and sends one order to each operation.
async fn cause_two_panics() {
    let wiring = Wiring::embedded();
    let settings = settings(&wiring, &["--log-format=json", "--log-level=trace"], &[]);
    let _log = logging::start(settings.is_json_log(), settings.log_level, None);
    let machine = Machine::default();
    let storage =
        Storage { orders: Arc::new(Panicking), ..Storage::open(&settings).await.unwrap() };
    let terms = KeyTerms { name: "test".to_owned(), ..KeyTerms::default() };
    let (_, key) = storage.manage_keys(&machine).issue(terms, "tests").await.unwrap();
    let starting = Starting::listen(&settings, &machine).await.unwrap();
    let service = starting.start(&settings, &machine, storage).await.unwrap();
    let api = Api::new(client(), key.expose(), service.api_address, service.ops_address);
    let mut order = order(MARKER);
    for name in ["signerName", "propertyAddress"] {
        order["signingDetailsFormData"][name] = MARKER.into();
    }
    order["signingContactsFormData"]["orderContactEmail"] = format!("{MARKER}@example.com").into();
    let form = form(&order).part("documents", file(&format!("{MARKER}.pdf"), deed()));
    for response in [api.create(&order).await, api.create_with(form).await] {
        let status = response.status();
        let body = response.text().await.unwrap();
        assert_eq!(status, 500, "{body}");
        assert!(body.contains(r#""code":"internal""#) && !body.contains(MARKER), "{body}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_reveals_nothing_a_client_sent() {
    if std::env::var_os(INSIDE).is_some() {
        return cause_two_panics().await;
    }
    let name = "faults::panics::panic_reveals_nothing_a_client_sent";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", name, "--nocapture"]).env(INSIDE, "1").output().unwrap();
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
