//! Webhooks: manage endpoints, attempt deliveries, watch those that fail.

pub mod manage_webhooks;
pub mod reencrypt_secrets;
pub mod run_webhooks;
pub mod watch_webhooks;
