//! Webhooks: the operations that manage endpoints and show their deliveries, and their records.

pub(crate) mod deliveries;
pub(crate) mod endpoint;
pub(crate) mod path;
pub(crate) mod problems;
pub(crate) mod record;
#[cfg(test)]
mod test_endpoint;
mod version;
