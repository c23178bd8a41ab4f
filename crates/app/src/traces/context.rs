//! The trace context (W3C Trace Context): of a client, of a span, and stored with an order.

use std::collections::HashMap;

use actix_web::http::header::HeaderMap;
use domain::trace_context::TraceContext;
use opentelemetry::{
    Context,
    propagation::{Extractor, TextMapPropagator as _},
    trace::TraceContextExt as _,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::is_traced;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Longest `tracestate` that is taken. The specification asks to propagate this much.
const MAX_TRACESTATE: usize = 512;

/// Lengths of the parts of `traceparent`: version, trace, span, flags.
const PARTS: [usize; 4] = [2, 32, 16, 2];

/// The two headers.
struct Headers<'a> {
    traceparent: &'a str,
    tracestate: Option<&'a str>,
}

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        if name == TRACEPARENT { Some(self.traceparent) } else { self.tracestate }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

impl Headers<'_> {
    fn context(&self) -> Option<Context> {
        let lengths = self.traceparent.split('-').map(str::len);
        if !lengths.take(PARTS.len()).eq(PARTS) {
            return None;
        }
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), self);
        context.has_active_span().then_some(context)
    }
}

/// Returns the context that a client has sent. Ignores one that is malformed or sent twice.
pub(super) fn of_request(headers: &HeaderMap) -> Option<Context> {
    let only = |name| {
        let mut values = headers.get_all(name);
        values.next().filter(|_| values.next().is_none())?.to_str().ok()
    };
    // Most requests have none.
    let traceparent = only(TRACEPARENT)?;
    let tracestate = only(TRACESTATE).filter(|state| state.len() <= MAX_TRACESTATE);
    Headers { traceparent, tracestate }.context()
}

/// Returns the context of a stored order.
pub(super) fn of_order(trace: &TraceContext) -> Option<Context> {
    let TraceContext { traceparent, tracestate } = trace;
    Headers { traceparent, tracestate: tracestate.as_deref() }.context()
}

/// Returns the context of a span, if its trace is exported.
pub(super) fn of_span(span: &Span) -> Option<TraceContext> {
    // Most spans are of requests that are not sampled.
    span.metadata().filter(|span| is_traced(span.target()))?;
    let context = span.context();
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
        for (flags, sampled) in [("00", false), ("01", true), ("03", true), ("02", false)] {
            let traceparent = format!("00-{TRACE}-b7ad6b7169203331-{flags}");
            let state = ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
            let taken = taken(&[("traceparent", &traceparent), state]);
            assert_eq!(taken, Some((TRACE.to_owned(), sampled, state.1.to_owned())));
        }
        let later = format!("cc-{TRACE}-b7ad6b7169203331-01-what-the-future-will-be-like");
        assert!(taken(&[("traceparent", &later)]).is_some());
    }

    #[test]
    fn malformed_trace_context_is_ignored() {
        let good = format!("00-{TRACE}-b7ad6b7169203331-01");
        for traceparent in [
            "",
            "00",
            &format!("ff-{TRACE}-b7ad6b7169203331-01"),
            &format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
            &format!("00-{}-b7ad6b7169203331-01", &TRACE[1..]),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("00-{TRACE}-b7ad6b716920333g-01"),
            &format!("{good}-more"),
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
