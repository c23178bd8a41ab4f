//! Brings the schema up to the version of the program.

use diesel::{
    migration::{Migration, MigrationSource as _},
    prelude::*,
    sql_query,
    sql_types::Text,
    sqlite::{Sqlite, SqliteConnection},
};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness as _, embed_migrations};
use domain::ports::Cause;
use sql_rows::{VersionError, check_versions};

use crate::failure::Failure;

pub(crate) const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/sqlite");

/// The reason why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database is of another version of the program.
    #[error(transparent)]
    Version(#[from] VersionError),
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
    let table = other_table(connection).map_err(Failure::from)?;
    let applied = connection.applied_migrations().map_err(MigrateError::Failed)?;
    let applied: Vec<_> = applied.iter().map(ToString::to_string).collect();
    check_versions(&applied, &embedded()?)?;
    match table {
        Some(table) if applied.is_empty() => Err(MigrateError::OtherProgram(table)),
        _ => connection
            .run_pending_migrations(MIGRATIONS)
            .map(|applied| applied.len())
            .map_err(MigrateError::Failed),
    }
}

/// Returns the number of missing migrations, after the checks of a start. Changes nothing, unlike
/// `applied_migrations`, which creates its table.
pub(crate) fn missing(connection: &mut SqliteConnection) -> Result<usize, MigrateError> {
    const TABLE: &str = "SELECT name FROM sqlite_schema WHERE name = '__diesel_schema_migrations'";
    let table: Option<Name> =
        sql_query(TABLE).get_result(connection).optional().map_err(Failure::from)?;
    let applied: Vec<Name> = match table {
        Some(_) => sql_query("SELECT version AS name FROM __diesel_schema_migrations")
            .load(connection)
            .map_err(Failure::from)?,
        None => Vec::new(),
    };
    let applied: Vec<_> = applied.into_iter().map(|version| version.name).collect();
    let embedded = embedded()?;
    check_versions(&applied, &embedded)?;
    match other_table(connection).map_err(Failure::from)? {
        Some(table) if applied.is_empty() => Err(MigrateError::OtherProgram(table)),
        _ => Ok(embedded.len() - applied.len()),
    }
}

/// Returns the versions of the migrations of this program.
fn embedded() -> Result<Vec<String>, MigrateError> {
    let embedded: Vec<Box<dyn Migration<Sqlite>>> =
        MIGRATIONS.migrations().map_err(MigrateError::Failed)?;
    Ok(embedded.iter().map(|migration| migration.name().version().to_string()).collect())
}

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

/// Returns a table of the database other than those of SQLite and diesel.
fn other_table(connection: &mut SqliteConnection) -> QueryResult<Option<String>> {
    let tables = sql_query(
        r"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'
            AND name <> '__diesel_schema_migrations' LIMIT 1",
    );
    Ok(tables.get_result::<Name>(connection).optional()?.map(|table| table.name))
}
