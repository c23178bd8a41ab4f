//! The parts that all handlers share: the identifier of a request, notes for its log line, spans
//! and counters. Uses no other module of this crate.

pub(crate) mod id;
pub(crate) mod metrics;
pub(crate) mod notes;
pub(crate) mod trace;
