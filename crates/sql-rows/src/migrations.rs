//! Whether the migrations of a database are those of this program.

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

/// Checks that the program has every migration that was applied.
pub fn check_versions(applied: &[String], embedded: &[String]) -> Result<(), VersionError> {
    let Some(unknown) = applied.iter().filter(|version| !embedded.contains(version)).max() else {
        return Ok(());
    };
    let is_newer = embedded.iter().all(|version| version < unknown);
    let error = if is_newer { VersionError::Newer } else { VersionError::Other };
    Err(error(unknown.clone()))
}
