//! What the operations guide says of backups and upgrades.

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

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_service_is_restored_with_its_orders_keys_and_pending_mails() {
    let wiring = Wiring::new();
    let service = ServiceProcess::start(&wiring, &["--rate-per-second=0"]);
    let key = issue_key(&wiring);
    wiring.break_mail();
    created(service.post(&key, "F-1").await).await;
    created(service.post_with_deed(&key, "F-2").await).await;

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

    wiring.mend_mail();
    let service = ServiceProcess::start(&wiring, &[&format!("--database-url={}", restored.url())]);
    assert_eq!(service.post(&key, "F-1").await.status(), 409, "the window goes on");
    assert_eq!(created(service.post(&key, "F-3").await).await["order_id"], 3);
    eventually(|| restored.sql("SELECT count(*) FROM deliveries") == "0").await;
    assert_eq!(wiring.mails().len(), 3);
    let keys = restored.sql("SELECT key FROM documents");
    assert_eq!(wiring.objects()[&keys], deed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_runs_goes_on_beside_a_newer_one_and_does_not_start_again() {
    let wiring = Wiring::new();
    let older = ServiceProcess::start(&wiring, &[]);
    let key = issue_key(&wiring);
    created(older.post_with_deed(&key, "F-1").await).await;
    // What a newer version may do: add what an older one does not miss.
    wiring.query("ALTER TABLE orders ADD COLUMN closing_office text; CREATE INDEX ON orders (closing_office)");
    wiring.query("INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231235959')");
    created(older.post_with_deed(&key, "F-2").await).await;
    eventually(|| wiring.rows("deliveries") == 0).await;

    let refused = output(&wiring, &[]);
    let said = String::from_utf8(refused.stderr).unwrap();
    let expected = "error: --database-url (DATABASE_URL): the database is newer than this program: it has the migration 99991231235959\n";
    assert_eq!((refused.status.code(), said.as_str()), (Some(1), expected));
}
