//! Every storage port on an embedded SQLite database.
//!
//! One thread owns the only connection that writes, and commits the calls that wait together. Others
//! have connections that read. Each call of a port is a transaction, or a savepoint of a shared one;
//! see `store::worker`. A call that writes returns when the disk has it. Several processes may share a
//! database file on a local disk.

mod backup;
mod claims;
mod database;
mod dialect;
mod export;
mod failure;
mod inspect;
mod mail_lease;
mod migrations;
mod orders;
#[path = "../../sql-rows/ports/mod.rs"]
mod ports;
mod store;
#[cfg(test)]
mod tests;
mod webhooks;

pub use backup::{BackupError, DatabaseCopy, Totals};
pub use database::{OpenError, rewrite};
pub use export::{EXPORTED_TABLES, ExportedPage};
pub use inspect::{InspectError, inspect};
pub use migrations::MigrateError;
pub use store::SqliteStore;
