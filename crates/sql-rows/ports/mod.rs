//! Ports and calls whose statements are the same on both databases.

pub(crate) mod add_documents;
pub(crate) mod admin;
pub(crate) mod changes;
pub(crate) mod deliveries;
pub(crate) mod erase;
mod idempotency;
pub(crate) mod key_use;
mod keys;
pub(crate) mod pages;
pub(crate) mod read;
mod services;
mod uploads;
