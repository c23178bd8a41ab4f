//! Opening a database and migrating it.

use contract_tests::samples::{CLIENT, minimal_order, settle};
use domain::{
    api_key::Scopes,
    order::record::OrderRecord,
    ports::{QueueStats, Settlement},
};

use super::*;

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

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_starts_migrate_once() {
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
        let all =
            diesel::migration::MigrationSource::<diesel::sqlite::Sqlite>::migrations(&MIGRATIONS)
                .unwrap()
                .len();
        assert_eq!(applied.iter().filter(|&&count| count == all).count(), 1);
        assert_eq!(applied.iter().sum::<usize>(), all);
    }
}

#[tokio::test]
async fn every_migration_can_be_reverted_and_applied_again() {
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
fn other_files_are_not_opened() {
    let directory = tempdir().unwrap();
    std::fs::write(path(&directory), "dear diary, ".repeat(1_000)).unwrap();
    assert!(matches!(SqliteStore::open(&path(&directory)), Err(OpenError::Connection(_))));
    assert!(matches!(
        SqliteStore::open(&directory.path().join("no/such/folder.db")),
        Err(OpenError::File(_))
    ));
}

#[test]
fn log_without_its_database_is_not_overwritten() {
    let directory = tempdir().unwrap();
    let log = directory.path().join("orders.db-wal");
    std::fs::write(&log, "orders").unwrap();
    assert!(matches!(
        SqliteStore::open(&path(&directory)),
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
        SqliteStore::open(&path).unwrap().migrate().await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() > 0, "{name}");
    }
}

/// Rows of the first version of the program: an order with a document, a mail, a count and a key.
fn first_rows(order_details: &str) -> String {
    let at = NOW.unix_timestamp_nanos() / 1_000;
    format!(
        "INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, created_at,
            updated_at, is_test, holds_file_number, file_number, status, details)
            VALUES ({}, 1, 1, {at}, {at}, {at}, 0, 1, 'F-1', 'NEW', '{order_details}');
        INSERT INTO documents VALUES (1, 0, 'k', 'n', 'n', 't', 1, zeroblob(32));
        INSERT INTO deliveries (order_id, created_at, due_at, message_key, recipient)
            VALUES (1, {at}, {at}, 'm', 'Jane@Example.com');
        INSERT INTO recipient_mails VALUES ({at}, 'jane@example.com', 1);
        INSERT INTO api_keys (name, lookup, hash, issued_at, is_test)
            VALUES ('x', 'lookup', zeroblob(32), 0, 0)",
        CLIENT.0
    )
}

#[tokio::test]
async fn database_of_the_first_version_is_migrated_with_its_rows() {
    let directory = tempdir().unwrap();
    drop(SqliteStore::open(&path(&directory)).unwrap());
    let mut connection = outsider(&path(&directory));
    connection.run_next_migration(MIGRATIONS).unwrap();
    let order = minimal_order();
    let details = OrderRecord::of(&order).unwrap().details;
    connection.batch_execute(&first_rows(&details)).unwrap();
    let store = SqliteStore::open(&path(&directory)).unwrap();
    assert!(store.migrate().await.unwrap() > 0);

    let found = order_of(&store, OrderId(1)).await.unwrap().unwrap();
    assert_eq!(found.order.contacts, order.contacts);
    assert_eq!((found.created_at, found.documents[0].created_at), (NOW, NOW));
    let key = ApiKeyRepo::find(&store, "lookup").await.unwrap().unwrap();
    assert_eq!(key.key.scopes, Scopes::default());
    let leases = store.lease(NOW, time::Duration::MINUTE, 2).await.unwrap();
    assert_eq!(leases[0].mail_of_hour, Some(1));
    // It was waiting before, and is delivered. It has no event.
    assert!(settle(&store, &leases[0], &Settlement::Done).await);
    assert_eq!(store.stats().await.unwrap(), QueueStats::default());
}
