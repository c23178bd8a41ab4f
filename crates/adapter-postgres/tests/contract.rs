//! The store keeps the contract of every storage port, on a server of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adapter_postgres::PostgresStore;
use contract_tests::{SqlTables, samples::Storage};
use test_servers::postgres::Cluster;

/// Returns a store on a new database with a default of its own for the isolation of transactions.
async fn isolated(isolation: &str) -> Storage {
    let database = Cluster::shared().database();
    let name = &database.name;
    database
        .sql(&format!("ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'"));
    let store = PostgresStore::open(&database.url(), 8).unwrap();
    store.migrate().await.unwrap();
    let sql = move |statement: &str| database.sql(statement).lines().map(str::to_owned).collect();
    Storage::new(Arc::new(store), SqlTables(sql))
}

async fn storage() -> Storage {
    isolated("read committed").await
}

contract_tests::storage_contracts!(storage);

/// Defaults of the server do not leak in.
mod serializable {
    async fn storage() -> contract_tests::samples::Storage {
        super::isolated("serializable").await
    }

    contract_tests::storage_contracts!(storage);
}
