//! Every storage port on an embedded SQLite database.
//!
//! One thread owns the only connection that writes, and commits the calls that wait together. Others
//! have connections that read. Each call of a port is a transaction, or a savepoint of a shared one;
//! see `worker`. A call that writes returns when the disk has it. Several processes may share a
//! database file on a local disk.

mod backup;
mod claims;
mod database;
mod deliveries;
mod dialect;
mod export;
mod failure;
#[path = "../../sql-rows/ports/idempotency.rs"]
mod idempotency;
mod inspect;
#[path = "../../sql-rows/ports/key_use.rs"]
mod key_use;
#[path = "../../sql-rows/ports/keys.rs"]
mod keys;
mod migrations;
mod orders;
mod store;
#[cfg(test)]
mod tests;
#[path = "../../sql-rows/ports/uploads.rs"]
mod uploads;
mod worker;

pub use backup::{BackupError, CopiedDocument, DatabaseCopy, Totals};
pub use database::{OpenError, empty_log};
pub use export::{EXPORTED_TABLES, ExportedPage};
pub use inspect::{InspectError, inspect};
pub use migrations::MigrateError;
pub use store::SqliteStore;
