//! Metrics of the database and of the disk on which uploads arrive.

use std::path::Path;

use prometheus::{Histogram, PullingGauge, Registry, register_histogram_with_registry};
use rustix::fs::StatVfs;

fn gauge(
    registry: &Registry,
    name: &str,
    help: &str,
    read: impl Fn() -> f64 + Send + Sync + 'static,
) -> Result<(), prometheus::Error> {
    registry.register(Box::new(PullingGauge::new(name, help, Box::new(read))?))
}

/// Registers the metrics of the database: `connections` and `waiting` count those that are open, and
/// calls that wait for one. Returns the sizes of batches.
#[expect(clippy::cast_precision_loss, reason = "these numbers are far below 2^53")]
pub fn register_database(
    registry: &Registry,
    connections: impl Fn() -> usize + Send + Sync + 'static,
    waiting: impl Fn() -> usize + Send + Sync + 'static,
) -> Result<Histogram, prometheus::Error> {
    gauge(
        registry,
        "notary_orders_database_connections",
        "Open connections to the database.",
        move || connections() as f64,
    )?;
    gauge(
        registry,
        "notary_orders_database_waiting_calls",
        "Calls that wait for a connection to the database.",
        move || waiting() as f64,
    )?;
    register_histogram_with_registry!(
        "notary_orders_batch_size",
        "Writing calls that were committed together.",
        prometheus::exponential_buckets(1.0, 2.0, 7)?,
        registry
    )
}

/// Registers the metrics of the file system of the data directory.
pub fn register_disk(registry: &Registry, data_dir: &Path) -> Result<(), prometheus::Error> {
    // Free blocks without those that only root may use.
    let (free, size) =
        (bytes(data_dir, |disk| disk.f_bavail), bytes(data_dir, |disk| disk.f_blocks));
    let help = "Free bytes in the file system of the data directory.";
    gauge(registry, "notary_orders_data_free_bytes", help, free)?;
    let help = "Size of the file system of the data directory.";
    gauge(registry, "notary_orders_data_size_bytes", help, size)
}

/// Returns what reads a number of blocks as bytes.
#[expect(clippy::cast_precision_loss, reason = "a gauge is approximate")]
fn bytes(folder: &Path, blocks: fn(&StatVfs) -> u64) -> impl Fn() -> f64 + Send + Sync + use<> {
    let folder = folder.to_owned();
    move || {
        let disk = rustix::fs::statvfs(&folder);
        disk.map_or(f64::NAN, |disk| blocks(&disk).saturating_mul(disk.f_frsize) as f64)
    }
}
