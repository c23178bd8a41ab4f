//! Opening a database and migrating it.

use std::os::unix::fs::MetadataExt as _;

use diesel::{
    migration::{Migration, MigrationSource as _},
    sqlite::Sqlite,
};

use super::*;
use crate::migrations::MIGRATIONS;

/// Returns the number of migrations of this program.
fn migrations() -> usize {
    let migrations: Vec<Box<dyn Migration<Sqlite>>> = MIGRATIONS.migrations().unwrap();
    migrations.len()
}

fn schema(connection: &mut SqliteConnection) -> Vec<String> {
    let schema = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    sql::<Text>(schema).load(connection).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_starts_migrate_once() {
    for _ in 0..10 {
        let directory = Arc::new(tempdir().unwrap());
        let starts = (0..8).map(|_| {
            let path = path(&directory);
            tokio::task::spawn_blocking(move || SqliteStore::open(&path, GENEROUS).unwrap())
        });
        let stores: Vec<SqliteStore> =
            join_all(starts).await.into_iter().map(Result::unwrap).collect();
        let applied: Vec<usize> = join_all(stores.iter().map(SqliteStore::migrate))
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(applied.iter().filter(|&&count| count > 0).count(), 1);
        assert_eq!(applied.iter().sum::<usize>(), migrations());
    }
}

#[tokio::test]
async fn start_waits_for_a_migration_of_another_process() {
    let directory = tempdir().unwrap();
    let limits = TimeLimits { lock: Duration::from_millis(1), ..GENEROUS };
    let store = SqliteStore::open(&path(&directory), limits).unwrap();
    let mut other = outsider(&path(&directory));
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    let mut migrated = std::pin::pin!(store.migrate());
    // Longer than SQLite waits for a lock.
    let longer = Duration::from_millis(100);
    assert!(tokio::time::timeout(longer, &mut migrated).await.is_err());
    other.batch_execute("ROLLBACK").unwrap();
    assert_eq!(migrated.await.unwrap(), migrations());
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    assert_eq!(store.migrate().await.unwrap(), 0, "a current schema needs no lock");
}

#[tokio::test]
async fn start_needs_the_triggers_of_changes() {
    for trigger in [
        "orders_record_change",
        "order_feed_number",
        "events_feed",
        "orders_erase_day_start",
        "orders_erase_old_values",
    ] {
        let directory = tempdir().unwrap();
        let store = open(&directory).await;
        outsider(&path(&directory)).batch_execute(&format!("DROP TRIGGER {trigger}")).unwrap();
        let error = store.migrate().await.unwrap_err().to_string();
        assert!(error.contains(&format!("lacks the trigger {trigger}")), "{error}");
    }
}

/// SQLite stores any bytes as text, which no reader could read.
#[tokio::test]
async fn status_is_utf8_without_control_characters_and_notaries_are_positive() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let mut other = outsider(&path(&directory));
    let mut set =
        |status: &str| other.batch_execute(&format!("UPDATE orders SET status = {status}")).is_ok();
    for status in ["'é日\u{1f58a}'", "'ASSIGNED'", &format!("'{}'", "é".repeat(50))] {
        assert!(set(status), "{status}");
    }
    for status in [
        "CAST(X'42C454' AS TEXT)",
        "CAST(X'42B0' AS TEXT)",
        "CAST(X'61FF62' AS TEXT)",
        "'a' || char(0) || 'b'",
        "'a' || char(10)",
        "char(133)",
        "''",
        "NULL",
    ] {
        assert!(!set(status), "{status}");
    }
    assert!(!set("'NEW', notary_id = 0") && !set("'NEW', notary_id = -5"));
    assert!(set("'NEW', notary_id = 7"));
}

#[tokio::test]
async fn database_of_another_version_is_rejected_unchanged() {
    for (version, expected) in [
        ("99991231235959", "the database is newer than this program: it has the migration 9999"),
        (
            "20261121000000",
            "the database is of another version of this program: it has the migration 2026",
        ),
    ] {
        let directory = tempdir().unwrap();
        drop(open(&directory).await);
        let mut other = outsider(&path(&directory));
        other
            .batch_execute(&format!(
                "UPDATE __diesel_schema_migrations SET version = '{version}'
                    WHERE version = (SELECT max(version) FROM __diesel_schema_migrations)"
            ))
            .unwrap();
        let before = schema(&mut other);
        let store = SqliteStore::open(&path(&directory), GENEROUS).unwrap();
        let error = store.migrate().await.unwrap_err().to_string();
        assert!(error.starts_with(expected) && error.contains("start "), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert_eq!(schema(&mut other), before);
    }
}

/// Version 0.1.0 starts only if its table has its migration and no other.
#[tokio::test]
async fn version_0_1_0_finds_its_own_migration_alone() {
    let directory = tempdir().unwrap();
    drop(open(&directory).await);
    let found = "SELECT version FROM __diesel_schema_migrations";
    let found: Vec<String> = sql::<Text>(found).load(&mut outsider(&path(&directory))).unwrap();
    assert_eq!(found, ["20261129100000"]);
}

/// A newer version has migrated the database, and runs beside this one.
#[tokio::test]
async fn later_migration_that_needs_a_known_one_is_accepted() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let mut other = outsider(&path(&directory));
    let add = |version: &str, needs: &str| {
        format!("INSERT INTO later_migrations (version, needs) VALUES ('{version}', '{needs}')")
    };
    other.batch_execute("ALTER TABLE orders ADD COLUMN closing_office TEXT").unwrap();
    other.batch_execute(&add("99991231235958", "20261129100000")).unwrap();
    assert_eq!(store.migrate().await.unwrap(), 0);
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    other.batch_execute(&add("99991231235959", "99991231235958")).unwrap();
    let error = store.migrate().await.unwrap_err().to_string();
    assert!(error.contains("it has the migration 99991231235959"), "{error}");
}

/// Only the file tells: a copy has the same rows, and may have the same path.
#[tokio::test]
async fn copied_file_is_another_database() {
    let (directory, other) = (tempdir().unwrap(), tempdir().unwrap());
    let original = path(&directory);
    let identity = async |path: &Path| {
        let store = SqliteStore::open(path, GENEROUS).unwrap();
        store.database_identity().await.unwrap()
    };
    drop(open(&directory).await);
    let expected = identity(&original).await;
    assert_eq!(identity(&original).await, expected);
    let copied = path(&other);
    std::fs::copy(&original, &copied).unwrap();
    assert_ne!(identity(&copied).await, expected);
    // A file that is moved stays what it is.
    let moved = directory.path().join("moved.db");
    std::fs::rename(&original, &moved).unwrap();
    assert_eq!(identity(&moved).await, expected);
    // In the place of the original, which is gone.
    std::fs::remove_file(&moved).unwrap();
    std::fs::copy(&copied, &original).unwrap();
    assert_ne!(identity(&original).await, expected);
}

#[tokio::test]
async fn database_of_another_program_is_rejected_unchanged() {
    let directory = tempdir().unwrap();
    let mut other = outsider(&path(&directory));
    other.batch_execute("CREATE TABLE recipes (id INTEGER PRIMARY KEY)").unwrap();
    let store = SqliteStore::open(&path(&directory), GENEROUS).unwrap();
    let error = store.migrate().await.unwrap_err();
    assert!(matches!(&error, MigrateError::OtherProgram(table) if table == "recipes"), "{error}");
    assert_eq!(schema(&mut other), ["CREATE TABLE recipes (id INTEGER PRIMARY KEY)"]);
}

#[test]
fn other_files_are_not_opened() {
    let directory = tempdir().unwrap();
    std::fs::write(path(&directory), "dear diary, ".repeat(1_000)).unwrap();
    assert!(matches!(SqliteStore::open(&path(&directory), GENEROUS), Err(OpenError::NotADatabase)));
    assert!(matches!(
        SqliteStore::open(&directory.path().join("no/such/folder.db"), GENEROUS),
        Err(OpenError::File(_))
    ));
}

/// Closing any other handle of the file drops the locks of SQLite. The last connection of another process would
/// then take itself for the last of all, and remove the log, with all that is committed later.
#[tokio::test]
async fn second_open_keeps_the_locks_of_the_first() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    drop(SqliteStore::open(&path(&directory), GENEROUS).unwrap());
    let log = directory.path().join("orders.db-wal");
    let before = std::fs::metadata(&log).unwrap().ino();
    let mut sqlite3 = std::process::Command::new("sqlite3");
    sqlite3.arg(path(&directory)).arg("SELECT count(*) FROM orders");
    assert!(sqlite3.output().unwrap().status.success());
    assert_eq!(std::fs::metadata(&log).unwrap().ino(), before, "another process removed the log");
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    assert_eq!(sqlite3.output().unwrap().stdout, b"1\n");
}

#[test]
fn log_without_its_database_is_not_overwritten() {
    let directory = tempdir().unwrap();
    let log = directory.path().join("orders.db-wal");
    std::fs::write(&log, "orders").unwrap();
    assert!(matches!(
        SqliteStore::open(&path(&directory), GENEROUS),
        Err(OpenError::LogWithoutDatabase(missing)) if missing == path(&directory)
    ));
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
async fn names_that_are_special_to_sqlite_are_files() {
    let directory = tempdir().unwrap();
    for name in [":memory:", "file:orders?mode=memory", "%41 #1"] {
        let path = directory.path().join(name);
        SqliteStore::open(&path, GENEROUS).unwrap().migrate().await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() > 0, "{name}");
    }
}
