//! Traces of requests. The application samples and exports them; this crate marks the steps.

use actix_web::http::{Method, StatusCode, header::HeaderMap};
pub use domain::trace_context::STEPS;
use tracing::Span;

/// Traces requests.
pub trait TraceRequests: Send + Sync {
    /// Returns the span of a request that begins. Its log lines have the fields of the span.
    fn begin(&self, request_id: &str, method: &Method, headers: &HeaderMap) -> RequestTrace;

    /// Notes the answer in a span whose trace is exported.
    fn answered(&self, span: &Span, answer: &TracedAnswer<'_>);
}

/// The trace of a request.
pub struct RequestTrace {
    /// The span of the request.
    pub span: Span,
    /// The identifier of the trace, if the client has sent one or the trace is exported.
    pub id: Option<String>,
    /// Whether the trace is exported.
    pub is_exported: bool,
}

/// The part of an answer that a trace records.
pub struct TracedAnswer<'a> {
    /// The method of the request, one of a closed set.
    pub method: &'a str,
    /// The pattern of the path.
    pub route: &'a str,
    /// The status.
    pub status: StatusCode,
    /// The stable name of the problem.
    pub problem: Option<&'static str>,
}
