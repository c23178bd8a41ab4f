//! Metrics of the database: its connections and batches.

use std::sync::Arc;

use adapter_postgres::PostgresStore;
use adapter_sqlite::SqliteStore;
use prometheus::{PullingGauge, Registry, register_histogram_with_registry};

/// Gets the size of each batch.
type BatchObserver = Arc<dyn Fn(usize) + Send + Sync>;

/// What the metrics report of a database.
pub trait ObservedDatabase: Send + Sync {
    /// Reports how many writing calls are committed together.
    fn observe_batches(&self, observer: BatchObserver);

    /// Returns the number of open connections.
    fn open_connections(&self) -> usize;

    /// Returns the number of calls that wait for a connection.
    fn waiting_calls(&self) -> usize;
}

/// Implements the trait by the methods that a store has under the same names.
macro_rules! observed {
    ($($store:ident),*) => {$(
        impl ObservedDatabase for $store {
            fn observe_batches(&self, observer: BatchObserver) {
                self.observe_batches(&observer);
            }
            fn open_connections(&self) -> usize {
                self.open_connections()
            }
            fn waiting_calls(&self) -> usize {
                self.waiting_calls()
            }
        }
    )*};
}
observed!(PostgresStore, SqliteStore);

/// Registers the metrics of the database.
#[expect(clippy::cast_precision_loss, reason = "these numbers are far below 2^53")]
pub(crate) fn register(
    registry: &Registry,
    database: &Arc<dyn ObservedDatabase>,
) -> Result<(), prometheus::Error> {
    let sizes = register_histogram_with_registry!(
        "notary_orders_batch_size",
        "Writing calls that were committed together.",
        prometheus::exponential_buckets(1.0, 2.0, 7)?,
        registry
    )?;
    database.observe_batches(Arc::new(move |calls| sizes.observe(calls as f64)));
    let gauge = |name: &str, help: &str, read: fn(&dyn ObservedDatabase) -> usize| {
        let database = Arc::clone(database);
        let gauge = PullingGauge::new(name, help, Box::new(move || read(&*database) as f64))?;
        registry.register(Box::new(gauge))
    };
    gauge("notary_orders_database_connections", "Open connections to the database.", |database| {
        database.open_connections()
    })?;
    gauge(
        "notary_orders_database_waiting_calls",
        "Calls that wait for a connection to the database.",
        |database| database.waiting_calls(),
    )
}
