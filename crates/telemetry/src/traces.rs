//! Traces, exported to an OpenTelemetry collector. Off unless the environment names one.
//!
//! The libraries read the standard variables, sample and export (docs/adr/0031).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use actix_web::http::{Method, header::HeaderMap};
use adapter_http::{RequestTrace, TraceRequests, TracedAnswer};
use domain::{ports::error_chain, trace_context::STEPS};
use opentelemetry::{
    KeyValue,
    trace::{Status, TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use prometheus::{IntCounterVec, Opts, Registry};
use tracing::{Span, Subscriber, field::Empty};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::trace_context;

mod export;

/// Time limit for the export of the remaining spans when the service stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Target of the spans of requests. The log has them, too.
const REQUESTS: &str = "notary_orders::request";

/// Target of the spans of deliveries. It begins like that of steps, so the log leaves them out.
pub(crate) const DELIVERIES: &str = "trace::delivery";

/// The route of requests that have none.
const UNMATCHED: &str = "unmatched";

/// The libraries cannot export with the variables of the environment.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be exported with the variables OTEL_…: {0}")]
pub struct WrongVariable(String);

/// The traces of this process.
pub struct Traces {
    provider: SdkTracerProvider,
    spans: IntCounterVec,
}

impl Traces {
    /// Starts the export if the environment names a collector. Fails if the libraries
    /// reject a variable.
    pub fn start(variables: &BTreeMap<String, String>) -> Result<Option<Arc<Self>>, WrongVariable> {
        if !names_collector(variables) {
            return Ok(None);
        }
        let spans = IntCounterVec::new(
            Opts::new(
                "notary_orders_trace_spans_total",
                "Spans, by outcome: ended; exported; or failed, because the collector did not take \
                 them. The others wait, or were dropped because too many waited.",
            ),
            &["outcome"],
        )
        .map_err(|error| WrongVariable(error.to_string()))?;
        let exporter = export::Exporter::new(&spans);
        let exporter = exporter.map_err(|error| WrongVariable(error_chain(&error)))?;
        let name = variables.get("OTEL_SERVICE_NAME").map_or("", |name| name.trim());
        let resource = Resource::builder()
            .with_service_name(if name.is_empty() { "notary-orders" } else { name }.to_owned())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(export::Ended(spans.with_label_values(&["ended"])))
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Arc::new(Self { provider, spans })))
    }

    /// Exports the remaining spans, within a time limit.
    pub fn stop(&self) {
        if self.provider.shutdown_with_timeout(FLUSH_TIMEOUT).is_err() {
            tracing::warn!("the last spans were not exported: the collector did not take them");
        }
    }

    /// Registers the counters of spans.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.spans.clone()))
    }

    /// Returns what turns spans of `tracing` into spans of a trace.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        OpenTelemetryLayer::new(self.provider.tracer("notary-orders"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(filter_fn(|span| [REQUESTS, STEPS, DELIVERIES].contains(&span.target())))
    }
}

impl TraceRequests for Traces {
    fn begin(&self, request_id: &str, _method: &Method, headers: &HeaderMap) -> RequestTrace {
        let client = trace_context::of_request(headers);
        let is_known = client.is_some();
        let span = tracing::error_span!(
            target: REQUESTS, "request", request_id, trace_id = Empty, otel.kind = "server"
        );
        if let Some(client) = client {
            // The span is new, and the layer is there.
            let _ = span.set_parent(client);
        }
        // Begins the span, which decides whether it is sampled.
        let context = span.context();
        let begun = context.span().span_context().clone();
        let is_exported = begun.is_sampled();
        let id = (is_known || is_exported).then(|| begun.trace_id().to_string());
        span.record("trace_id", id.as_deref());
        RequestTrace { span, id, is_exported }
    }

    fn answered(&self, span: &Span, answer: &TracedAnswer<'_>) {
        let context = span.context();
        let span = context.span();
        // The name of the semantic conventions for any other method.
        let method = if answer.method == "OTHER" { "_OTHER" } else { answer.method };
        span.set_attribute(KeyValue::new("http.request.method", method.to_owned()));
        if answer.route == UNMATCHED {
            span.update_name(method.to_owned());
        } else {
            span.update_name(format!("{method} {}", answer.route));
            span.set_attribute(KeyValue::new("http.route", answer.route.to_owned()));
        }
        let status = i64::from(answer.status.as_u16());
        span.set_attribute(KeyValue::new("http.response.status_code", status));
        if let Some(problem) = answer.problem {
            span.set_attribute(KeyValue::new("error.type", problem));
        }
        if answer.status.is_server_error() {
            span.set_status(Status::error(""));
        }
    }
}

/// Returns whether the variables name a collector, and do not turn traces off.
fn names_collector(variables: &BTreeMap<String, String>) -> bool {
    let get = |name: &str| variables.get(name).map_or("", |value| value.trim());
    let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    let is_off = get("OTEL_SDK_DISABLED").eq_ignore_ascii_case("true")
        || get("OTEL_TRACES_EXPORTER") == "none";
    !is_off && names.iter().any(|name| !get(name).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLLECTOR: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn traces_are_off_without_a_collector() {
        let read = |variables: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            names_collector(&variables.iter().map(owned).collect())
        };
        for variables in [
            &[][..],
            &[(COLLECTOR.0, " ")],
            &[("OTEL_TRACES_SAMPLER", "nonsense")],
            &[COLLECTOR, ("OTEL_SDK_DISABLED", "TRUE")],
            &[COLLECTOR, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert!(!read(variables), "{variables:?}");
        }
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector.example/v1/traces");
        assert!(read(&[own, ("OTEL_SDK_DISABLED", "false")]));
        assert!(read(&[COLLECTOR]));
    }
}
