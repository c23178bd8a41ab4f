//! Gauges of the API, read when an operator asks for the metrics.

use actix_web::web;
use prometheus::{PullingGauge, Registry};

use crate::state::Api;

/// Registers the gauges. Fails if a name is already registered.
#[expect(clippy::cast_precision_loss, reason = "these numbers are far below 2^53")]
pub fn register_gauges(registry: &Registry, api: &web::Data<Api>) -> Result<(), prometheus::Error> {
    let connections = api.clone();
    registry.register(Box::new(PullingGauge::new(
        "notary_orders_open_connections",
        "Open connections to the API.",
        Box::new(move || connections.connections.open() as f64),
    )?))
}
