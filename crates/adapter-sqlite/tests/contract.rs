//! The store keeps the contract of every storage port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adapter_sqlite::SqliteStore;
use contract_tests::samples::Storage;

async fn storage() -> Storage {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orders.db")).unwrap();
    store.migrate().await.unwrap();
    Storage::new(Arc::new(store), directory)
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
