//! The database file and how it is opened.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf, absolute},
    thread,
    time::{Duration, Instant},
};

use diesel::{
    Connection as _, ConnectionError, ConnectionResult, QueryResult, RunQueryDsl as _,
    connection::SimpleConnection as _, dsl::sql, sql_types::Integer, sqlite::SqliteConnection,
};

use crate::{
    failure::Failure,
    limits::{TimeLimits, wait_for_locks},
};

/// `synchronous = FULL` makes a commit wait for the disk; macOS needs `fullfsync` for it.
/// A commit copies the log into the database when the log has 4,000 pages (16 MiB), and the next one
/// begins the log anew. Neither waits for reads: behind a long read, or ever new ones, the log grows
/// until [`Database::begin_log_anew`] waits for them. `journal_size_limit` then shrinks it to
/// [`LARGE_LOG`].
/// The cache of each connection has 4 MB. The default of 2 MB does not hold the indexes of a busy day. A commit
/// that has split a page looks through the whole cache: with 8 MB, an order takes a tenth more processor time.
/// `secure_delete` overwrites deleted rows with zeros. See [`rewrite`] for what it leaves.
const SETTINGS: &str = "PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA wal_autocheckpoint = 4000;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA secure_delete = ON;
    PRAGMA foreign_keys = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -4000;";

/// The longest wait for a lock of a connection without limits.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Size in bytes of a log that is too large.
const LARGE_LOG: u64 = 67_108_864;

/// The reason why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be created or reached.
    #[error("the database file cannot be created or reached")]
    File(#[source] io::Error),
    /// The write-ahead log exists without its database. The log may hold orders, and a new
    /// database would overwrite it.
    #[error(
        "{} is missing, but its write-ahead log exists: restore the database, or move the log away",
        .0.display()
    )]
    LogWithoutDatabase(PathBuf),
    /// The file has other content.
    #[error("the file is not a database")]
    NotADatabase,
    /// The database is damaged or locked.
    #[error("the database cannot be opened")]
    Connection(#[source] ConnectionError),
    /// The system does not start a thread.
    #[error("the thread of the database cannot be started")]
    Thread(#[source] io::Error),
}

impl From<ConnectionError> for OpenError {
    /// diesel hides SQLite's code for a file with other content, so this compares the text that SQLite has for
    /// it in every language. Reading the file instead would be no way: closing it drops all locks that SQLite
    /// holds on it in this process (<https://www.sqlite.org/howtocorrupt.html>, section 2.2).
    fn from(error: ConnectionError) -> Self {
        let root = match &error {
            ConnectionError::CouldntSetupConfiguration(cause) => cause.to_string(),
            error => error.to_string(),
        };
        if root == "file is not a database" { Self::NotADatabase } else { Self::Connection(error) }
    }
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
}

impl Mode {
    /// Returns the statement that begins a transaction. A writer takes the write lock at once,
    /// because a transaction that has read cannot wait for it.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::Read => "BEGIN",
            Self::Write => "BEGIN IMMEDIATE",
        }
    }
}

/// The path of the database, and the identity of its file when it was opened.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    path: PathBuf,
    file: (u64, u64),
    /// `None` waits as long as other processes hold locks: a migration or a rewrite may take long.
    pub(crate) limits: Option<TimeLimits>,
}

impl Database {
    /// Finds the database, or creates an empty one that only its owner can read.
    pub(crate) fn at(path: &Path, limits: Option<TimeLimits>) -> Result<Self, OpenError> {
        // A relative path depends on the working directory. An absolute path also keeps SQLite from
        // interpreting `:memory:` and `file:…`.
        let path = absolute(path).map_err(OpenError::File)?;
        if !path.try_exists().map_err(OpenError::File)? {
            create(&path)?;
        }
        let file = identity(&path).map_err(OpenError::File)?;
        Ok(Self { path, file, limits })
    }

    /// Returns the path of a file beside the database.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    pub(crate) fn connect(&self, mode: Mode) -> ConnectionResult<SqliteConnection> {
        let mut connection = establish(&self.path)?;
        let lock = self.limits.map(|limits| limits.lock);
        // The switch to WAL waits for other processes, too, but never for long.
        let setup = lock.unwrap_or_else(|| TimeLimits::default().lock);
        let (setup, wait) = (wait_for_locks(setup), wait_for_locks(lock.unwrap_or(PATIENCE)));
        let set = connection.batch_execute(&format!("{setup}{SETTINGS}{wait}"));
        let set = set.and_then(|()| match mode {
            Mode::Read => connection.batch_execute("PRAGMA query_only = ON"),
            Mode::Write => Ok(()),
        });
        set.map_err(ConnectionError::CouldntSetupConfiguration)?;
        Ok(connection)
    }

    /// Connects again. Fails if the file is another one or missing: SQLite would create an empty
    /// database.
    pub(crate) fn reconnect(&self, mode: Mode) -> Result<SqliteConnection, Failure> {
        self.check_file()?;
        Ok(self.connect(mode)?)
    }

    /// Waits shortly for reads of older states, so that the next commit begins a large log
    /// anew. Behind a longer read, does so only each time the log has grown as much again: `tried`
    /// keeps its size at the last attempt.
    pub(crate) fn begin_log_anew(&self, connection: &mut SqliteConnection, tried: &mut u64) {
        let size = fs::metadata(log_of(&self.path)).map_or(0, |log| log.len());
        let Some(limits) = self.limits.filter(|_| size > LARGE_LOG) else {
            *tried = 0;
            return;
        };
        if size > tried.saturating_add(LARGE_LOG) {
            *tried = size;
            let shortly = wait_for_locks(limits.log);
            // A failure loses nothing: the log stays as it is.
            let _ = connection.batch_execute(&format!("{shortly} PRAGMA wal_checkpoint(RESTART)"));
            let _ = connection.batch_execute(&wait_for_locks(limits.lock));
        }
    }

    /// Checks that the path still names the file that was opened. An open connection goes on
    /// writing to a removed file, and those orders would be lost.
    pub(crate) fn check_file(&self) -> Result<(), Failure> {
        match identity(&self.path) {
            Ok(file) if file == self.file => Ok(()),
            _ => Err(Failure::Moved(self.path.display().to_string())),
        }
    }

    /// Describes the file by its number and its birth, which stay with it: a restored or copied file has
    /// others, also at the same path. Its device is left out, because the number of a disk may change. Not every file
    /// system knows the birth.
    pub(crate) fn describe_file(&self) -> Result<String, Failure> {
        self.check_file()?;
        let born = birth(&self.path).map_or_else(String::new, |at| format!(", born at {at}"));
        Ok(format!("SQLite file {}{born}", self.file.1))
    }
}

pub(crate) fn establish(path: &Path) -> ConnectionResult<SqliteConnection> {
    let path = path
        .to_str()
        .ok_or_else(|| ConnectionError::InvalidConnectionUrl("the path is not UTF-8".to_owned()))?;
    SqliteConnection::establish(path)
}

/// Creates the database under another name and renames it when it is complete: SQLite does not
/// wait, but fails, when several processes switch one database to WAL.
fn create(path: &Path) -> Result<(), OpenError> {
    let directory =
        path.parent().ok_or_else(|| OpenError::File(io::ErrorKind::InvalidInput.into()))?;
    let new = tempfile::Builder::new()
        .prefix(".new-database")
        .tempfile_in(directory)
        .map_err(OpenError::File)?
        .into_temp_path();
    let switched = establish(&new)?.batch_execute("PRAGMA journal_mode = WAL");
    switched.map_err(ConnectionError::CouldntSetupConfiguration)?;

    // Another process may have created the database meanwhile; the log belongs to it then.
    check_log(path)?;
    match new.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
            Err(OpenError::File(error.error))
        }
        _ => Ok(()),
    }
}

/// Checks that a missing database has no write-ahead log.
pub(crate) fn check_log(path: &Path) -> Result<(), OpenError> {
    if log_of(path).exists() && !path.exists() {
        return Err(OpenError::LogWithoutDatabase(path.to_owned()));
    }
    Ok(())
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Time for attempts to empty the log. SQLite waits as long for a reader, but not for a commit that
/// copies the log.
const EMPTYING_TIME: Duration = Duration::from_secs(3);

/// The outcome of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrite {
    /// Nothing: nothing was erased since the last one.
    NotDue,
    /// The files have nothing of what was erased.
    Done,
    /// A process kept the log in use. The next call rewrites the database again.
    LogInUse,
}

/// Returns the mark of erasures, `user_version`. It is odd after an erasure, and even after a rewrite. It only
/// increases, so that an erasure beside a rewrite is seen.
fn erasure_mark(connection: &mut SqliteConnection) -> QueryResult<i32> {
    sql::<Integer>("PRAGMA user_version").get_result(connection)
}

fn set_erasure_mark(connection: &mut SqliteConnection, mark: i32) -> QueryResult<()> {
    connection.batch_execute(&format!("PRAGMA user_version = {mark}"))
}

/// Marks the database, so that it is rewritten. The transaction of an erasure does so.
pub(crate) fn mark_erasure(connection: &mut SqliteConnection) -> QueryResult<()> {
    let mark = erasure_mark(connection)?;
    set_erasure_mark(connection, mark.wrapping_add(1) | 1)
}

/// Removes the mark with which a rewrite began. An erasure since then has set another one, which stays.
fn remove_erasure_mark(connection: &mut SqliteConnection, mark: i32) -> QueryResult<()> {
    connection.immediate_transaction(|connection| {
        if erasure_mark(connection)? == mark {
            set_erasure_mark(connection, mark.wrapping_add(1))?;
        }
        Ok(())
    })
}

/// Rewrites the database at `path` and empties its write-ahead log, so that neither has anything of
/// orders and people that were erased: pages keep bytes of rows that SQLite has moved to another page, and
/// `secure_delete` does not overwrite them. Does nothing if nothing was erased since the last time.
/// Other processes may read meanwhile; their writes fail if the rewrite takes longer than they wait
/// for a lock. If one of them keeps the log in use for some seconds, nothing is lost.
///
/// Blocks for as long as other processes hold the lock and the disk needs.
///
/// # Errors
/// The database cannot be opened, or the disk has no space for a second copy of it.
pub fn rewrite(path: &Path) -> Result<Rewrite, OpenError> {
    rewrite_within(path, EMPTYING_TIME)
}

/// Rewrites like [`rewrite`], with a time of its own for attempts to empty the log.
pub(crate) fn rewrite_within(path: &Path, emptying: Duration) -> Result<Rewrite, OpenError> {
    let failed = ConnectionError::CouldntSetupConfiguration;
    let mut connection = Database::at(path, None)?.connect(Mode::Write)?;
    let mark = erasure_mark(&mut connection).map_err(failed)?;
    if mark % 2 == 0 {
        return Ok(Rewrite::NotDue);
    }
    connection.batch_execute("VACUUM; PRAGMA busy_timeout = 3000").map_err(failed)?;
    let end = Instant::now() + emptying;
    loop {
        let checkpoint = sql::<(Integer, Integer, Integer)>("PRAGMA wal_checkpoint(TRUNCATE)");
        let (busy, ..): (i32, i32, i32) = checkpoint.get_result(&mut connection).map_err(failed)?;
        if busy == 0 {
            remove_erasure_mark(&mut connection, mark).map_err(failed)?;
            return Ok(Rewrite::Done);
        }
        if Instant::now() >= end {
            return Ok(Rewrite::LogInUse);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the device and the number of a file, which identify it whatever its path.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Returns when a file was created, in seconds since 1970, if the file system knows. The standard library
/// asks only with some C libraries.
#[cfg(target_os = "linux")]
fn birth(path: &Path) -> Option<String> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let file = statx(CWD, path, AtFlags::empty(), StatxFlags::BTIME).ok()?;
    let is_known = file.stx_mask & StatxFlags::BTIME.bits() != 0;
    let born = (file.stx_btime.tv_sec, file.stx_btime.tv_nsec);
    // Some file systems have 1970 in place of what they do not know.
    (is_known && born != (0, 0)).then(|| format!("{}.{:09}", born.0, born.1))
}

#[cfg(not(target_os = "linux"))]
fn birth(path: &Path) -> Option<String> {
    let created = fs::metadata(path).ok()?.created().ok()?;
    let since = created.duration_since(std::time::UNIX_EPOCH).ok()?;
    (!since.is_zero()).then(|| format!("{}.{:09}", since.as_secs(), since.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn erasure_beside_a_rewrite_keeps_its_mark() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("orders.db");
        let mut connection = Database::at(&path, None).unwrap().connect(Mode::Write).unwrap();
        for version in [0, 1, i32::MAX - 2, i32::MAX] {
            set_erasure_mark(&mut connection, version).unwrap();
            mark_erasure(&mut connection).unwrap();
            let mark = erasure_mark(&mut connection).unwrap();
            mark_erasure(&mut connection).unwrap();
            remove_erasure_mark(&mut connection, mark).unwrap();
            assert_eq!(rewrite(&path).unwrap(), Rewrite::Done, "{version}");
            // An erasure after another rewrite.
            mark_erasure(&mut connection).unwrap();
            remove_erasure_mark(&mut connection, mark).unwrap();
            assert_eq!(rewrite(&path).unwrap(), Rewrite::Done, "{version}");
            assert_eq!(rewrite(&path).unwrap(), Rewrite::NotDue, "{version}");
        }
    }
}
