//! Who may send a request, from which address and how often, and what its repeats mean.

pub(crate) mod authentication;
pub(crate) mod fingerprint;
pub(crate) mod idempotency_key;
pub(crate) mod limits;
pub(crate) mod peer;
pub(crate) mod rate_limit;
