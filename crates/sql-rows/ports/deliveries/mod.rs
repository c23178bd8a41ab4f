//! Events, mails and webhooks.

mod endpoints;
mod mails;
mod outbox;
pub(crate) mod webhook_lease;
mod webhook_settle;
pub(crate) mod webhooks;
