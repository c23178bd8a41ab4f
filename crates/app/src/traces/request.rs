//! Traces of requests.

use std::cell::Cell;

use actix_web::http::{Method, header::HeaderMap};
use adapter_http::{RequestTrace, TraceRequests, TracedAnswer};
use opentelemetry::{
    Context, KeyValue,
    trace::{SpanBuilder, SpanId, SpanKind, Status, TraceContextExt as _, TraceId, Tracer},
};
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, SamplingDecision, SdkTracer, ShouldSample as _, Span as SdkSpan,
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{REQUESTS, Traces, context};

/// The route of requests that have none.
const UNMATCHED: &str = "unmatched";

impl TraceRequests for Traces {
    fn begin(&self, request_id: &str, method: &Method, headers: &HeaderMap) -> RequestTrace {
        let client = context::of_request(headers);
        let trace_id = match &client {
            Some(context) => context.span().span_context().trace_id(),
            None => self.ids.new_trace_id(),
        };
        let sampling = self.sampler.should_sample(
            client.as_ref(),
            trace_id,
            method.as_str(),
            &SpanKind::Server,
            &[],
            &[],
        );
        let is_exported = sampling.decision == SamplingDecision::RecordAndSample;
        let is_known = is_exported || client.is_some();
        let id = is_known.then(|| trace_id.to_string());
        let span = match id.as_deref() {
            Some(id) if is_exported => {
                let span = tracing::error_span!(
                    target: REQUESTS, "request", request_id, trace_id = id
                );
                let parent = client.unwrap_or_default().with_value(RequestOf(trace_id));
                // The span is new, and the layer is there.
                let _ = span.set_parent(parent);
                span
            }
            Some(id) => tracing::error_span!("request", request_id, trace_id = id),
            None => tracing::error_span!("request", request_id),
        };
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
            span.set_attribute(KeyValue::new("error.type", problem.as_str()));
        }
        if answer.status.is_server_error() {
            span.set_status(Status::error(""));
        }
    }
}

/// Marks the context in which the span of a request begins.
struct RequestOf(TraceId);

thread_local! {
    /// The identifier of the trace that the next span begins.
    static NEXT_TRACE: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// Gives a trace the identifier by which it was sampled.
#[derive(Debug, Default)]
pub(super) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        NEXT_TRACE.take().unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        self.0.new_span_id()
    }
}

/// Begins the spans of requests as those of a server. A field of the span would say so too, and
/// stand in every log line of the request.
#[derive(Debug, Clone)]
pub(super) struct RequestTracer(pub(super) SdkTracer);

impl Tracer for RequestTracer {
    type Span = SdkSpan;

    fn build_with_context(&self, mut builder: SpanBuilder, parent: &Context) -> SdkSpan {
        // A step has the context of its request, in which the span of the request is active.
        let is_step = parent.has_active_span() && !parent.span().span_context().is_remote();
        let Some(RequestOf(trace_id)) = parent.get::<RequestOf>().filter(|_| !is_step) else {
            return self.0.build_with_context(builder, parent);
        };
        builder.span_kind = Some(SpanKind::Server);
        NEXT_TRACE.set(Some(*trace_id));
        let span = self.0.build_with_context(builder, parent);
        NEXT_TRACE.set(None);
        span
    }
}
