//! Traces, exported to an OpenTelemetry collector. Off unless the environment names one.
//!
//! | concept | module |
//! |---|---|
//! | the standard variables | `environment` |
//! | headers of the trace context | `context` |
//! | which requests have a trace, and what it has of their answers | `request` |
//! | the kind and the trace of the span of a request | `tracer` |
//! | the steps that are calls of ports | `ports` |
//! | the queue of ended spans, and its export | `export` |
//!
//! A request is sampled before any span of its trace exists. So one that is not sampled costs
//! little more than without traces (docs/adr/0031).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use adapter_http::STEPS;
use anyhow::{Context as _, Result};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{RandomIdGenerator, Sampler, SdkTracerProvider};
use prometheus::Registry;
use tracing::{Subscriber, subscriber::Interest};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::{
    Layer,
    filter::{dynamic_filter_fn, filter_fn},
    layer,
    registry::LookupSpan,
};

use self::{
    environment::Environment,
    export::{Counts, Probe},
    tracer::{Ids, RequestTracer},
};

mod context;
mod environment;
mod export;
pub(crate) mod ports;
mod request;
mod tracer;

/// Time limit for the export of the remaining spans when the service stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Target of the spans of requests. The log has them, too.
const REQUESTS: &str = "notary_orders::request";

/// Target of the spans of deliveries. It begins like that of steps, so the log leaves them out.
const DELIVERIES: &str = "trace::delivery";

/// The targets of all spans that can be in a trace.
pub(crate) const TARGETS: [&str; 3] = [REQUESTS, STEPS, DELIVERIES];

/// What an operator reads if the libraries reject a setting.
const WRONG_SETTINGS: &str = "traces cannot be exported with these settings";

/// Returns a probe of the collector, if the environment names one. Fails if a variable is wrong.
pub(crate) fn probe(variables: &BTreeMap<String, String>) -> Result<Option<Probe>> {
    let Some(environment) = Environment::read(variables)? else { return Ok(None) };
    Probe::new(&environment).context(WRONG_SETTINGS).map(Some)
}

/// The traces of this process.
pub struct Traces {
    provider: SdkTracerProvider,
    sampler: Sampler,
    ids: RandomIdGenerator,
    counts: Counts,
}

impl Traces {
    /// Starts the export if the environment names a collector. Fails if a variable is wrong.
    pub fn start(variables: &BTreeMap<String, String>) -> Result<Option<Arc<Self>>> {
        let Some(environment) = Environment::read(variables)? else { return Ok(None) };
        let counts = Counts::new()?;
        let processor = export::processor(&environment, counts.clone()).context(WRONG_SETTINGS)?;
        let provider = SdkTracerProvider::builder()
            // `Traces::begin` samples.
            .with_sampler(Sampler::AlwaysOn)
            .with_id_generator(Ids::default())
            .with_resource(environment::resource())
            .with_span_processor(processor)
            .build();
        let (sampler, ids) = (environment.sampler, RandomIdGenerator::default());
        Ok(Some(Arc::new(Self { provider, sampler, ids, counts })))
    }

    /// Exports the remaining spans, within a time limit.
    pub(crate) fn stop(&self) {
        if self.provider.shutdown_with_timeout(FLUSH_TIMEOUT).is_err() {
            tracing::warn!("the last spans were not exported: the collector did not take them");
        }
    }

    /// Registers the counters of spans.
    pub(crate) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        self.counts.register(registry)
    }

    /// Returns what turns spans of `tracing` into spans of a trace.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        OpenTelemetryLayer::new(RequestTracer(self.provider.tracer("notary-orders")))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(filter_fn(|span| is_traced(span.target())))
    }
}

/// Returns whether the spans of this target are in traces.
fn is_traced(target: &str) -> bool {
    TARGETS.contains(&target)
}

/// Disables the spans of steps outside traced requests. It stands before all layers, because a span
/// that any of them could want costs most of what it costs with all.
pub(crate) fn steps_of_traced_requests<S>() -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    dynamic_filter_fn(|span, context: &layer::Context<'_, S>| {
        let is_in_trace = || {
            let outer = context.lookup_current();
            outer.is_some_and(|outer| is_traced(outer.metadata().target()))
        };
        span.target() != STEPS || is_in_trace()
    })
    .with_callsite_filter(|span| match span.target() {
        STEPS => Interest::sometimes(),
        _ => Interest::always(),
    })
}
