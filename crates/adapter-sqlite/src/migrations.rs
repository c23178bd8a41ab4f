//! Brings the schema up to the version of the program.

use diesel::{
    migration::{Migration, MigrationSource as _, MigrationVersion},
    sqlite::{Sqlite, SqliteConnection},
};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness as _, embed_migrations};
use domain::ports::Cause;

use crate::failure::Failure;

pub(crate) const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/sqlite");

/// Why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database has a migration that this version of the program does not know.
    #[error("the database is newer than this program: it has the migration {0}")]
    Newer(String),
    /// The database does not answer, or a migration failed; nothing was changed.
    #[error("the database could not be migrated")]
    Failed(#[source] Cause),
}

impl From<Failure> for MigrateError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.into())
    }
}

/// Applies what is missing and answers how many migrations that was. Runs in a transaction that
/// holds the write lock, so that of several processes that start at once one does it.
pub(crate) fn migrate(connection: &mut SqliteConnection) -> Result<usize, MigrateError> {
    let known: Vec<Box<dyn Migration<Sqlite>>> =
        MIGRATIONS.migrations().map_err(MigrateError::Failed)?;
    let applied = connection.applied_migrations().map_err(MigrateError::Failed)?;
    let is_known = |version: &MigrationVersion<'_>| {
        known.iter().any(|migration| migration.name().version() == *version)
    };
    match applied.iter().find(|version| !is_known(version)) {
        Some(unknown) => Err(MigrateError::Newer(unknown.to_string())),
        None => connection
            .run_pending_migrations(MIGRATIONS)
            .map(|applied| applied.len())
            .map_err(MigrateError::Failed),
    }
}
