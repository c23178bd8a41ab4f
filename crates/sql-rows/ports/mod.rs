//! Ports and calls whose statements are the same on both databases.

pub(crate) mod add_documents;
pub(crate) mod admin;
mod endpoints;
pub(crate) mod erase;
mod idempotency;
pub(crate) mod key_use;
mod keys;
mod mails;
mod outbox;
pub(crate) mod pages;
pub(crate) mod read;
mod uploads;
pub(crate) mod webhook_lease;
mod webhook_settle;
pub(crate) mod webhooks;
