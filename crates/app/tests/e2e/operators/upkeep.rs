//! Backups and upgrades as the operations guide describes them.

use std::process::Command;

use test_servers::postgres::{Cluster, program};

use crate::{
    harness::service_process::{ServiceProcess, run, text},
    harness::{LONG_WINDOW, PENDING, created, deed, eventually},
    wiring::Wiring,
};

#[tokio::test(flavor = "multi_thread")]
async fn backup_restores_orders_keys_and_mails() {
    let wiring = Wiring::production_without_tables();
    let service = ServiceProcess::keyed(&wiring, &["--rate-per-second=0", LONG_WINDOW]);
    wiring.break_mail();
    created(service.order("F-1").await).await;
    created(service.order_with_deed("F-2").await).await;
    eventually(|| wiring.servers().query("SELECT count(*) FROM events") == "0").await;

    let dump = wiring.data().join("orders.dump");
    let mut pg_dump = Command::new(program("pg_dump"));
    pg_dump.args(["--format=custom", "--exclude-table-data=uploads"]);
    pg_dump.args(["--exclude-table-data=sessions", "--file"]).arg(&dump);
    text(pg_dump.arg(wiring.servers().database_url()).output().unwrap());
    created(service.order("F-after").await).await;
    let key = service.key.clone();
    service.kill();
    let restored = Cluster::shared().database();
    let mut pg_restore = Command::new(program("pg_restore"));
    pg_restore.args(["--exit-on-error", "--no-owner", "--dbname"]).arg(restored.url());
    text(pg_restore.arg(&dump).output().unwrap());
    // A lease in the dump holds its mail back for half a minute.
    restored.sql("UPDATE deliveries SET leased_until = NULL");

    wiring.mend_mail();
    let url = format!("--database-url={}", restored.url());
    let service = ServiceProcess::start(&wiring, &[&url, LONG_WINDOW]).with_key(key);
    assert_eq!(service.order("F-1").await.status(), 409, "the window starts with the order");
    assert_eq!(created(service.order("F-3").await).await["order_id"], 3);
    run(&wiring, &[&url, "adopt"]);
    eventually(|| restored.sql(PENDING) == "0").await;
    assert_eq!(wiring.mails().len(), 3);
    let keys = restored.sql("SELECT key FROM documents");
    assert_eq!(wiring.objects()[&keys], deed());
}

/// Also one that crashed meanwhile, and starts again.
#[tokio::test(flavor = "multi_thread")]
async fn older_version_runs_beside_newer() {
    let wiring = Wiring::production_without_tables();
    let older = ServiceProcess::keyed(&wiring, &[]);
    created(older.order_with_deed("F-1").await).await;
    // A newer version adds a column and an index, which the older one does not use.
    wiring.servers().query(
        "ALTER TABLE orders ADD COLUMN closing_office text; \
         CREATE INDEX ON orders (closing_office); \
         INSERT INTO later_migrations (version, needs) VALUES ('99991231235959', '20261129100000')",
    );
    created(older.order_with_deed("F-2").await).await;
    let key = older.key.clone();
    older.kill();
    let older = ServiceProcess::start(&wiring, &[]).with_key(key);
    created(older.order_with_deed("F-3").await).await;
    eventually(|| wiring.pending_mails() == 0).await;
}
