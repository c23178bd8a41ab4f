//! Events, the mails and webhooks that follow them, and the endpoints of webhooks.

mod endpoints;
mod mails;
mod outbox;
mod webhook_lease;
mod webhook_settle;
mod webhooks;
