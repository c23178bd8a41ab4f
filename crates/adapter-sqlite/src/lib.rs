//! Every storage port on an embedded SQLite database.
//!
//! One thread owns the only connection that writes. Another copies the write-ahead log into the
//! database; see `checkpoints`. Others have connections that read, some of them only orders; see
//! `worker`. Each call of a port is one transaction. A call that writes returns when the disk has
//! the transaction. Several processes may share a database file on a local disk.

mod backup;
mod checkpoints;
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
