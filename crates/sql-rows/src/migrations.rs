//! Whether the migrations of a database are those of this program.

/// The trigger that records changes of orders.
pub const ORDER_CHANGE: &str = "orders_record_change";

/// A database whose migrations this program does not have.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// A newer version of the program has migrated the database.
    #[error(
        "the database is newer than this program: it has the migration {0}; start a version of \
        the program that knows it"
    )]
    Newer(String),
    /// Another version of the program has migrated the database.
    #[error(
        "the database is of another version of this program: it has the migration {0}, which this \
        version does not know; start the version that made the database, or use an empty database \
        or data directory"
    )]
    Other(String),
}

/// Returns how many of the versions that the program knows were not applied. Fails if one was applied
/// that it does not know.
pub fn count_missing(applied: &[String], known: &[String]) -> Result<usize, VersionError> {
    let Some(unknown) = applied.iter().filter(|version| !known.contains(version)).max() else {
        return Ok(known.len() - applied.len());
    };
    let is_newer = known.iter().all(|version| version < unknown);
    let error = if is_newer { VersionError::Newer } else { VersionError::Other };
    Err(error(unknown.clone()))
}
