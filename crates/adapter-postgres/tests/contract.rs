//! The store keeps the contract of every storage port, on a server of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adapter_postgres::PostgresStore;
use contract_tests::{SqlTables, samples::Storage};
use test_servers::postgres::{Cluster, Database};

async fn store() -> (Arc<PostgresStore>, Database<'static>) {
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&database.url(), 8).unwrap();
    store.migrate().await.unwrap();
    (Arc::new(store), database)
}

async fn storage() -> Storage {
    let (store, database) = store().await;
    let sql = move |statement: &str| database.sql(statement).lines().map(str::to_owned).collect();
    Storage::new(store, SqlTables(sql))
}

contract_tests::storage_contracts!(storage);
