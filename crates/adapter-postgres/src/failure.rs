//! Failures inside the adapter, and the errors of the ports that they become.

use std::sync::Arc;

use diesel::{
    result::DatabaseErrorKind::{
        self, CheckViolation, ExclusionViolation, ForeignKeyViolation, NotNullViolation,
        RestrictViolation, UniqueViolation,
    },
    result::Error as DatabaseError,
};
use diesel_async::pooled_connection::deadpool::PoolError;
use domain::ports::{Cause, StoreError, WriteError};
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
    /// same may succeed at once. A server that answers in another language names a deadlock in it; then
    /// the caller tries again.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Database(DatabaseError::DatabaseError(kind, information)) => {
                matches!(kind, DatabaseErrorKind::SerializationFailure)
                    || information.message() == "deadlock detected"
            }
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
                let is_lock_timeout = information.message().ends_with("due to lock timeout");
                !self.is_constraint() && !self.is_conflict() && !is_lock_timeout
            }
            Self::Database(DatabaseError::NotFound) | Self::Unreadable(_) | Self::Unstorable(_) => {
                false
            }
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

/// Returns the SQLSTATE of our own with which a message begins. diesel passes on no SQLSTATE.
fn own_state(message: &str) -> Option<&str> {
    let (state, _) = message.split_once(':')?;
    [UPLOAD_SWEPT, KEY_IN_USE].contains(&state).then_some(state)
}

sql_rows::port_errors!(Failure => StoreError, WriteError);
