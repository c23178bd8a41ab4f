//! The store keeps the contract of every storage port, on a server of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adapter_postgres::PostgresStore;
use contract_tests::samples::Storage;
use test_servers::postgres::{Cluster, Database};

async fn store() -> (Arc<PostgresStore>, Database<'static>) {
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&database.url(), 8).unwrap();
    store.migrate().await.unwrap();
    (Arc::new(store), database)
}

async fn storage() -> Storage {
    let (store, database) = store().await;
    Storage::new(store, move |statements: &str| {
        database.sql(statements);
    })
}

contract_tests::storage_contracts!(storage);
