//! Every storage port on an embedded SQLite database.
//!
//! One thread owns the only connection that writes, and commits the calls that wait together. Others
//! have connections that read. Each call of a port is a transaction, or a savepoint of a shared one;
//! see `store::worker`. A call that writes returns when the disk has it. Several processes may share a
//! database file on a local disk.

mod accesses;
mod backup;
mod database;
mod deliveries;
mod export;
mod failure;
mod inspect;
mod installation;
mod limits;
mod migrations;
mod orders;
mod parties;
mod store;
#[cfg(test)]
mod tests;
mod webhooks;

pub use backup::{BackupError, CopiedDocument, DatabaseCopy, Totals};
pub use database::{OpenError, Rewrite, rewrite};
pub use export::{EXPORTED_TABLES, Export, ExportError, ExportedPage};
pub use inspect::{InspectError, inspect};
pub use limits::TimeLimits;
pub use migrations::MigrateError;
pub use store::SqliteStore;
