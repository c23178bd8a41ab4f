//! Every storage port on an embedded SQLite database.
//!
//! One thread owns the only connection that writes, and commits the calls that wait together. Others
//! have connections that read. Each call of a port is a transaction, or a savepoint of a shared one;
//! see `worker`. A call that writes returns when the disk has it. Several processes may share a
//! database file on a local disk.

mod backup;
mod database;
mod export;
mod failure;
mod idempotency;
mod inspect;
mod keys;
mod migrations;
mod order_admin;
mod order_reader;
mod orders;
mod outbox;
mod pages;
mod queue;
mod store;
#[cfg(test)]
mod tests;
mod uploads;
mod webhook_queue;
mod webhooks;
mod worker;

pub use backup::{BackupError, CopiedDocument, DatabaseCopy, Totals};
pub use database::OpenError;
pub use export::{EXPORTED_TABLES, ExportedPage};
pub use inspect::{InspectError, inspect};
pub use migrations::MigrateError;
pub use order_admin::empty_log;
pub use store::SqliteStore;
pub use worker::BatchObserver;
