//! The store keeps the contract of every storage port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use adapter_sqlite::SqliteStore;
use async_trait::async_trait;
use contract_tests::{
    samples::{NOW, Storage, WINDOW, new_order},
    store_source::StoreSourceFixture,
};
use diesel::{Connection as _, connection::SimpleConnection as _, sqlite::SqliteConnection};
use domain::{order::OrderId, ports::StoreSource};
use tempfile::TempDir;
use time::OffsetDateTime;

async fn store() -> (Arc<SqliteStore>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orders.db")).unwrap();
    store.migrate().await.unwrap();
    (Arc::new(store), directory)
}

async fn storage() -> Storage {
    let (store, directory) = store().await;
    Storage::new(store, directory)
}

struct Source {
    storage: Storage,
    store: Arc<SqliteStore>,
    /// As an operator has one beside the service.
    shell: Mutex<SqliteConnection>,
}

impl Source {
    async fn new() -> Self {
        let (store, directory) = store().await;
        let shell =
            SqliteConnection::establish(directory.path().join("orders.db").to_str().unwrap())
                .unwrap();
        Self { storage: Storage::new(store.clone(), directory), store, shell: Mutex::new(shell) }
    }

    fn sql(&self, statement: &str) {
        self.shell.lock().unwrap().batch_execute(statement).unwrap();
    }
}

#[async_trait]
impl StoreSourceFixture for Source {
    fn storage(&self) -> &Storage {
        &self.storage
    }

    fn source(&self) -> Arc<dyn StoreSource> {
        self.store.clone()
    }

    async fn remove_order(&self, id: OrderId) {
        self.sql(&format!("PRAGMA foreign_keys = ON; DELETE FROM orders WHERE id = {}", id.0));
    }

    async fn assign_notary(&self, id: OrderId, notary_id: i64, at: OffsetDateTime) {
        let at = at.unix_timestamp_nanos() / 1_000;
        self.sql(&format!(
            "UPDATE orders SET notary_id = {notary_id}, updated_at_us = {at} WHERE id = {}",
            id.0
        ));
    }
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

mod store_source {
    contract_tests::store_source_contract!(super::Source::new().await);
}

/// More than are counted in one transaction.
#[tokio::test]
async fn all_of_many_orders_are_counted() {
    let fixture = Source::new().await;
    fixture.storage.orders.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    fixture.sql(
        "CREATE TEMP TABLE copies AS SELECT * FROM orders;
        UPDATE copies SET id = NULL;
        WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 40000)
        INSERT INTO orders SELECT copies.* FROM copies, numbers",
    );
    assert_eq!(fixture.store.counts().await.unwrap().orders, 40_001);
}
