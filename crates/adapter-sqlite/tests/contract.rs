//! The store fulfils the contract of every storage port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adapter_sqlite::SqliteStore;
use contract_tests::{SqlTables, samples::Storage};
use diesel::{prelude::*, sql_query, sql_types::Text, sqlite::SqliteConnection};

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    found: String,
}

async fn storage() -> Storage {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let store = SqliteStore::open(&path).unwrap();
    store.migrate().await.unwrap();
    let tables = SqlTables(move |statement: &str| {
        let path = directory.path().join("orders.db");
        let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
        let rows = sql_query(statement).load(&mut connection).unwrap();
        rows.into_iter().map(|row: Row| row.found).collect()
    });
    Storage::new(Arc::new(store), tables)
}

contract_tests::storage_contracts!(storage);
