//! Traces of requests.

use actix_web::http::{Method, header::HeaderMap};
use adapter_http::{RequestTrace, TraceRequests, TracedAnswer};
use opentelemetry::{
    KeyValue,
    trace::{SpanKind, Status, TraceContextExt as _},
};
use opentelemetry_sdk::trace::{IdGenerator as _, SamplingDecision, ShouldSample as _};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{REQUESTS, Traces, context, tracer::RequestOf};

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
