//! A copy of a database sends nothing until an operator adopts it; a standby that takes over is no copy.

use std::{fs, process::Command};

use serde_json::Value;
use test_servers::postgres::{Cluster, program};

use crate::{
    harness::scripted_server::ScriptedServer,
    harness::service_process::{ServiceProcess, fail, issue_key, run, text},
    harness::{PENDING, WEBHOOKS, created, eventually, eventually_async, files_below},
    operators::doctor::report::Report,
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    setting_decides_before_the_installation,
}

/// Returns the flags with which webhooks work, and others.
fn with_webhooks<'a>(others: &[&'a str]) -> Vec<&'a str> {
    [&WEBHOOKS[..], others].concat()
}

/// Starts a service that has created an order whose mails and webhook wait, and stops it. Returns the key of
/// its client, and the receiver.
async fn with_waiting_messages(wiring: &Wiring) -> (String, ScriptedServer) {
    let (key, receiver) = (issue_key(wiring), ScriptedServer::start(Vec::new()));
    let url = format!("--url={}/", receiver.url());
    run(wiring, &with_webhooks(&["webhooks", "create", "--client=1", &url]));
    let flags = with_webhooks(&["--sends-messages=false"]);
    let service = ServiceProcess::start(wiring, &flags).with_key(key.clone());
    created(service.order("F-1").await).await;
    eventually(|| wiring.rows("events") == 0).await;
    assert_eq!(service.stop("-TERM").0, Some(0));
    assert!(wiring.rows("deliveries") > 0 && wiring.rows("webhook_deliveries") == 1);
    (key, receiver)
}

/// Returns what `/readyz` says of messages. The service is ready.
async fn messages(service: &ServiceProcess) -> Value {
    let (status, body) = service.readiness().await;
    assert_eq!(status, 200, "{body}");
    body["messages"].clone()
}

/// Asserts that a copy takes orders, says what it is, and sends nothing; then adopts it, and asserts that
/// everything leaves.
async fn assert_waits_until_adopted(
    wiring: &Wiring,
    flags: &[&str],
    key: &str,
    receiver: &ScriptedServer,
    query: impl Fn(&str) -> String,
) {
    let flags = with_webhooks(flags);
    let command = |words: &[&str]| run(wiring, &[&flags[..], words].concat());
    let mails = wiring.mails().len();
    let copy = ServiceProcess::start(wiring, &flags).with_key(key.to_owned());
    assert_eq!(messages(&copy).await, "waiting");
    created(copy.order("F-2").await).await;
    command(&["orders", "cancel", "1"]);
    command(&["webhooks", "test", "1"]);
    eventually(|| query("SELECT count(*) FROM events") == "0").await;
    let report = Report::on(wiring, &flags).found("warn", "messages");
    assert!(report.contains("mails and webhooks wait; the database is a copy"), "{report}");
    // The end of the stop settles what a worker has begun.
    let log = copy.stop_and_read_log();
    assert!(log.contains("this database is a copy"), "{log}");
    assert_eq!((receiver.requests().len(), wiring.mails().len()), (0, mails));
    let untouched = "SELECT count(*) FROM webhook_deliveries WHERE attempts = '[]' \
        AND leased_until IS NULL AND delivered_at IS NULL AND failed_at IS NULL";
    assert_eq!(query(untouched), query("SELECT count(*) FROM webhook_deliveries"));

    let copy = ServiceProcess::start(wiring, &flags).with_key(key.to_owned());
    let adopted = command(&["adopt"]);
    assert!(adopted.contains("the database belongs to this installation: "), "{adopted}");
    eventually_async(async || messages(&copy).await.is_null()).await;
    eventually(|| query(PENDING) == "0" && receiver.requests().len() >= 4).await;
    assert!(wiring.mails().len() > mails);
    drop(copy);
    let again = ServiceProcess::start(wiring, &flags);
    assert_eq!(messages(&again).await, Value::Null);
    assert_eq!(Report::on(wiring, &flags).found("warn", "messages"), "");
}

/// The bucket and the relay are those of the original, which is the worst case.
#[tokio::test(flavor = "multi_thread")]
async fn restored_dump_sends_nothing_until_it_is_adopted() {
    let wiring = Wiring::production_without_tables();
    let (key, receiver) = with_waiting_messages(&wiring).await;
    let dump = wiring.data().join("orders.dump");
    let mut pg_dump = Command::new(program("pg_dump"));
    pg_dump.args(["--format=custom", "--exclude-table-data=uploads"]);
    pg_dump.args(["--exclude-table-data=sessions", "--file"]).arg(&dump);
    text(pg_dump.arg(wiring.servers().database_url()).output().unwrap());
    let restored = Cluster::shared().database();
    let mut pg_restore = Command::new(program("pg_restore"));
    pg_restore.args(["--exit-on-error", "--no-owner", "--dbname"]).arg(restored.url());
    text(pg_restore.arg(&dump).output().unwrap());

    let url = format!("--database-url={}", restored.url());
    let query = |query: &str| restored.sql(query);
    assert_waits_until_adopted(&wiring, &[&url], &key, &receiver, query).await;
    // The original goes on.
    let original = ServiceProcess::start(&wiring, &WEBHOOKS);
    assert_eq!(messages(&original).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_backup_sends_nothing_until_it_is_adopted() {
    let (wiring, restored) = (Wiring::embedded(), Wiring::embedded());
    let (key, receiver) = with_waiting_messages(&wiring).await;
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().to_str().unwrap();
    run(&wiring, &["backup", backup]);
    let printed = run(&restored, &["restore", backup]);
    assert!(printed.contains("until `notary-orders adopt`"), "{printed}");
    let query = |query: &str| restored.lines(query)[0].clone();
    assert_waits_until_adopted(&restored, &[], &key, &receiver, query).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_folder_sends_nothing_until_it_is_adopted() {
    let (wiring, copied) = (Wiring::embedded(), Wiring::embedded());
    let (key, receiver) = with_waiting_messages(&wiring).await;
    for file in files_below(wiring.data()) {
        let copy = copied.data().join(file.strip_prefix(wiring.data()).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&file, copy).unwrap();
    }
    let query = |query: &str| copied.lines(query)[0].clone();
    assert_waits_until_adopted(&copied, &[], &key, &receiver, query).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_that_takes_over_sends_and_one_with_another_bucket_waits() {
    let wiring = Wiring::with_a_database_server();
    let (key, receiver) = with_waiting_messages(&wiring).await;
    let primary = wiring.servers().database_server();
    let standby = primary.standby();
    primary.stop(test_servers::postgres::Stop::Fast);
    standby.promote();
    let port = |cluster: &Cluster| format!(":{}/", cluster.port());
    let url = wiring.servers().database_url().replace(&port(primary), &port(&standby));
    let url = format!("--database-url={url}");

    let folder = format!("--documents-url=file://{}", wiring.data().join("own").display());
    let flags = with_webhooks(&[&url, &folder]);
    let copy = ServiceProcess::start(&wiring, &flags);
    assert_eq!(messages(&copy).await, "waiting");
    assert!(copy.stop_and_read_log().contains("this database is a copy"));
    assert_eq!(receiver.requests().len(), 0);

    let flags = with_webhooks(&[&url]);
    let service = ServiceProcess::start(&wiring, &flags).with_key(key);
    assert_eq!(messages(&service).await, Value::Null);
    eventually(|| !receiver.requests().is_empty() && !wiring.mails().is_empty()).await;
}

/// A copy that is to send, and an original that is not.
async fn setting_decides_before_the_installation(kind: Kind) {
    let wiring = kind.wiring_without_tables();
    let (key, receiver) = with_waiting_messages(&wiring).await;
    wiring.execute("UPDATE installation SET database = 'another'").unwrap();
    let flags = with_webhooks(&["--sends-messages=true"]);
    let service = ServiceProcess::start(&wiring, &flags).with_key(key);
    assert_eq!(messages(&service).await, Value::Null);
    eventually(|| wiring.pending_mails() == 0 && !receiver.requests().is_empty()).await;
    let report = Report::on(&wiring, &flags).found("warn", "messages");
    assert!(report.contains("mails and webhooks leave; the database is a copy"), "{report}");

    drop(service);
    wiring.execute("DELETE FROM installation").unwrap();
    let flags = ["--sends-messages=false"];
    let service = ServiceProcess::start(&wiring, &flags);
    assert_eq!(messages(&service).await, "waiting");
    let report = Report::on(&wiring, &flags).found("warn", "messages");
    assert!(report.contains("--sends-messages is false"), "{report}");
    drop(service);
    // The first start, also this one, takes on a database that belongs to no installation.
    assert_eq!(wiring.rows("installation"), 1);
    let service = ServiceProcess::start(&wiring, &[]);
    assert_eq!(messages(&service).await, Value::Null);
}

/// What a copy would delete may be the document of an order of the original.
#[tokio::test(flavor = "multi_thread")]
async fn copy_deletes_no_objects_until_it_is_adopted() {
    let wiring = Wiring::production_without_tables();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order_with_deed("F-1").await).await;
    assert_eq!(service.stop("-TERM").0, Some(0));
    // The ledger of the copy is older than the order.
    wiring
        .execute(
            "INSERT INTO uploads (key, recorded_at) \
                SELECT key, now() - interval '1 day' FROM documents; \
            UPDATE installation SET database = 'another'",
        )
        .unwrap();
    let copy = ServiceProcess::start(&wiring, &[]);
    assert_eq!(messages(&copy).await, "waiting");
    assert_eq!(copy.stop("-TERM").0, Some(0));
    assert_eq!((wiring.rows("uploads"), wiring.objects().len()), (1, 1));
    // The sweeper of an original trusts its ledger.
    let _original = ServiceProcess::start(&wiring, &["--sends-messages=true"]);
    eventually(|| wiring.objects().is_empty()).await;
}

/// Of a wrong folder, for example, where the command would make a new database.
#[test]
fn unused_database_is_not_adopted() {
    let error = fail(&Wiring::embedded(), &["adopt"]);
    assert!(error.contains("no service has used this database"), "{error}");
}
