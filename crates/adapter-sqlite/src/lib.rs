//! Every storage port on an embedded SQLite database.
//!
//! One thread owns the only connection that writes, another one a connection that reads; see
//! `worker`. Each call of a port is one transaction, and a call that writes has waited for the disk
//! when it returns. Several processes may share a database file on a local disk.

mod database;
mod failure;
mod idempotency;
mod keys;
mod migrations;
mod orders;
mod queue;
mod rows;
mod schema;
mod source;
#[cfg(test)]
mod tests;
mod uploads;
mod worker;

use std::{
    io,
    path::{Path, PathBuf},
};

use diesel::ConnectionError;

pub use migrations::MigrateError;

use crate::{
    database::{Access, Database},
    worker::Worker,
};

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be made or reached.
    #[error("the database file cannot be made or reached")]
    File(#[source] io::Error),
    /// There is no database, but the log of one, which may hold orders; a new database would
    /// overwrite it.
    #[error("{} is missing, but its write-ahead log is there: put the database back, or move the log away", .0.display())]
    LogWithoutDatabase(PathBuf),
    /// The file is no database, or is locked.
    #[error("the database cannot be opened")]
    Connection(#[from] ConnectionError),
    /// The system gives no thread.
    #[error("no thread for the database")]
    Thread(#[source] io::Error),
}

/// Every storage port on one SQLite database file.
///
/// Dropping it waits for the transactions that are under way, and leaves everything in the database
/// file itself unless another process still has it open.
pub struct SqliteStore {
    reader: Worker,
    writer: Worker,
}

impl SqliteStore {
    /// Opens the database at `path`; makes it if there is none, in a folder that must be there. A
    /// new file can be read and written by its owner only.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let database = Database::at(path)?;
        let writer = Worker::start(database.clone(), Access::Write)?;
        let reader = Worker::start(database, Access::Read)?;
        Ok(Self { reader, writer })
    }

    /// Brings the schema up to the version of the program, and answers how many migrations that
    /// took. To be called before the ports are used; any number of processes may do so at once.
    pub async fn migrate(&self) -> Result<usize, MigrateError> {
        self.writer.run(migrations::migrate).await
    }
}
