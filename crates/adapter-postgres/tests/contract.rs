//! The store keeps the contract of every storage port, on a server of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use adapter_postgres::{PostgresStore, TimeLimits};
use contract_tests::{SqlTables, samples::Storage};
use test_servers::postgres::{Cluster, Database};
use tokio::sync::OnceCell;

/// Limits that no call meets on a busy machine.
const GENEROUS: TimeLimits = TimeLimits {
    connect: Duration::from_secs(60),
    session_check: Duration::from_secs(60),
    acquire: Duration::from_secs(60),
    statement: Duration::from_secs(60),
    call: Duration::from_secs(2 * 60),
    idle_transaction: Duration::from_secs(60),
    lock: Duration::from_secs(60),
    batch: Duration::from_secs(60),
    fast_rejection: Duration::from_secs(60),
};

/// Returns a database with a current schema.
async fn database() -> Database<'static> {
    static MIGRATED: OnceCell<Database<'static>> = OnceCell::const_new();
    let migrated = MIGRATED.get_or_init(async || {
        let database = Cluster::shared().database();
        let store = PostgresStore::open(&database.url(), 1, GENEROUS).unwrap();
        store.migrate().await.unwrap();
        database
    });
    migrated.await.copy()
}

fn on(database: Database<'static>) -> Storage {
    let store = PostgresStore::open(&database.url(), 8, GENEROUS).unwrap();
    let sql = move |statement: &str| database.sql(statement).lines().map(str::to_owned).collect();
    Storage::new(Arc::new(store), SqlTables(sql))
}

async fn storage() -> Storage {
    on(database().await)
}

contract_tests::storage_contracts!(storage);

/// The database has a default of its own for the isolation of transactions, which the store overrides.
mod serializable {
    async fn storage() -> contract_tests::samples::Storage {
        let database = super::database().await;
        let name = &database.name;
        database.sql(&format!(
            "ALTER DATABASE {name} SET default_transaction_isolation = serializable"
        ));
        super::on(database)
    }

    contract_tests::concurrency_contracts!(storage);
}
