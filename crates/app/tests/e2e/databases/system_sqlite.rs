//! The `sqlite3` program of the system can check, dump and restore the database.

use std::{fs::File, path::Path, process::Command};

use serde_json::Value;

use crate::{
    harness::markers::MarkedOrder,
    harness::service_process::{ServiceProcess, run, text},
    harness::{CREATE, LONG_WINDOW, PENDING, created, eventually},
    wiring::Wiring,
};

/// Executes a statement with the system's `sqlite3`, and returns what it prints.
fn sqlite3(database: &Path, statement: &str) -> String {
    text(on(database).arg(statement).output().unwrap())
}

fn on(database: &Path) -> Command {
    let mut sqlite3 = Command::new("sqlite3");
    sqlite3.args(["-batch", "-bail", "-cmd", ".timeout 10000"]).arg(database);
    sqlite3
}

fn assert_intact(database: &Path) {
    assert_eq!(sqlite3(database, "PRAGMA integrity_check;"), "ok\n");
    assert_eq!(sqlite3(database, "PRAGMA foreign_key_check;"), "");
}

/// Returns the number of rows in each table of the service.
fn row_counts(database: &Path) -> Vec<(&'static str, String)> {
    [
        "orders",
        "order_details",
        "documents",
        "uploads",
        "events",
        "deliveries",
        "api_keys",
        "key_events",
        "idempotency_keys",
    ]
    .map(|table| (table, sqlite3(database, &format!("SELECT count(*) FROM {table};"))))
    .into()
}

async fn create_with_key(service: &ServiceProcess, order: &Value) -> (bool, Value) {
    let request = service.post(CREATE).header("idempotency-key", "repeated");
    let response = request.json(order).send().await.unwrap();
    (response.headers().contains_key("idempotency-replayed"), created(response).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_dump_serves_the_same_service() {
    let wiring = Wiring::embedded();
    let database = wiring.data().join("notary-orders.sqlite");
    let service = ServiceProcess::keyed(&wiring, &["--rate-per-second=0", LONG_WINDOW]);
    let key = service.key.clone();
    run(&wiring, &["keys", "rotate", "1"]);
    wiring.break_mail();
    let every_field = MarkedOrder::new().order;
    let (_, record) = create_with_key(&service, &every_field).await;
    created(service.order("F-required-fields").await).await;
    created(service.order_with_deed("F-documents").await).await;
    let failed = "SELECT last_error FROM deliveries WHERE last_error IS NOT NULL";
    eventually(|| wiring.lines(failed).len() >= 3 && wiring.rows("events") == 0).await;
    assert_intact(&database);
    assert_eq!(service.stop("-TERM").0, Some(0));

    assert_intact(&database);
    let (dump, restored) = (wiring.data().join("dump.sql"), wiring.data().join("restored.sqlite"));
    let dumped = on(&database).arg(".dump").stdout(File::create(&dump).unwrap()).status();
    assert!(dumped.unwrap().success());
    text(on(&restored).stdin(File::open(&dump).unwrap()).output().unwrap());
    assert_intact(&restored);
    let counts = row_counts(&database);
    assert_eq!(row_counts(&restored), counts);
    let empty: Vec<_> = counts.iter().filter(|(_, count)| count == "0\n").collect();
    assert_eq!(empty, [&("uploads", "0\n".to_owned()), &("events", "0\n".to_owned())]);

    wiring.mend_mail();
    let url = format!("--database-url=sqlite://{}", restored.display());
    let service = ServiceProcess::start(&wiring, &[&url, LONG_WINDOW]).with_key(key);
    assert_eq!(create_with_key(&service, &every_field).await, (true, record));
    assert_eq!(service.order("F-documents").await.status(), 409);
    assert_eq!(created(service.order("F-new").await).await["order_id"], 4);
    run(&wiring, &[&url, "adopt"]);
    eventually(|| sqlite3(&restored, PENDING) == "0\n").await;
}
