//! How the bare service stores orders with all checks of the service, by its domain and its
//! adapters. It shows what the service costs without its routes, keys, limits, log and mails.

use std::{path::Path, sync::Arc};

use adapter_postgres::PostgresStore;
use adapter_sqlite::SqliteStore;
use domain::{
    api_key::{ApiKeyId, ClientId},
    duplicate_window::DuplicateWindow,
    order::OrderRequest,
    ports::{NewOrder, OrderRepo},
};
use time::{OffsetDateTime, macros::datetime};
use tokio::runtime::Runtime;

use super::bare_tables::CONNECTIONS_OF_A_WORKER;

/// Every order was created then, as no file number comes again.
const NOW: OffsetDateTime = datetime!(2026-11-25 12:00 UTC);

#[derive(Clone)]
pub struct Checked {
    orders: Arc<dyn OrderRepo>,
    /// Runs the connections that no HTTP worker has, as in the service.
    _runtime: Arc<Runtime>,
}

impl Checked {
    /// Opens the database of a service with so many HTTP workers.
    pub fn on_postgres(url: &str, workers: usize) -> Self {
        let connections = workers * CONNECTIONS_OF_A_WORKER;
        Self::open(|| Arc::new(PostgresStore::open_for_threads(url, connections, workers).unwrap()))
    }

    pub fn on_sqlite(file: &str) -> Self {
        Self::open(|| Arc::new(SqliteStore::open(Path::new(file)).unwrap()))
    }

    fn open(orders: impl FnOnce() -> Arc<dyn OrderRepo>) -> Self {
        let runtime = Runtime::new().unwrap();
        let orders = runtime.block_on(async { orders() });
        Self { orders, _runtime: Arc::new(runtime) }
    }

    /// Reads, checks and stores an order. Returns its identifier.
    pub async fn add(&self, body: &[u8]) -> i64 {
        let request: OrderRequest = serde_json::from_slice(body).unwrap();
        let new = NewOrder {
            order: request.parse().unwrap().order,
            documents: Vec::new(),
            created_at: NOW,
            client: ClientId(1),
            api_key: ApiKeyId(1),
            is_test: false,
            idempotent_request: None,
        };
        self.orders.create(&new, DuplicateWindow::default()).await.unwrap().0
    }
}
