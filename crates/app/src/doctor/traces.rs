//! The collector of traces, if the environment names one.

use std::sync::Arc;

use domain::ports::error_chain;

use super::finding::{Checked, Finding};
use crate::{settings::Settings, traces};

const CHECK: &str = "traces";

pub(super) async fn check(settings: Arc<Settings>) -> Checked {
    let probe = match traces::probe(&settings.environment) {
        Ok(Some(probe)) => probe,
        Ok(None) => return Ok(Vec::new()),
        Err(error) => {
            let advice = "Correct this variable; the service does not start with it";
            return Ok(vec![Finding::fail(CHECK, error_chain(error.as_ref()), advice)]);
        }
    };
    Ok(vec![match probe.run().await {
        Ok(()) => Finding::ok(CHECK, "the collector accepts spans"),
        // No order needs it.
        Err(cause) => Finding::warn(
            CHECK,
            format!("the collector accepts no spans, so there are no traces: {cause}"),
            "Start it, or correct OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_HEADERS",
        ),
    }])
}
