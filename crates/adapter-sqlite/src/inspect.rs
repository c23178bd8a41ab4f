//! Facts about a database file for `doctor`. Writes nothing.

use std::{
    fs,
    path::{Path, absolute},
};

use diesel::{connection::SimpleConnection as _, result::Error as DatabaseError};

use crate::{
    database::{OpenError, check_log, establish},
    migrations::{self, MigrateError},
};

/// Takes the write lock and gives it back. Waits as long as the service would.
const LOCK: &str = "PRAGMA busy_timeout = 3000; BEGIN IMMEDIATE; ROLLBACK";

/// The reason why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It does not give its write lock: the file is read-only or no database, or another process
    /// holds the lock.
    #[error("the database accepts no writes")]
    Lock(#[source] DatabaseError),
    /// The mode of its file permits no writes. SQLite would open it nevertheless, and leave files beside it.
    #[error("the database accepts no writes: the mode of its file permits none")]
    ReadOnly,
    /// Its schema cannot be used.
    #[error(transparent)]
    Schema(#[from] MigrateError),
}

/// Returns the number of missing migrations of the database at `path`, or `None` if there is no
/// database. Checks that it accepts writes. Changes nothing, also if the database belongs to another
/// program. Blocks for up to 3 seconds.
///
/// # Errors
/// See [`InspectError`].
pub fn inspect(path: &Path) -> Result<Option<usize>, InspectError> {
    let path = absolute(path).map_err(OpenError::File)?;
    // Opening a database creates it.
    if !path.try_exists().map_err(OpenError::File)? {
        check_log(&path)?;
        return Ok(None);
    }
    // A look at the mode opens no file: closing it would drop the locks that SQLite has on it in this process.
    if fs::metadata(&path).map_err(OpenError::File)?.permissions().readonly() {
        return Err(InspectError::ReadOnly);
    }
    let mut connection = establish(&path).map_err(OpenError::from)?;
    connection.batch_execute(LOCK).map_err(InspectError::Lock)?;
    Ok(Some(migrations::missing(&mut connection)?.len()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::SqliteStore;

    #[tokio::test]
    async fn migrations_are_counted_and_nothing_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orders.sqlite");
        assert!(matches!(inspect(&path), Ok(None)));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

        fs::write(&path, "").unwrap();
        let missing = inspect(&path).unwrap().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        let store = SqliteStore::open_patiently(&path).unwrap();
        assert_eq!(store.migrate().await.unwrap(), missing);
        // Beside a process that uses the database.
        assert!(matches!(inspect(&path), Ok(Some(0))));
    }

    #[tokio::test]
    async fn read_only_database_gets_no_files_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orders.sqlite");
        let store = SqliteStore::open_patiently(&path).unwrap();
        store.migrate().await.unwrap();
        drop(store);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(matches!(inspect(&path), Err(InspectError::ReadOnly)));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn unusable_database_is_an_error_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orders.sqlite");
        fs::write(path.with_extension("sqlite-wal"), "log").unwrap();
        assert!(matches!(inspect(&path), Err(InspectError::Open(_))));

        let text = "no database, but a text of some length";
        fs::write(&path, text).unwrap();
        assert!(matches!(inspect(&path), Err(InspectError::Lock(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}
