//! Brings the schema up to the version of the program.

use diesel::{
    migration::{Migration, MigrationSource as _, MigrationVersion},
    prelude::*,
    sql_query,
    sql_types::Text,
    sqlite::{Sqlite, SqliteConnection},
};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness as _, embed_migrations};
use domain::ports::Cause;

use crate::failure::Failure;

pub(crate) const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/sqlite");

/// The reason why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database has a migration that is later than those of this program.
    #[error(
        "the database is newer than this program: it has the migration {0}; start a version of \
         notary-orders that has it"
    )]
    Newer(String),
    /// The database has an earlier migration that this program does not have.
    #[error(
        "the database was created by another version of notary-orders (migration {0}); start it \
         with that version or with an empty data directory"
    )]
    OtherVersion(String),
    /// The database has tables, but no migrations.
    #[error(
        "the database belongs to another program: it has the table {0:?}; name another file or an \
         empty data directory"
    )]
    OtherProgram(String),
    /// The database is unavailable, or a migration failed.
    #[error("the database could not be migrated")]
    Failed(#[source] Cause),
}

impl From<Failure> for MigrateError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.into())
    }
}

/// Applies the missing migrations and returns their number. The transaction holds the write lock,
/// so one of several processes that start at once does it.
pub(crate) fn migrate(connection: &mut SqliteConnection) -> Result<usize, MigrateError> {
    let embedded: Vec<Box<dyn Migration<Sqlite>>> =
        MIGRATIONS.migrations().map_err(MigrateError::Failed)?;
    let table = other_table(connection).map_err(Failure::from)?;
    let applied = connection.applied_migrations().map_err(MigrateError::Failed)?;
    let is_known = |version: &MigrationVersion<'_>| {
        embedded.iter().any(|migration| migration.name().version() == *version)
    };
    if let Some(unknown) = applied.iter().find(|version| !is_known(version)) {
        let last = embedded.iter().map(|migration| migration.name().version()).max();
        return Err(if last.is_some_and(|last| *unknown > last) {
            MigrateError::Newer(unknown.to_string())
        } else {
            MigrateError::OtherVersion(unknown.to_string())
        });
    }
    match table {
        Some(table) if applied.is_empty() => Err(MigrateError::OtherProgram(table)),
        _ => connection
            .run_pending_migrations(MIGRATIONS)
            .map(|applied| applied.len())
            .map_err(MigrateError::Failed),
    }
}

#[derive(QueryableByName)]
struct Table {
    #[diesel(sql_type = Text)]
    name: String,
}

/// Returns a table of the database other than those of SQLite and diesel.
fn other_table(connection: &mut SqliteConnection) -> QueryResult<Option<String>> {
    let tables = sql_query(
        r"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'
            AND name <> '__diesel_schema_migrations' LIMIT 1",
    );
    Ok(tables.get_result::<Table>(connection).optional()?.map(|table| table.name))
}
