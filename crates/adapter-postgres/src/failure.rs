//! Failures inside the adapter, and the errors of the ports that they become.

use std::sync::Arc;

use diesel::{
    result::DatabaseErrorKind::{
        self, CheckViolation, ExclusionViolation, ForeignKeyViolation, NotNullViolation,
        RestrictViolation, UniqueViolation,
    },
    result::{DatabaseErrorInformation, Error as DatabaseError},
};
use diesel_async::pooled_connection::deadpool::PoolError;
use domain::{
    order::Refusal,
    ports::{Cause, StoreError, UnclearRejection, WriteError},
};
use sql_rows::Unreadable;

use crate::{
    ConnectError,
    statement::{KEY_IN_USE, UPLOAD_SWEPT},
};

/// The reason why a statement had no known effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Connection(Cause),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("a value does not fit its column")]
    Unstorable(#[source] Cause),
    /// The call found a reason not to change anything.
    #[error(transparent)]
    Rejected(WriteError),
    #[error("the database is read-only")]
    ReadOnly,
    #[error("the call ended without an outcome")]
    Lost,
    #[error("the database did not answer in time")]
    Timeout,
    /// A timeout that the server should have prevented by ending the statement.
    #[error("the database did not answer in time")]
    Gone,
    #[error(transparent)]
    OfBatch(Arc<Failure>),
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self::Connection(match error {
            // The text of the pool's own error repeats that of its cause.
            PoolError::Backend(error) => error.into(),
            error => error.into(),
        })
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::Connection(error.into())
    }
}

impl Failure {
    /// Returns the SQLSTATE of our own with which a trigger rejected a row.
    pub(crate) fn rejected_by(&self) -> Option<&str> {
        match self {
            Self::Database(DatabaseError::DatabaseError(_, information)) => {
                own_state(information.message())
            }
            _ => None,
        }
    }

    /// Returns whether a constraint or a trigger of ours rejected a row.
    pub(crate) fn is_constraint(&self) -> bool {
        self.rejected_by().is_some()
            || matches!(
                self,
                Self::Database(DatabaseError::DatabaseError(kind, _)) if is_constraint(kind)
            )
    }

    /// Returns whether the server has undone a transaction because of concurrent ones, so that the
    /// same may succeed at once.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Database(DatabaseError::DatabaseError(kind, information)) => match kind {
                DatabaseErrorKind::SerializationFailure => true,
                DatabaseErrorKind::Unknown => is_deadlock(&**information),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns whether the server answered that the statement had no effect. If the server did not
    /// answer, diesel reports `UnableToSendCommand`, even if the command was sent.
    pub(crate) fn is_rejection(&self) -> bool {
        let lost = |kind: &DatabaseErrorKind| {
            matches!(
                kind,
                DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand
            )
        };
        matches!(self, Self::Database(DatabaseError::DatabaseError(kind, _)) if !lost(kind))
    }

    /// Returns whether the same call may succeed later. An error that names no constraint is due to
    /// the state of the server, such as a shutdown, a full disk or a missing right.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Connection(_)
            | Self::ReadOnly
            | Self::Timeout
            | Self::Gone
            | Self::Database(DatabaseError::BrokenTransactionManager) => true,
            Self::Database(DatabaseError::DatabaseError(..)) => !self.is_constraint(),
            Self::OfBatch(failure) => failure.is_temporary(),
            _ => false,
        }
    }

    /// Returns whether the connection may be broken, and must be closed.
    pub(crate) fn breaks_connection(&self) -> bool {
        match self {
            Self::Database(DatabaseError::DatabaseError(_, information)) => {
                // In another language than English, the connection is closed and made anew.
                let is_lock_timeout = information.message().ends_with("due to lock timeout");
                !self.is_constraint() && !self.is_conflict() && !is_lock_timeout
            }
            Self::Database(DatabaseError::NotFound)
            | Self::Unreadable(_)
            | Self::Unstorable(_)
            | Self::Rejected(_) => false,
            _ => true,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "diesel's kinds cannot be copied")]
fn is_constraint(kind: &DatabaseErrorKind) -> bool {
    matches!(
        kind,
        UniqueViolation
            | ForeignKeyViolation
            | NotNullViolation
            | CheckViolation
            | RestrictViolation
            | ExclusionViolation
    )
}

/// Returns whether the server has ended a deadlock (`40P01`), in whatever language it answers: diesel-async
/// passes on no SQLSTATE but those of its kinds. The detail of a deadlock has a line for each of the processes
/// that wait for each other, with the name of a mode of locks, which PostgreSQL does not translate.
fn is_deadlock(information: &(dyn DatabaseErrorInformation + Send + Sync)) -> bool {
    let mut waits = information.details().unwrap_or_default().lines();
    let is_wait = |line: &str| LOCK_MODES.iter().any(|mode| line.contains(mode));
    waits.clone().count() > 1 && waits.all(is_wait)
}

/// The ends of all names of modes of locks (PostgreSQL, section 13.3).
const LOCK_MODES: [&str; 2] = ["ShareLock", "ExclusiveLock"];

/// Returns the SQLSTATE of our own with which a message begins. diesel passes on no SQLSTATE.
fn own_state(message: &str) -> Option<&str> {
    let (state, _) = message.split_once(':')?;
    [UPLOAD_SWEPT, KEY_IN_USE].contains(&state).then_some(state)
}

impl Failure {
    /// Returns the cause of the error of a port.
    fn into_cause(self) -> Cause {
        match self {
            Self::Unreadable(row) => row.into_cause(),
            // diesel-async tells an error of the data, such as one of class 22, from none of the server's state.
            failure if failure.is_temporary() && failure.is_rejection() => {
                UnclearRejection(failure.into()).into()
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of the server.
    struct ServerError(&'static str, Option<&'static str>);

    impl DatabaseErrorInformation for ServerError {
        fn message(&self) -> &str {
            self.0
        }

        fn details(&self) -> Option<&str> {
            self.1
        }

        fn hint(&self) -> Option<&str> {
            None
        }

        fn table_name(&self) -> Option<&str> {
            None
        }

        fn column_name(&self) -> Option<&str> {
            None
        }

        fn constraint_name(&self) -> Option<&str> {
            None
        }

        fn statement_position(&self) -> Option<i32> {
            None
        }
    }

    #[test]
    fn deadlock_is_a_conflict_in_every_language() {
        for (message, detail, is_conflict) in [
            (
                "deadlock detected",
                Some(
                    "Process 17 waits for ShareLock on transaction 746; blocked by process 18.\n\
                     Process 18 waits for ShareLock on transaction 747; blocked by process 17.",
                ),
                true,
            ),
            (
                "Verklemmung (Deadlock) entdeckt",
                Some(
                    "Prozess 17 wartet auf RowExclusiveLock-Sperre auf Relation 16390; blockiert \
                     von Prozess 18.\nProzess 18 wartet auf ExclusiveLock-Sperre auf Tupel (0,1); \
                     blockiert von Prozess 17.",
                ),
                true,
            ),
            ("breche Anfrage wegen Zeitüberschreitung ab", None, false),
            ("kein Platz mehr", Some("Eine Zeile.\nNoch eine."), false),
        ] {
            let answer = Box::new(ServerError(message, detail));
            let failure = DatabaseError::DatabaseError(DatabaseErrorKind::Unknown, answer);
            assert_eq!(Failure::from(failure).is_conflict(), is_conflict, "{message}");
        }
    }
}
