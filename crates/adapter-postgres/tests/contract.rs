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

mod order_repo {
    contract_tests::order_repo_contract!(super::storage().await);
}

mod upload_ledger {
    contract_tests::upload_ledger_contract!(super::storage().await);
}

mod idempotency_ledger {
    contract_tests::idempotency_ledger_contract!(super::storage().await);
}

mod api_key_repo {
    contract_tests::api_key_repo_contract!(super::storage().await);
}

mod delivery_queue {
    contract_tests::delivery_queue_contract!(super::storage().await);
}

mod order_reader {
    contract_tests::order_reader_contract!(super::storage().await);
}

mod order_admin {
    contract_tests::order_admin_contract!(super::storage().await);
}
