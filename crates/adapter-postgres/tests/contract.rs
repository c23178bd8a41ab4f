//! The store keeps the contract of every storage port, on a server of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adapter_postgres::PostgresStore;
use contract_tests::samples::Storage;
use test_servers::postgres::Cluster;

async fn storage() -> Storage {
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&database.url(), 8).unwrap();
    store.migrate().await.unwrap();
    Storage::new(Arc::new(store), database)
}

mod order_repo {
    contract_tests::order_repo_contract!(super::storage().await);
}

mod upload_ledger {
    contract_tests::upload_ledger_contract!(super::storage().await);
}

mod api_key_repo {
    contract_tests::api_key_repo_contract!(super::storage().await);
}

mod follow_up_queue {
    contract_tests::follow_up_queue_contract!(super::storage().await);
}
