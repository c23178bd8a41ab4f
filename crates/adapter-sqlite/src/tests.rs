use std::{
    future::poll_fn,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    task::Poll,
};

use contract_tests::samples::{NOW, WINDOW, api_key, document, new_order, stored};
use diesel::{
    Connection as _, QueryableByName, RunQueryDsl as _,
    connection::SimpleConnection as _,
    dsl::sql,
    sql_query,
    sql_types::{BigInt, Text},
    sqlite::SqliteConnection,
};
use diesel_migrations::MigrationHarness as _;
use domain::{
    order::OrderId,
    ports::{
        ApiKeyRepo, CreateError, DeliveryQueue as _, NewOrder, OrderRepo, QueueStats, StoreError,
        UploadLedger as _,
    },
};
use futures_util::future::join_all;
use tempfile::{TempDir, tempdir};

use crate::{MigrateError, OpenError, SqliteStore, failure::Failure, migrations::MIGRATIONS};

/// A document without an order.
const ORPHAN: &str = "INSERT INTO documents
    (order_id, position, key, name, name_as_sent, media_type, size, sha256)
    VALUES (999, 0, 'k', 'n', 'n', 't', 1, x'00')";

fn path(directory: &TempDir) -> PathBuf {
    directory.path().join("orders.db")
}

async fn open(directory: &TempDir) -> SqliteStore {
    let store = SqliteStore::open(&path(directory)).unwrap();
    store.migrate().await.unwrap();
    store
}

/// A connection beside those of the store, as another process has it.
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

fn schema(connection: &mut SqliteConnection) -> Vec<String> {
    #[derive(QueryableByName)]
    struct Definition {
        #[diesel(sql_type = Text)]
        sql: String,
    }
    let definitions: Vec<Definition> =
        sql_query("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
            .load(connection)
            .unwrap();
    definitions.into_iter().map(|definition| definition.sql).collect()
}

#[tokio::test]
async fn a_commit_waits_for_the_disk() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let (synchronous, journal) = store
        .writer
        .run(|connection| {
            let synchronous: i64 = sql::<BigInt>("PRAGMA synchronous").get_result(connection)?;
            let journal: String = sql::<Text>("PRAGMA journal_mode").get_result(connection)?;
            Ok::<_, Failure>((synchronous, journal))
        })
        .await
        .unwrap();
    assert_eq!((synchronous, journal.as_str()), (2, "wal"), "2 is FULL");
}

#[tokio::test]
async fn references_are_enforced() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let outcome = store
        .writer
        .run(move |connection| connection.batch_execute(ORPHAN).map_err(Failure::from))
        .await;
    assert!(outcome.unwrap_err().to_string().contains("FOREIGN KEY"));
}

#[tokio::test]
async fn the_reader_cannot_write() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let outcome = store
        .reader
        .run(|connection| connection.batch_execute("DELETE FROM orders").map_err(Failure::from))
        .await;
    assert!(outcome.unwrap_err().to_string().contains("readonly"));
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_at_once_migrate_once() {
    for _ in 0..10 {
        let directory = Arc::new(tempdir().unwrap());
        let starts = (0..8).map(|_| {
            let path = path(&directory);
            tokio::task::spawn_blocking(move || SqliteStore::open(&path).unwrap())
        });
        let stores: Vec<SqliteStore> =
            join_all(starts).await.into_iter().map(Result::unwrap).collect();
        let applied: Vec<usize> = join_all(stores.iter().map(SqliteStore::migrate))
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let known =
            diesel::migration::MigrationSource::<diesel::sqlite::Sqlite>::migrations(&MIGRATIONS)
                .unwrap()
                .len();
        assert_eq!(applied.iter().filter(|&&count| count == known).count(), 1);
        assert_eq!(applied.iter().sum::<usize>(), known);
    }
}

#[tokio::test]
async fn every_migration_can_be_taken_back_and_applied_again() {
    let directory = tempdir().unwrap();
    drop(open(&directory).await);
    let mut connection = outsider(&path(&directory));
    let before = schema(&mut connection);
    connection.revert_all_migrations(MIGRATIONS).unwrap();
    assert_eq!(
        schema(&mut connection)
            .iter()
            .filter(|sql| !sql.contains("__diesel_schema_migrations")
                && !sql.contains("sqlite_sequence"))
            .count(),
        0
    );
    connection.run_pending_migrations(MIGRATIONS).unwrap();
    assert_eq!(schema(&mut connection), before);
}

#[tokio::test]
async fn database_of_another_version_is_rejected_unchanged() {
    for (version, expected) in [
        ("99991231235959", "the database is newer than this program: it has the migration 9999"),
        ("20261121000000", "the database was created by another version of notary-orders"),
    ] {
        let directory = tempdir().unwrap();
        drop(open(&directory).await);
        let mut other = outsider(&path(&directory));
        other
            .batch_execute(&format!("UPDATE __diesel_schema_migrations SET version = '{version}'"))
            .unwrap();
        let before = schema(&mut other);
        let store = SqliteStore::open(&path(&directory)).unwrap();
        let error = store.migrate().await.unwrap_err().to_string();
        assert!(error.starts_with(expected) && error.contains("start "), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert_eq!(schema(&mut other), before);
    }
}

#[tokio::test]
async fn database_of_another_program_is_rejected_unchanged() {
    let directory = tempdir().unwrap();
    let mut other = outsider(&path(&directory));
    other.batch_execute("CREATE TABLE recipes (id INTEGER PRIMARY KEY)").unwrap();
    let store = SqliteStore::open(&path(&directory)).unwrap();
    let error = store.migrate().await.unwrap_err();
    assert!(matches!(&error, MigrateError::OtherProgram(table) if table == "recipes"), "{error}");
    assert_eq!(schema(&mut other), ["CREATE TABLE recipes (id INTEGER PRIMARY KEY)"]);
}

#[tokio::test]
async fn empty_file_is_migrated() {
    let directory = tempdir().unwrap();
    std::fs::write(path(&directory), "").unwrap();
    open(&directory).await.check().await.unwrap();
}

#[test]
fn what_is_no_database_is_not_opened() {
    let directory = tempdir().unwrap();
    std::fs::write(path(&directory), "dear diary, ".repeat(1_000)).unwrap();
    assert!(matches!(SqliteStore::open(&path(&directory)), Err(OpenError::Connection(_))));
    assert!(matches!(
        SqliteStore::open(&directory.path().join("no/such/folder.db")),
        Err(OpenError::File(_))
    ));
}

#[test]
fn a_log_that_lost_its_database_is_not_overwritten() {
    let directory = tempdir().unwrap();
    let log = directory.path().join("orders.db-wal");
    std::fs::write(&log, "orders").unwrap();
    assert!(
        matches!(SqliteStore::open(&path(&directory)), Err(OpenError::LogWithoutDatabase(missing)) if missing == path(&directory))
    );
    assert_eq!(std::fs::read(&log).unwrap(), b"orders");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn only_the_owner_can_read_a_new_database() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempdir().unwrap();
    let _store = open(&directory).await;
    for file in ["orders.db", "orders.db-wal", "orders.db-shm"] {
        let mode = std::fs::metadata(directory.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_name_that_means_something_to_sqlite_is_a_file_all_the_same() {
    let directory = tempdir().unwrap();
    for name in [":memory:", "file:orders?mode=memory", "%41 #1"] {
        let path = directory.path().join(name);
        SqliteStore::open(&path).unwrap().migrate().await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() > 0, "{name}");
    }
}

#[tokio::test]
async fn what_was_kept_is_there_after_a_restart_in_one_file() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let (order, key, uploads) = (
        NewOrder { documents: vec![document()], ..new_order("F-1", NOW) },
        api_key(NOW),
        [document().key],
    );
    store.record(&[order.documents[0].key.clone()], NOW).await.unwrap();
    store.record(&uploads, NOW).await.unwrap();
    let id = store.create(&order, WINDOW).await.unwrap();
    store.add(&key, "jane").await.unwrap();
    drop(store);
    let files: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, ["orders.db"], "the store has ended and left nothing beside its database");

    let store = open(&directory).await;
    assert_eq!(OrderRepo::find(&store, id).await.unwrap(), Some(stored(id, &order)));
    assert_eq!(ApiKeyRepo::find(&store, &key.lookup).await.unwrap().unwrap().key, key);
    assert_eq!(store.stats().await.unwrap().pending, 1);
    assert_eq!(store.condemn(&uploads).await.unwrap(), uploads);
    assert!(matches!(
        store.create(&new_order("F-1", NOW), WINDOW).await,
        Err(CreateError::Duplicate { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_one_places_an_order() {
    let directory = tempdir().unwrap();
    let stores = [Arc::new(open(&directory).await), Arc::new(open(&directory).await)];
    for round in 0..20 {
        let tasks = (0..10).map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move {
                store.create(&new_order(&format!("F-{round}"), NOW), WINDOW).await
            })
        });
        let outcomes: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        assert_eq!(
            outcomes
                .iter()
                .filter(|outcome| matches!(outcome, Err(CreateError::Duplicate { .. })))
                .count(),
            9
        );
    }
}

#[tokio::test]
async fn a_lock_that_another_process_holds_makes_the_store_unavailable() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    on_writer(&store, "PRAGMA busy_timeout = 1").await;
    let mut other = outsider(&path(&directory));
    other.batch_execute("BEGIN IMMEDIATE").unwrap();

    assert!(matches!(
        store.create(&new_order("F-1", NOW), WINDOW).await,
        Err(CreateError::Unavailable(_))
    ));
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))));
    assert_eq!(
        OrderRepo::find(&store, OrderId(1)).await.unwrap(),
        None,
        "a lock does not keep anybody from reading"
    );
    other.batch_execute("ROLLBACK").unwrap();
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_makes_the_store_unavailable_until_there_is_room() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    on_writer(&store, "PRAGMA max_page_count = 1").await;
    let failed = loop {
        match store.create(&new_order(document().key.as_str(), NOW), WINDOW).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, CreateError::Unavailable(_)), "{failed:?}");
    let before = store.stats().await.unwrap();
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap_err();
    assert_eq!(store.stats().await.unwrap(), before);

    on_writer(&store, "PRAGMA max_page_count = 1000000").await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
}

#[tokio::test]
async fn a_database_that_is_not_in_its_place_takes_no_orders() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.check().await.unwrap();
    let (path, aside) = (path(&directory), directory.path().join("aside.db"));
    std::fs::rename(&path, &aside).unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))), "it is gone");
    // The panic makes the next transaction open the database again.
    store.writer.run(|_| -> Result<(), Failure> { panic!("on purpose") }).await.unwrap_err();
    assert!(matches!(
        store.create(&new_order("F-1", NOW), WINDOW).await,
        Err(CreateError::Unavailable(_))
    ));
    assert!(!path.exists(), "no empty database took its place");
    if cfg!(unix) {
        std::fs::copy(&aside, &path).unwrap();
        assert!(
            matches!(store.check().await, Err(StoreError::Unavailable(_))),
            "it is another one"
        );
    }
    std::fs::rename(&aside, &path).unwrap();
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_store_without_its_tables_is_not_ready() {
    let directory = tempdir().unwrap();
    let store = SqliteStore::open(&path(&directory)).unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Internal(_))));
}

#[tokio::test]
async fn a_panic_ends_its_own_transaction_only() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let lost = store
        .writer
        .run(|connection| -> Result<(), Failure> {
            connection
                .batch_execute("INSERT INTO uploads (key, recorded_at_us) VALUES ('half', 0)")?;
            panic!("on purpose");
        })
        .await
        .unwrap_err();
    assert!(matches!(StoreError::from(lost), StoreError::Internal(_)));
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    assert_eq!(store.condemn_recorded_before(NOW, 10).await.unwrap(), [], "it was rolled back");
}

/// The writer, busy until the answer is dropped, so that what is called meanwhile waits together.
async fn hold(
    store: &Arc<SqliteStore>,
) -> (mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), Failure>>) {
    let (release, held) = mpsc::channel::<()>();
    let (began, begins) = tokio::sync::oneshot::channel();
    let store = Arc::clone(store);
    let holding = tokio::spawn(async move {
        let occupy = move |_: &mut SqliteConnection| {
            let _ = began.send(());
            let _ = held.recv();
            Ok::<_, Failure>(())
        };
        store.writer.run(occupy).await
    });
    begins.await.unwrap();
    (release, holding)
}

/// Commits in the write-ahead log: frames that say how large the database is then (SQLite file
/// format, section 4.1).
fn commits(directory: &TempDir) -> usize {
    let log = std::fs::read(directory.path().join("orders.db-wal")).unwrap();
    log[32..].chunks_exact(24 + 4096).filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_at_the_same_time_share_a_commit() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let (release, holding) = hold(&store).await;
    let before = commits(&directory);
    let orders: Vec<_> = (0..60).map(|number| new_order(&format!("F-{number}"), NOW)).collect();
    let mut placing =
        std::pin::pin!(join_all(orders.iter().map(|order| store.create(order, WINDOW))));
    poll_fn(|context| Poll::Ready(placing.as_mut().poll(context).is_pending())).await;
    drop(release);
    assert!(placing.await.iter().all(Result::is_ok));
    holding.await.unwrap().unwrap();
    assert_eq!(commits(&directory) - before, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_of_a_success_that_was_not_committed() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let (release, holding) = hold(&store).await;
    // Fails when it is committed, and not before.
    let orphan = format!("PRAGMA defer_foreign_keys = ON; {ORPHAN}");
    let order = new_order("F-1", NOW);
    let orphaned = store
        .writer
        .run(move |connection| connection.batch_execute(&orphan).map_err(Failure::from));
    let mut both =
        std::pin::pin!(futures_util::future::join(store.create(&order, WINDOW), orphaned));
    poll_fn(|context| Poll::Ready(both.as_mut().poll(context).is_pending())).await;
    drop(release);
    let (stored, orphaned) = both.await;
    assert!(matches!(stored, Err(CreateError::Unavailable(_))), "{stored:?}");
    orphaned.unwrap_err();
    holding.await.unwrap().unwrap();
    assert_eq!(store.stats().await.unwrap(), QueueStats::default());
    store.create(&order, WINDOW).await.unwrap();
}

#[tokio::test]
async fn nothing_is_done_for_a_caller_that_has_given_up_waiting() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let (release, blocked) = mpsc::channel::<()>();
    let busy = store.clone();
    let busy = tokio::spawn(async move {
        busy.writer.run(move |_| blocked.recv().map_err(|_| Failure::Lost)).await
    });
    tokio::task::yield_now().await;

    let order = new_order("F-1", NOW);
    let mut placing = store.create(&order, WINDOW);
    poll_fn(|context| Poll::Ready(placing.as_mut().poll(context).is_pending())).await;
    drop(placing);
    release.send(()).unwrap();
    busy.await.unwrap().unwrap();
    store.check().await.unwrap();
    assert_eq!(store.stats().await.unwrap(), QueueStats::default());
}

#[tokio::test]
async fn unreadable_order_is_an_error_that_names_it() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let id = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    for (change, reason) in [
        ("details = json_set(details, '$.zone', 'Mars/Olympus')", "member `zone`"),
        ("details = json_remove(details, '$.by')", "missing field `by`"),
        ("details = json_set(details, '$.v', 2)", "version 2"),
        ("starts_at_us = NULL", "`starts_at`"),
        ("starts_at_us = 9223372036854775807", "starts_at_us"),
        ("file_number = ' '", "`file_number`"),
        ("status = printf('%51s', '')", "status"),
        ("status = ''", "status"),
    ] {
        let mut other = outsider(&path(&directory));
        other
            .batch_execute(&format!(
                "PRAGMA ignore_check_constraints = ON;
                CREATE TABLE saved AS SELECT * FROM orders; UPDATE orders SET {change}"
            ))
            .unwrap();
        let Err(StoreError::Internal(cause)) = OrderRepo::find(&store, id).await else {
            panic!("{change}")
        };
        let text = cause.to_string();
        assert!(text.starts_with("row 1 of orders cannot be read: "), "{text}");
        assert!(text.contains(reason), "{text}");
        other
            .batch_execute(
                "DELETE FROM orders; INSERT INTO orders SELECT * FROM saved; DROP TABLE saved",
            )
            .unwrap();
    }
    assert!(OrderRepo::find(&store, id).await.unwrap().is_some());
}
