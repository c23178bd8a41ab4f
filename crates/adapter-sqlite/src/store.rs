//! The store, on which every port is implemented.

use std::{ops::RangeInclusive, path::Path, thread};

use group_commit::BatchObserver;

use crate::{
    database::{Database, OpenError},
    migrations::{self, MigrateError},
    worker::Worker,
};

/// Every storage port on one SQLite database file.
///
/// Dropping the store waits for the transactions in progress and leaves everything in the database
/// file itself, unless another process still has it open.
pub struct SqliteStore {
    /// Reads what background work, commands and authentication ask for.
    pub(crate) reader: Worker,
    /// Reads orders: a slow read does not hold up another.
    pub(crate) order_readers: Worker,
    pub(crate) writer: Worker,
}

/// Fewest and most threads that read orders. There is one for each core within these bounds.
const ORDER_READERS: RangeInclusive<usize> = 2..=8;

impl SqliteStore {
    /// Opens the database at `path`. Creates it if there is none, in a folder that must exist. Only
    /// the owner can read and write a new file.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let database = Database::at(path)?;
        Ok(Self {
            writer: Worker::writing(&database)?,
            reader: Worker::reading(&database, 1)?,
            order_readers: Worker::reading(&database, order_readers())?,
        })
    }

    /// Reports how many writing calls share each transaction.
    pub fn observe_batches(&self, observer: &BatchObserver) {
        self.writer.observe(observer.clone());
    }

    /// Returns the number of open connections for calls: one writes, and the others read. One more
    /// copies the write-ahead log.
    pub fn open_connections(&self) -> usize {
        [&self.reader, &self.order_readers, &self.writer].map(Worker::connections).iter().sum()
    }

    /// Returns the number of calls that wait for a connection.
    pub fn waiting_calls(&self) -> usize {
        [&self.reader, &self.order_readers, &self.writer].map(Worker::waiting).iter().sum()
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

fn order_readers() -> usize {
    let cores = thread::available_parallelism().map_or(1, Into::into);
    cores.clamp(*ORDER_READERS.start(), *ORDER_READERS.end())
}
