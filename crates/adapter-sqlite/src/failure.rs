//! Failures inside the adapter, and the errors of the ports that they become.

use std::sync::Arc;

use diesel::{ConnectionError, result::DatabaseErrorKind, result::Error as DatabaseError};
use domain::{
    order::Refusal,
    ports::{Cause, StoreError, WriteError},
};
use sql_rows::Unreadable;

/// The reason why a transaction failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the database cannot be opened")]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the database file {0} was moved or replaced")]
    Moved(String),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("a value does not fit its column")]
    Unstorable(#[source] Cause),
    /// The call found a reason not to change anything.
    #[error(transparent)]
    Rejected(WriteError),
    #[error("the database thread dropped the call")]
    Lost,
    #[error("the transaction was abandoned because of another call in it")]
    Abandoned,
    #[error("the transaction could not be committed")]
    NotCommitted(#[source] DatabaseError),
    /// A failure that every call of a transaction has met.
    #[error(transparent)]
    Shared(Arc<Failure>),
    #[error("the database did not answer within the time limit")]
    TimedOut,
}

/// SQLite's text when another process held the write lock for longer than it waits.
pub(crate) const LOCKED: &str = "database is locked";

/// SQLite's texts for the codes `SQLITE_BUSY`, `SQLITE_LOCKED`, `SQLITE_IOERR`, `SQLITE_FULL`,
/// `SQLITE_CANTOPEN` and `SQLITE_READONLY`. Diesel does not pass the codes on. The texts are
/// constants of SQLite.
const TEMPORARY: [&str; 6] = [
    LOCKED,
    "database table is locked",
    "disk I/O error",
    "database or disk is full",
    "unable to open database file",
    "attempt to write a readonly database",
];

impl Failure {
    /// Returns whether the same call may succeed later.
    fn is_temporary(&self) -> bool {
        match self {
            // A transaction that was not committed met a full or broken disk. It may turn out to
            // have been committed.
            Self::Connection(_)
            | Self::Moved(_)
            | Self::TimedOut
            | Self::Abandoned
            | Self::NotCommitted(_) => true,
            Self::Shared(failure) => failure.is_temporary(),
            Self::Database(DatabaseError::DatabaseError(
                DatabaseErrorKind::Unknown,
                information,
            )) => TEMPORARY.iter().any(|text| information.message().starts_with(text)),
            _ => false,
        }
    }
}

impl Failure {
    /// Returns the cause of the error of a port.
    fn into_cause(self) -> Cause {
        match self {
            Self::Unreadable(row) => row.into_cause(),
            failure => failure.into(),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Rejected(refusal.into())
    }
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rejected(error) => error,
            failure if failure.is_temporary() => Self::Unavailable(failure.into()),
            failure => Self::Internal(failure.into_cause()),
        }
    }
}

sql_rows::port_errors!(Failure => StoreError);
