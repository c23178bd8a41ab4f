//! Who may send a request, how often, and what its repeats mean.

pub(crate) mod authentication;
pub(crate) mod fingerprint;
pub(crate) mod idempotency_key;
pub(crate) mod in_progress;
pub(crate) mod limits;
pub(crate) mod rate_limit;
