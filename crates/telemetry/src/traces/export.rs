//! The export of ended spans. The SDK queues them, and exports them on a thread of its own. A
//! collector that is slow or gone costs spans, and never holds up a request.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use domain::ports::error_chain;
use opentelemetry::Context;
use opentelemetry_otlp::{
    ExporterBuildError, RetryPolicy, SpanExporter as Otlp, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter, SpanProcessor},
};
use prometheus::{IntCounter, IntCounterVec};
use rustls::crypto::ring;

/// Counts ended spans.
#[derive(Debug)]
pub(super) struct Ended(pub(super) IntCounter);

impl SpanProcessor for Ended {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, _: SpanData) {
        self.0.inc();
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Exports batches, counts their spans, and logs when a collector fails and when it works again.
#[derive(Debug)]
pub(super) struct Exporter {
    otlp: Otlp,
    spans: IntCounterVec,
    is_failing: AtomicBool,
}

impl Exporter {
    pub(super) fn new(spans: &IntCounterVec) -> Result<Self, ExporterBuildError> {
        // The client of the exporter takes the default of the process. Another part may have set it.
        let _ = ring::default_provider().install_default();
        let otlp = Otlp::builder().with_http().with_retry_policy(RetryPolicy::default()).build()?;
        for outcome in ["exported", "failed"] {
            spans.with_label_values(&[outcome]);
        }
        Ok(Self { otlp, spans: spans.clone(), is_failing: AtomicBool::new(false) })
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let exported = self.otlp.export(batch).await;
        let outcome = if exported.is_ok() { "exported" } else { "failed" };
        self.spans.with_label_values(&[outcome]).inc_by(spans);
        match (&exported, self.is_failing.swap(exported.is_err(), Ordering::Relaxed)) {
            (Ok(()), true) => tracing::info!("spans are exported again"),
            (Err(error), false) => {
                tracing::warn!(error = error_chain(error), "spans cannot be exported");
            }
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.otlp.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}
