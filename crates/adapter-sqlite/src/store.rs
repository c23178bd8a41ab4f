//! The store, on which every port is implemented.

use std::path::Path;

use group_commit::BatchObserver;

use crate::{
    database::{Access, Database, OpenError},
    migrations::{self, MigrateError},
    worker::Worker,
};

/// Every storage port on one SQLite database file.
///
/// Dropping the store waits for the transactions in progress and leaves everything in the database
/// file itself, unless another process still has it open.
pub struct SqliteStore {
    pub(crate) reader: Worker,
    pub(crate) writer: Worker,
}

impl SqliteStore {
    /// Opens the database at `path`. Creates it if there is none, in a folder that must exist. Only
    /// the owner can read and write a new file.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let database = Database::at(path)?;
        let writer = Worker::start(database.clone(), Access::Write)?;
        let reader = Worker::start(database, Access::Read)?;
        Ok(Self { reader, writer })
    }

    /// Reports how many writing calls share each transaction.
    pub fn observe_batches(&self, observer: &BatchObserver) {
        self.writer.observe(observer.clone());
    }

    /// Returns the number of open connections: one reads, and one writes.
    pub fn open_connections(&self) -> usize {
        2
    }

    /// Returns the number of calls that wait for a connection.
    pub fn waiting_calls(&self) -> usize {
        self.reader.waiting() + self.writer.waiting()
    }

    /// Brings the schema up to the version of the program and returns how many migrations that
    /// took. Must run before the ports are used. Any number of processes may do so at once.
    ///
    /// # Errors
    /// See [`MigrateError`]. The database is unchanged then.
    pub async fn migrate(&self) -> Result<usize, MigrateError> {
        self.writer.run(migrations::migrate).await
    }
}
