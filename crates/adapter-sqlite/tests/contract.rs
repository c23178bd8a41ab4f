//! The store fulfils the contract of every storage port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, sync::Arc, time::Duration};

use adapter_sqlite::{SqliteStore, TimeLimits};
use contract_tests::{SqlTables, samples::Storage};
use diesel::{prelude::*, sql_query, sql_types::Text, sqlite::SqliteConnection};
use tokio::sync::OnceCell;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    found: String,
}

/// Limits that no call meets on a busy machine.
const GENEROUS: TimeLimits = TimeLimits {
    lock: Duration::from_secs(60),
    call: Duration::from_secs(2 * 60),
    log: Duration::from_secs(1),
};

/// Returns the bytes of a database with a current schema.
async fn migrated() -> &'static [u8] {
    static MIGRATED: OnceCell<Vec<u8>> = OnceCell::const_new();
    let migrated = MIGRATED.get_or_init(async || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orders.db");
        let store = SqliteStore::open(&path, GENEROUS).unwrap();
        store.migrate().await.unwrap();
        drop(store);
        fs::read(path).unwrap()
    });
    migrated.await
}

async fn storage() -> Storage {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    fs::write(&path, migrated().await).unwrap();
    let store = SqliteStore::open(&path, GENEROUS).unwrap();
    let tables = SqlTables(move |statement: &str| {
        let path = directory.path().join("orders.db");
        let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
        let rows = sql_query(statement).load(&mut connection).unwrap();
        rows.into_iter().map(|row: Row| row.found).collect()
    });
    Storage::new(Arc::new(store), tables)
}

contract_tests::storage_contracts!(storage);
