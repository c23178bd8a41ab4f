//! The `sqlite3` program of the system can check, dump and restore the database.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    harness::{CREATE, client, created, eventually},
    markers::MarkedOrder,
    service_process::{ServiceProcess, issue_key, output},
    wiring::Wiring,
};

/// Executes commands with the system's `sqlite3`, and returns what they print.
fn sqlite3(database: &Path, input: &str) -> String {
    let mut program = Command::new("sqlite3")
        .args(["-batch", "-bail", "-cmd", ".timeout 10000"])
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("scripts/test.sh installs sqlite3");
    let mut stdin = program.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = program.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Counts the mails that are not delivered yet.
const PENDING: &str = "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM deliveries);";

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

async fn create_with_key(service: &ServiceProcess, key: &str, order: &Value) -> (bool, Value) {
    let request = client().post(service.url(CREATE)).bearer_auth(key);
    let response = request.header("idempotency-key", "repeated").json(order).send().await.unwrap();
    (response.headers().contains_key("idempotency-replayed"), created(response).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_dump_serves_the_same_service() {
    let wiring = Wiring::new();
    let database = wiring.data().join("notary-orders.sqlite");
    let service = ServiceProcess::start(&wiring, &["--rate-per-second=0"]);
    let key = issue_key(&wiring);
    assert!(output(&wiring, &["keys", "rotate", "1"]).status.success());
    wiring.break_mail();
    let every_field = MarkedOrder::new().order;
    let (_, record) = create_with_key(&service, &key, &every_field).await;
    created(service.post(&key, "F-required-fields").await).await;
    created(service.post_with_deed(&key, "F-documents").await).await;
    let failed = "SELECT last_error AS line FROM deliveries WHERE last_error IS NOT NULL";
    eventually(|| wiring.lines(failed).len() >= 3 && wiring.rows("events") == 0).await;
    assert_intact(&database);
    assert_eq!(service.stop("-TERM").0, Some(0));

    assert_intact(&database);
    let dump = sqlite3(&database, ".dump");
    let restored = wiring.data().join("restored.sqlite");
    sqlite3(&restored, &dump);
    assert_intact(&restored);
    let counts = row_counts(&database);
    assert_eq!(row_counts(&restored), counts);
    let empty: Vec<_> = counts.iter().filter(|(_, count)| count == "0\n").collect();
    assert_eq!(empty, [&("uploads", "0\n".to_owned()), &("events", "0\n".to_owned())]);

    wiring.mend_mail();
    let url = format!("--database-url=sqlite://{}", restored.display());
    let service = ServiceProcess::start(&wiring, &[&url]);
    assert_eq!(create_with_key(&service, &key, &every_field).await, (true, record));
    assert_eq!(service.post(&key, "F-documents").await.status(), 409);
    assert_eq!(created(service.post(&key, "F-new").await).await["order_id"], 4);
    eventually(|| sqlite3(&restored, PENDING) == "0\n").await;
}
