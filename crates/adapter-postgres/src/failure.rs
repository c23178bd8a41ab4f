//! What can go wrong inside the adapter, and what it means to the caller of a port.

use diesel::{
    result::DatabaseErrorKind::{
        self, CheckViolation, ExclusionViolation, ForeignKeyViolation, NotNullViolation,
        RestrictViolation, UniqueViolation,
    },
    result::Error as DatabaseError,
};
use diesel_async::pooled_connection::deadpool::PoolError;
use domain::ports::{Cause, CreateError, StoreError};

/// A row that this program cannot have written. The reason names the column, or the member of
/// `details`, and contains no value.
#[derive(Debug, thiserror::Error)]
#[error("row {row} of {table} cannot be read: {reason}")]
pub(crate) struct Unreadable {
    table: &'static str,
    row: String,
    reason: String,
}

impl Unreadable {
    pub(crate) fn new(table: &'static str, row: impl ToString, reason: &dyn ToString) -> Self {
        Self { table, row: row.to_string(), reason: reason.to_string() }
    }
}

/// An error after which the connection may be unusable and is closed.
pub(crate) trait BreaksConnection {
    fn breaks_connection(&self) -> bool;
}

/// A failure that all members of a batch share.
pub(crate) type Shared = group_commit::Shared<Failure>;

impl BreaksConnection for Shared {
    fn breaks_connection(&self) -> bool {
        self.get().breaks_connection()
    }
}

/// Why a statement had no effect.
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
    #[error("the database takes no writes")]
    ReadOnly,
    #[error("the work on the database was given up")]
    Lost,
    #[error("the database did not answer in time")]
    Late,
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self::Connection(match error {
            // The pool would say the same again.
            PoolError::Backend(error) => error.into(),
            error => error.into(),
        })
    }
}

impl Failure {
    /// The constraint that refused a row.
    pub(crate) fn constraint(&self) -> Option<&str> {
        match self {
            Self::Database(DatabaseError::DatabaseError(kind, information))
                if is_constraint(kind) =>
            {
                information.constraint_name()
            }
            _ => None,
        }
    }

    /// Whether a constraint refused a row.
    pub(crate) fn is_constraint(&self) -> bool {
        matches!(self, Self::Database(DatabaseError::DatabaseError(kind, _)) if is_constraint(kind))
    }

    /// Whether the server refused a statement, which took no effect, and goes on. Without a word of
    /// the server diesel says that the command could not be sent, also when it was.
    pub(crate) fn is_refusal(&self) -> bool {
        let lost = |kind: &DatabaseErrorKind| {
            matches!(
                kind,
                DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand
            )
        };
        matches!(self, Self::Database(DatabaseError::DatabaseError(kind, _)) if !lost(kind))
    }

    /// Whether the same call may succeed later. Whatever the server refuses without naming a
    /// constraint is its state and not the row's: it shuts down, has become a standby, is out of
    /// connections or of disk, or lacks a right.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Connection(_)
            | Self::ReadOnly
            | Self::Late
            | Self::Database(DatabaseError::BrokenTransactionManager) => true,
            Self::Database(DatabaseError::DatabaseError(kind, _)) => !is_constraint(kind),
            _ => false,
        }
    }
}

impl BreaksConnection for Failure {
    fn breaks_connection(&self) -> bool {
        match self {
            Self::Database(DatabaseError::DatabaseError(kind, _)) => !is_constraint(kind),
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

/// What it means to each of a batch.
pub(crate) fn store_error(failure: Shared) -> StoreError {
    if failure.get().is_passing() {
        StoreError::Unavailable(failure.into())
    } else {
        StoreError::Internal(failure.into())
    }
}
