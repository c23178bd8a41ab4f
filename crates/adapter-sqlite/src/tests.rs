use std::{
    future::poll_fn,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    task::Poll,
    time::Duration,
};

use contract_tests::samples::{
    NOW, WINDOW, api_key, document, key_of, new_order, object_key, order_of, stored,
};
use diesel::{
    Connection as _, RunQueryDsl as _,
    connection::SimpleConnection as _,
    dsl::sql,
    sql_types::{BigInt, Text},
    sqlite::SqliteConnection,
};
use domain::{
    order::OrderId,
    ports::{
        ApiKeyRepo, DeliveryQueue as _, InstallationRepo as _, NewOrder, OrderRepo as _,
        QueueStats, StoreError, UploadLedger as _, WriteError,
    },
};
use futures_util::future::join_all;
use tempfile::{TempDir, tempdir};

use crate::{MigrateError, OpenError, SqliteStore, TimeLimits, failure::Failure};

mod damaged;
mod erasure;
mod reads;
mod start;
mod statements;
mod transactions;

/// A document without an order.
const ORPHAN: &str = "INSERT INTO documents
    (order_id, position, key, name, name_as_sent, media_type, size, sha256)
    VALUES (999, 0, 'k', 'n', 'n', 't', 1, x'00')";

fn path(directory: &TempDir) -> PathBuf {
    directory.path().join("orders.db")
}

/// Limits that no call meets on a busy machine. Tests of a limit put the clock forward, or set their own.
const GENEROUS: TimeLimits = TimeLimits {
    lock: Duration::from_mins(10),
    call: Duration::from_mins(20),
    log: Duration::from_secs(1),
};

async fn open(directory: &TempDir) -> SqliteStore {
    open_with(directory, GENEROUS).await
}

/// Opens a database like [`open`], with time limits of its own.
async fn open_with(directory: &TempDir, limits: TimeLimits) -> SqliteStore {
    let store = SqliteStore::open(&path(directory), limits).unwrap();
    store.migrate().await.unwrap();
    store
}

/// Returns a connection like that of another process.
fn outsider(path: &Path) -> SqliteConnection {
    SqliteConnection::establish(path.to_str().unwrap()).unwrap()
}

async fn on_writer(store: &SqliteStore, statements: &'static str) {
    store
        .writer
        .run(move |connection| connection.batch_execute(statements).map_err(Failure::from))
        .await
        .unwrap();
}

#[tokio::test]
async fn connections_are_set_up() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let settings = store.writer.run(|connection| {
        let synchronous: i64 = sql::<BigInt>("PRAGMA synchronous").get_result(connection)?;
        let journal: String = sql::<Text>("PRAGMA journal_mode").get_result(connection)?;
        Ok::<_, Failure>((synchronous, journal))
    });
    assert_eq!(settings.await.unwrap(), (2, "wal".to_owned()), "a commit waits for the disk");
    for (worker, statement, rejected) in
        [(&store.writer, ORPHAN, "FOREIGN KEY"), (&store.readers, "DELETE FROM orders", "readonly")]
    {
        let run = |connection: &mut SqliteConnection| connection.batch_execute(statement);
        let outcome = worker.run(move |connection| run(connection).map_err(Failure::from)).await;
        assert!(outcome.unwrap_err().to_string().contains(rejected), "{statement}");
    }
}

#[tokio::test]
async fn restarted_store_has_everything_in_one_file() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let (order, key, uploads) = (
        NewOrder { documents: vec![document()], ..new_order("F-1", NOW) },
        api_key(NOW),
        [object_key()],
    );
    store.record(&[key_of(&order.documents[0])], NOW).await.unwrap();
    store.record(&uploads, NOW).await.unwrap();
    let id = store.create(&order, WINDOW).await.unwrap();
    store.add(&key, "jane").await.unwrap();
    drop(store);
    let files: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, ["orders.db"], "the log is part of the database file");

    let store = open(&directory).await;
    assert_eq!(order_of(&store, id).await.unwrap(), Some(stored(id, &order)));
    assert_eq!(ApiKeyRepo::find(&store, &key.lookup).await.unwrap().unwrap().key, key);
    assert_eq!(store.stats().await.unwrap().events, 1);
    assert_eq!(store.condemn(&uploads).await.unwrap(), uploads);
    assert!(matches!(
        store.create(&new_order("F-1", NOW), WINDOW).await,
        Err(WriteError::Duplicate { .. })
    ));
}

/// Counts of the hour before stay, for a process whose clock is behind.
#[tokio::test]
async fn counts_of_past_hours_are_removed_in_batches() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    // `NOW` is 12:00.
    let hour = 3_600_000_000;
    let at = i64::try_from(NOW.unix_timestamp_nanos() / 1_000).unwrap();
    let mut other = outsider(&path(&directory));
    let (long_past, before) = (at - 2 * hour, at - hour);
    other
        .batch_execute(&format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 150)
            INSERT INTO recipient_mails SELECT {long_past}, 1, CAST(n AS BLOB), 1 FROM numbers;
            INSERT INTO recipient_mails VALUES ({before}, 1, x'00', 1)"
        ))
        .unwrap();
    for left in [51, 1, 1] {
        assert_eq!(store.begin(&[], NOW, 0).await.unwrap(), []);
        let count = sql::<BigInt>("SELECT count(*) FROM recipient_mails");
        assert_eq!(count.get_result::<i64>(&mut other).unwrap(), left);
    }
}

#[tokio::test]
async fn log_shrinks_between_long_reads() {
    const LIMIT: u64 = 64 * 1024 * 1024;
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let size = || std::fs::metadata(directory.path().join("orders.db-wal")).unwrap().len();
    let mut reader = outsider(&path(&directory));
    reader.batch_execute("CREATE TABLE big (bytes BLOB)").unwrap();
    // The log cannot be emptied behind a reader.
    reader.batch_execute("BEGIN; SELECT count(*) FROM big").unwrap();
    on_writer(&store, "INSERT INTO big VALUES (zeroblob(80000000))").await;
    assert!(size() > LIMIT, "{}", size());
    // The store waits for the end of this read, so the next one does not need the log.
    reader.batch_execute("COMMIT").unwrap();
    on_writer(&store, "SELECT 1").await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM big").unwrap();
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    assert!(size() <= LIMIT, "{}", size());
}
