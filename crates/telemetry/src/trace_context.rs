//! The trace context (W3C Trace Context): of a client, of a span, and stored with an order.

use std::collections::HashMap;

use actix_web::http::header::HeaderMap;
use domain::trace_context::TraceContext;
use opentelemetry::{Context, propagation::TextMapPropagator as _, trace::TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Longest `tracestate` that is taken. The specification asks to propagate this much, and it is
/// stored with the order.
const MAX_TRACESTATE: usize = 512;

fn context(traceparent: &str, tracestate: Option<&str>) -> Option<Context> {
    let tracestate = tracestate.map(|state| (TRACESTATE.to_owned(), state.to_owned()));
    let parent = (TRACEPARENT.to_owned(), traceparent.to_owned());
    let headers: HashMap<_, _> = tracestate.into_iter().chain([parent]).collect();
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
    context.has_active_span().then_some(context)
}

/// Returns the context that a client has sent. Ignores one that is malformed or sent twice.
pub(crate) fn of_request(headers: &HeaderMap) -> Option<Context> {
    let only = |name| {
        let mut values = headers.get_all(name);
        values.next().filter(|_| values.next().is_none())?.to_str().ok()
    };
    context(only(TRACEPARENT)?, only(TRACESTATE).filter(|state| state.len() <= MAX_TRACESTATE))
}

/// Continues the stored trace of an order with a new span.
pub(crate) fn continue_with(span: &Span, trace: &TraceContext) {
    if let Some(parent) = context(&trace.traceparent, trace.tracestate.as_deref()) {
        // The layer is there.
        let _ = span.set_parent(parent);
    }
}

/// Returns the context of a span, if its trace is exported.
pub(crate) fn of_span(span: &Span) -> Option<TraceContext> {
    let context = span.context();
    if !context.span().span_context().is_sampled() {
        return None;
    }
    let mut headers = HashMap::new();
    TraceContextPropagator::new().inject_context(&context, &mut headers);
    let tracestate = headers.remove(TRACESTATE).filter(|state| !state.is_empty());
    Some(TraceContext { traceparent: headers.remove(TRACEPARENT)?, tracestate })
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    /// Returns the identifier of the trace, whether it is sampled, and its state.
    fn taken(headers: &[(&str, &str)]) -> Option<(String, bool, String)> {
        let request = headers.iter().fold(TestRequest::get(), |request, (name, value)| {
            request.append_header((*name, *value))
        });
        let context = of_request(request.to_http_request().headers())?;
        let span = context.span().span_context().clone();
        let state = span.trace_state().header();
        Some((span.trace_id().to_string(), span.is_sampled(), state))
    }

    #[test]
    fn trace_context_of_a_client_is_taken() {
        let state = ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
        for (flags, sampled) in [("00", false), ("01", true)] {
            let traceparent = format!("00-{TRACE}-b7ad6b7169203331-{flags}");
            let taken = taken(&[("traceparent", &traceparent), state]);
            assert_eq!(taken, Some((TRACE.to_owned(), sampled, state.1.to_owned())));
        }
    }

    #[test]
    fn malformed_trace_context_is_ignored() {
        let good = format!("00-{TRACE}-b7ad6b7169203331-01");
        for traceparent in [
            "",
            "00",
            &format!("ff-{TRACE}-b7ad6b7169203331-01"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("{good},{good}"),
        ] {
            assert_eq!(taken(&[("traceparent", traceparent)]), None, "{traceparent}");
        }
        assert_eq!(taken(&[("traceparent", &good), ("traceparent", &good)]), None);
        assert_eq!(taken(&[("tracestate", "a=b")]), None);
        let long = format!("a={}", "b".repeat(MAX_TRACESTATE));
        let without = taken(&[("traceparent", &good), ("tracestate", &long)]).unwrap();
        assert_eq!(without.2, "");
    }
}
