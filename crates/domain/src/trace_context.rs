//! The trace context of a request, as W3C Trace Context writes it.

use serde::{Deserialize, Serialize};

/// Target of the spans of steps. They exist only in a request whose trace is exported, and the log
/// leaves them out.
pub const STEPS: &str = "trace";

/// Continues the trace of a request in the deliveries that follow it, and at the receivers of its
/// webhooks. The `serde` names are those of the stored record of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// The header `traceparent`.
    #[serde(rename = "parent")]
    pub traceparent: String,
    /// The header `tracestate`, which the client may have sent.
    #[serde(rename = "state", default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}
