//! Whether the migrations of a database are those of this program.

use diesel::{
    backend::Backend,
    migration::{Migration, MigrationSource as _},
};
use diesel_migrations::EmbeddedMigrations;

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

/// Returns how many migrations of the program were not applied. Fails if one was applied that the
/// program does not have.
pub fn count_missing<DB: Backend>(
    applied: &[String],
    migrations: &EmbeddedMigrations,
) -> Result<usize, VersionError> {
    let embedded: Vec<Box<dyn Migration<DB>>> = migrations.migrations().unwrap_or_default();
    let embedded: Vec<_> =
        embedded.iter().map(|migration| migration.name().version().to_string()).collect();
    let Some(unknown) = applied.iter().filter(|version| !embedded.contains(version)).max() else {
        return Ok(embedded.len() - applied.len());
    };
    let is_newer = embedded.iter().all(|version| version < unknown);
    let error = if is_newer { VersionError::Newer } else { VersionError::Other };
    Err(error(unknown.clone()))
}
