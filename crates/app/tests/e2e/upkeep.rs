//! Backups and upgrades as the operations guide describes them.

use std::process::Command;

use test_servers::postgres::{Cluster, program};

use crate::{
    harness::{created, deed, eventually},
    service_process::{ServiceProcess, issue_key, output},
    wiring::Wiring,
};

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Counts the mails that are not delivered yet.
const PENDING: &str = "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM deliveries)";

#[tokio::test(flavor = "multi_thread")]
async fn backup_restores_orders_keys_and_mails() {
    let wiring = Wiring::new();
    let service = ServiceProcess::start(&wiring, &["--rate-per-second=0"]);
    let key = issue_key(&wiring);
    wiring.break_mail();
    created(service.post(&key, "F-1").await).await;
    created(service.post_with_deed(&key, "F-2").await).await;
    eventually(|| wiring.query("SELECT count(*) FROM events") == "0").await;

    let dump = wiring.data().join("orders.dump");
    succeed(
        Command::new(program("pg_dump"))
            .args(["--format=custom", "--exclude-table-data=uploads", "--file"])
            .arg(&dump)
            .arg(wiring.database_url()),
    );
    created(service.post(&key, "F-after").await).await;
    service.kill();
    let restored = Cluster::shared().database();
    succeed(
        Command::new(program("pg_restore"))
            .args(["--exit-on-error", "--no-owner", "--dbname"])
            .arg(restored.url())
            .arg(&dump),
    );
    // A lease in the dump holds its mail back for two minutes.
    restored.sql("UPDATE deliveries SET leased_until = NULL");

    wiring.mend_mail();
    let service = ServiceProcess::start(&wiring, &[&format!("--database-url={}", restored.url())]);
    assert_eq!(service.post(&key, "F-1").await.status(), 409, "the window starts with the order");
    assert_eq!(created(service.post(&key, "F-3").await).await["order_id"], 3);
    eventually(|| restored.sql(PENDING) == "0").await;
    assert_eq!(wiring.mails().len(), 3);
    let keys = restored.sql("SELECT key FROM documents");
    assert_eq!(wiring.objects()[&keys], deed());
}

#[tokio::test(flavor = "multi_thread")]
async fn older_version_runs_beside_newer_but_does_not_start() {
    let wiring = Wiring::new();
    let older = ServiceProcess::start(&wiring, &[]);
    let key = issue_key(&wiring);
    created(older.post_with_deed(&key, "F-1").await).await;
    // A newer version adds a column and an index, which the older one does not use.
    wiring.query(
        "ALTER TABLE orders ADD COLUMN closing_office text; \
         CREATE INDEX ON orders (closing_office)",
    );
    wiring.query("INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231235959')");
    created(older.post_with_deed(&key, "F-2").await).await;
    eventually(|| wiring.pending_mails() == 0).await;

    let failed = output(&wiring, &[]);
    let error = String::from_utf8(failed.stderr).unwrap();
    let expected = "error: --database-url (DATABASE_URL): the database is newer than this \
         program: it has the migration 99991231235959; start ";
    assert_eq!((failed.status.code(), error.lines().count()), (Some(1), 1));
    assert!(error.starts_with(expected), "{error}");
}
