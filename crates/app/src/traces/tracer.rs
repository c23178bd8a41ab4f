//! The spans of requests: their kind, and the identifier of their trace.

use std::cell::Cell;

use opentelemetry::{
    Context,
    trace::{SpanBuilder, SpanId, SpanKind, TraceContextExt as _, TraceId, Tracer},
};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracer, Span as SdkSpan};

/// Marks the context in which the span of a request begins.
pub(super) struct RequestOf(pub(super) TraceId);

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
