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
