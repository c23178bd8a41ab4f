//! The store, on which every port is implemented.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use async_trait::async_trait;
use diesel::{
    Expression, RunQueryDsl as _, Selectable, SelectableHelper as _,
    dsl::{AsSelect, sql},
    query_dsl::methods::{ExecuteDsl, LoadQuery, SelectDsl},
    sql_types::Nullable,
    sqlite::{Sqlite, SqliteConnection},
};
use domain::ports::{DatabaseTime, DatabaseTimes, StoreError};
use sql_rows::{BatchObserver, Instant, ObservedDatabase, Unreadable, Utc, instant::NEWEST_STORED};

use crate::{
    database::{Database, Mode, OpenError},
    failure::{Failure, LOCKED},
    limits::TimeLimits,
    migrations::{self, MigrateError},
};

mod worker;

use self::worker::Worker;

/// Threads of each kind that read: one slow read does not hold up the others.
const READERS: usize = 2;

/// Returns the columns of a row. `R::as_select()` leaves the database open, and the compiler tries both for each
/// column.
pub(crate) fn columns<R: Selectable<Sqlite>>() -> AsSelect<R, Sqlite> {
    R::as_select()
}

/// Every storage port on one SQLite database file.
///
/// Dropping the store waits for the transactions in progress and leaves everything in the database
/// file itself, unless another process still has it open.
pub struct SqliteStore {
    /// Read what clients ask for. However slow that is, it holds up no authentication and no mail.
    pub(crate) order_readers: Worker,
    pub(crate) readers: Worker,
    pub(crate) writer: Worker,
    /// Beside the database. A running service has locked it.
    service_lock: PathBuf,
    service: OnceLock<File>,
    pub(crate) database: Database,
}

impl SqliteStore {
    /// Opens the database at `path`. Creates it if there is none, in a folder that must exist. Only
    /// the owner can read and write a new file.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, limits: TimeLimits) -> Result<Self, OpenError> {
        Self::on(Database::at(path, Some(limits))?)
    }

    /// Opens the database like [`Self::open`], for the commands of operators. Their calls have no
    /// time limit, and wait for a rewrite or a migration of another process.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_patiently(path: &Path) -> Result<Self, OpenError> {
        Self::on(Database::at(path, None)?)
    }

    fn on(database: Database) -> Result<Self, OpenError> {
        Ok(Self {
            service_lock: database.beside("-service"),
            service: OnceLock::new(),
            writer: Worker::start(&database, Mode::Write, 1)?,
            order_readers: Worker::start(&database, Mode::Read, READERS)?,
            readers: Worker::start(&database, Mode::Read, READERS)?,
            database,
        })
    }

    /// Brings the schema up to the version of the program and returns how many migrations that
    /// took. Must run before the ports are used. Any number of processes may do so at once: one
    /// migrates, however long that takes, and the others wait.
    ///
    /// # Errors
    /// See [`MigrateError`]. The database is unchanged then.
    pub async fn migrate(&self) -> Result<usize, MigrateError> {
        while !self.readers.maintain(migrations::missing).await?.is_empty() {
            match self.writer.maintain(migrations::migrate).await {
                // Another process migrates.
                Err(MigrateError::Failed(cause)) if cause.to_string() == LOCKED => {}
                migrated => return migrated,
            }
        }
        Ok(0)
    }

    /// Returns whether this store is that of the only service on the database, from now on. The system gives the
    /// lock back when the process ends, whatever the reason. Closing a file drops the locks that SQLite holds on the
    /// database in this process, so this is another file.
    pub(crate) fn is_of_the_only_service(&self) -> bool {
        if self.service.get().is_some() {
            return true;
        }
        let mut open = OpenOptions::new();
        open.write(true).create(true).truncate(false).mode(0o600);
        match open.open(&self.service_lock) {
            Ok(file) => file.try_lock().is_ok() && self.service.set(file).is_ok(),
            // Nothing is certain then.
            Err(_) => false,
        }
    }

    /// Runs a call that reads. All it reads is of one instant.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut SqliteConnection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.readers.run(call).await?)
    }

    /// Runs a call that reads what a client asks for.
    pub(crate) async fn read_orders<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut SqliteConnection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.order_readers.run(call).await?)
    }

    /// Runs a call that writes. It is durable when this returns `Ok`, and undone otherwise.
    pub(crate) async fn transaction<T: Send + 'static, E: From<Failure>>(
        &self,
        call: impl FnOnce(&mut SqliteConnection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, E> {
        Ok(self.writer.run(call).await?)
    }

    /// Runs a call like [`Self::transaction`], without a time limit.
    pub(crate) async fn maintain<T: Send + 'static, E: From<Failure>>(
        &self,
        call: impl FnOnce(&mut SqliteConnection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, E> {
        Ok(self.writer.maintain(call).await?)
    }

    /// Runs a call like [`Self::read`], without a time limit.
    pub(crate) async fn survey<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut SqliteConnection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.readers.maintain(call).await?)
    }

    /// Runs a query, and returns what its rows mean.
    pub(crate) async fn select<Q, R, T>(
        &self,
        query: Q,
        meaning: fn(R) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, StoreError>
    where
        AsSelect<R, Sqlite>: Expression,
        Q: SelectDsl<AsSelect<R, Sqlite>>,
        Q::Output: LoadQuery<'static, SqliteConnection, R> + Send + 'static,
        R: Selectable<Sqlite> + 'static,
        T: Send + 'static,
    {
        let query = SelectDsl::select(query, columns::<R>());
        let load = move |connection: &mut SqliteConnection| {
            let rows = query.load(connection)?.into_iter();
            Ok(rows.map(meaning).collect::<Result<_, _>>()?)
        };
        self.read(load).await
    }

    /// Runs a statement like [`Self::transaction`], and returns how many rows it changed.
    pub(crate) async fn execute<Q>(&self, statement: Q) -> Result<usize, StoreError>
    where
        Q: ExecuteDsl<SqliteConnection> + Send + 'static,
    {
        self.transaction(move |connection| Ok(ExecuteDsl::execute(statement, connection)?)).await
    }
}

#[async_trait]
impl DatabaseTime for SqliteStore {
    async fn times(&self) -> Result<DatabaseTimes, StoreError> {
        let newest = |connection: &mut SqliteConnection| {
            let newest: Option<Utc> =
                sql::<Nullable<Instant>>(NEWEST_STORED).get_result(connection)?;
            Ok(DatabaseTimes { now: None, newest: newest.map(|at| at.0) })
        };
        self.read(newest).await
    }
}

impl ObservedDatabase for SqliteStore {
    fn observe_batches(&self, observer: BatchObserver) {
        self.writer.observe(observer);
    }

    fn open_connections(&self) -> usize {
        1 + 2 * READERS
    }

    fn walks(&self) -> usize {
        READERS - 1
    }

    fn waiting_calls(&self) -> usize {
        [&self.writer, &self.order_readers, &self.readers].map(Worker::waiting).iter().sum()
    }
}
