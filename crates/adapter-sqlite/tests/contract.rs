//! The store fulfils the contract of every storage port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adapter_sqlite::SqliteStore;
use contract_tests::samples::Storage;
use diesel::{Connection as _, connection::SimpleConnection as _, sqlite::SqliteConnection};

async fn storage() -> Storage {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let store = SqliteStore::open(&path).unwrap();
    store.migrate().await.unwrap();
    let sql = move |statements: &str| {
        let path = directory.path().join("orders.db");
        let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
        connection.batch_execute(statements).unwrap();
    };
    Storage::new(Arc::new(store), sql)
}

contract_tests::storage_contracts!(storage);
