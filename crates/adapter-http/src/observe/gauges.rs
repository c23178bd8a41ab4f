//! Gauges of the API, read when an operator asks for the metrics.

use actix_web::web;
use prometheus::{PullingGauge, Registry};

use crate::state::Api;

/// Registers the gauges. Fails if a name is already registered.
#[expect(clippy::cast_precision_loss, reason = "these numbers are far below 2^53")]
pub fn register_gauges(registry: &Registry, api: &web::Data<Api>) -> Result<(), prometheus::Error> {
    let gauge = |name: &str, help: &str, read: fn(&Api) -> usize| {
        let api = api.clone();
        registry.register(Box::new(PullingGauge::new(
            name,
            help,
            Box::new(move || read(&api) as f64),
        )?))
    };
    gauge("notary_orders_open_connections", "Open connections to the API.", |api| {
        api.connections.open()
    })?;
    gauge("notary_orders_spool_bytes", "Bytes of uploads in progress on disk.", |api| {
        api.spool.used()
    })?;
    gauge(
        "notary_orders_accesses_waiting",
        "Accesses to orders that are not stored yet.",
        |api| api.admission.recorder.waiting(),
    )?;
    gauge(
        "notary_orders_orders_in_progress",
        "Orders that are being created, with documents also those that arrive.",
        |api| api.concurrency.used() + api.uploads.used(),
    )
}
