//! What can go wrong inside the adapter, and what it means to the caller of a port.

use diesel::{ConnectionError, result::DatabaseErrorKind, result::Error as DatabaseError};
use domain::ports::{Cause, CreateError, StoreError};

use crate::worker::SharedFailure;

/// A row that the program cannot have written.
#[derive(Debug, thiserror::Error)]
#[error("row {row} of {table} cannot be read back: {column}")]
pub(crate) struct Unreadable {
    pub(crate) table: &'static str,
    pub(crate) row: String,
    pub(crate) column: &'static str,
}

/// Why a transaction did not take place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the database cannot be opened")]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the database file {0} is no longer in its place")]
    Moved(String),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("a value does not fit its column")]
    Unstorable(#[source] Cause),
    #[error("the database thread gave the call up")]
    Lost,
    #[error("the transaction was given up because of another call in it")]
    GivenUp,
    #[error("the transaction could not be committed")]
    NotCommitted(#[source] DatabaseError),
    #[error(transparent)]
    Shared(SharedFailure),
    #[error("the database did not come to the transaction in time")]
    Late,
}

/// SQLite's texts for the codes `SQLITE_BUSY`, `SQLITE_LOCKED`, `SQLITE_IOERR`, `SQLITE_FULL`,
/// `SQLITE_CANTOPEN` and `SQLITE_READONLY`. Diesel passes no code on, and the texts are constants
/// of SQLite.
const PASSING: [&str; 6] = [
    "database is locked",
    "database table is locked",
    "disk I/O error",
    "database or disk is full",
    "unable to open database file",
    "attempt to write a readonly database",
];

impl Failure {
    /// Whether the same call may succeed later: the database is locked, or cannot be reached, read
    /// or written now.
    fn is_passing(&self) -> bool {
        match self {
            // One that is not committed has met a disk that is full or broken, and may be found to
            // have taken place.
            Self::Connection(_)
            | Self::Moved(_)
            | Self::Late
            | Self::GivenUp
            | Self::NotCommitted(_) => true,
            Self::Shared(failure) => failure.get().is_passing(),
            Self::Database(DatabaseError::DatabaseError(
                DatabaseErrorKind::Unknown,
                information,
            )) => PASSING.iter().any(|text| information.message().starts_with(text)),
            _ => false,
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        if failure.is_passing() {
            Self::Unavailable(failure.into())
        } else {
            Self::Internal(failure.into())
        }
    }
}

impl From<Failure> for CreateError {
    fn from(failure: Failure) -> Self {
        if failure.is_passing() {
            Self::Unavailable(failure.into())
        } else {
            Self::Internal(failure.into())
        }
    }
}
