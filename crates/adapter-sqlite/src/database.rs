//! The database file and how it is opened.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf, absolute},
};

use diesel::{
    Connection as _, ConnectionError, ConnectionResult, connection::SimpleConnection as _,
    sqlite::SqliteConnection,
};

use crate::{OpenError, failure::Failure};

/// `synchronous = FULL` makes a commit wait until it is on the disk, `fullfsync` on macOS too.
/// `busy_timeout` is first because the switch to WAL waits for others.
const SETTINGS: &str = "PRAGMA busy_timeout = 3000;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA foreign_keys = ON;
    PRAGMA trusted_schema = OFF;";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    /// A writer takes the write lock at once: a transaction that first reads could not wait for it
    /// later.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::Read => "BEGIN",
            Self::Write => "BEGIN IMMEDIATE",
        }
    }
}

/// Where the database is, and which file it was when it was opened.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    path: PathBuf,
    file: FileId,
}

impl Database {
    /// Finds the database, or makes an empty one that only its owner can read.
    pub(crate) fn at(path: &Path) -> Result<Self, OpenError> {
        // A relative path would change its meaning with the working directory, and `:memory:` or
        // `file:…` are none.
        let path = absolute(path).map_err(OpenError::File)?;
        if !path.try_exists().map_err(OpenError::File)? {
            create(&path)?;
        }
        let file = FileId::of(&path).map_err(OpenError::File)?;
        Ok(Self { path, file })
    }

    pub(crate) fn connect(&self, access: Access) -> ConnectionResult<SqliteConnection> {
        let mut connection = establish(&self.path)?;
        connection.batch_execute(SETTINGS).map_err(ConnectionError::CouldntSetupConfiguration)?;
        if access == Access::Read {
            connection
                .batch_execute("PRAGMA query_only = ON")
                .map_err(ConnectionError::CouldntSetupConfiguration)?;
        }
        Ok(connection)
    }

    /// Connects again, and never to another file or to none, which SQLite would make.
    pub(crate) fn reconnect(&self, access: Access) -> Result<SqliteConnection, Failure> {
        self.check_create()?;
        Ok(self.connect(access)?)
    }

    /// Whether the file is still where it was opened. A file that was removed or replaced goes on
    /// taking orders, which nobody ever finds again.
    pub(crate) fn check_create(&self) -> Result<(), Failure> {
        match FileId::of(&self.path) {
            Ok(file) if file == self.file => Ok(()),
            _ => Err(Failure::Moved(self.path.display().to_string())),
        }
    }
}

fn establish(path: &Path) -> ConnectionResult<SqliteConnection> {
    let path = path
        .to_str()
        .ok_or_else(|| ConnectionError::InvalidConnectionUrl("the path is not UTF-8".to_owned()))?;
    SqliteConnection::establish(path)
}

/// Makes the database beside its place and moves it there when it is whole. SQLite fails at once,
/// and does not wait, when several processes switch one database to WAL.
fn create(path: &Path) -> Result<(), OpenError> {
    let directory =
        path.parent().ok_or_else(|| OpenError::File(io::ErrorKind::InvalidInput.into()))?;
    let made = tempfile::Builder::new()
        .prefix(".new-database")
        .tempfile_in(directory)
        .map_err(OpenError::File)?
        .into_temp_path();
    let switched = establish(&made)?.batch_execute("PRAGMA journal_mode = WAL");
    switched.map_err(ConnectionError::CouldntSetupConfiguration)?;

    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    // Another process may have made the database in between, and then the log is its.
    if Path::new(&log).exists() && !path.exists() {
        return Err(OpenError::LogWithoutDatabase(path.to_owned()));
    }
    match made.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
            Err(OpenError::File(error.error))
        }
        _ => Ok(()),
    }
}

/// Tells a file from another under the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|file| Self(file.dev(), file.ino()))
    }
}
