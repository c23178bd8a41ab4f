//! Who may send a request, from which address and how often, what its repeats mean, and the audit
//! entry that it leaves.

pub(crate) mod audit;
pub(crate) mod authentication;
pub(crate) mod cookie;
pub(crate) mod fingerprint;
pub(crate) mod idempotency_key;
pub(crate) mod limits;
pub(crate) mod peer;
pub(crate) mod preconditions;
pub(crate) mod rate_limit;
pub(crate) mod site;
