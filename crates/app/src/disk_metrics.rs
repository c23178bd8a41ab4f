//! Metrics of the disk on which uploads arrive.

use std::path::Path;

use prometheus::{PullingGauge, Registry};
use rustix::fs::StatVfs;

/// Registers the metrics.
pub(crate) fn register(registry: &Registry, data_dir: &Path) -> Result<(), prometheus::Error> {
    let gauge = |name: &str, help: &str, blocks: fn(&StatVfs) -> u64| {
        let data_dir = data_dir.to_owned();
        let gauge = PullingGauge::new(name, help, Box::new(move || bytes(&data_dir, blocks)))?;
        registry.register(Box::new(gauge))
    };
    gauge(
        "notary_orders_data_free_bytes",
        "Free bytes in the file system of the data directory.",
        // Without those that only root may use.
        |disk| disk.f_bavail,
    )?;
    gauge(
        "notary_orders_data_size_bytes",
        "Size of the file system of the data directory.",
        |disk| disk.f_blocks,
    )
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is approximate")]
fn bytes(folder: &Path, blocks: fn(&StatVfs) -> u64) -> f64 {
    let disk = rustix::fs::statvfs(folder);
    disk.map_or(f64::NAN, |disk| blocks(&disk).saturating_mul(disk.f_frsize) as f64)
}
