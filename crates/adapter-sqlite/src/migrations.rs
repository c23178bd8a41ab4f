//! Brings the schema up to the version of the program.

use diesel::{
    dsl::sql,
    migration::{Migration, MigrationSource as _},
    prelude::*,
    sql_types::Text,
    sqlite::{Sqlite, SqliteConnection},
};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness as _, embed_migrations};
use domain::ports::Cause;
use sql_rows::migrations::{ORDER_CHANGE, VersionError, count_missing};

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
    /// A trigger is missing, without which no change of an order has a history and an event.
    #[error("the database lacks the trigger {0}: restore it from migrations/sqlite")]
    Incomplete(&'static str),
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
    missing(connection)?;
    let applied = connection.run_pending_migrations(MIGRATIONS).map_err(MigrateError::Failed)?;
    Ok(applied.len())
}

/// Returns the versions that this program knows.
fn known() -> Result<Vec<String>, MigrateError> {
    let known: Vec<Box<dyn Migration<Sqlite>>> =
        MIGRATIONS.migrations().map_err(MigrateError::Failed)?;
    Ok(known.iter().map(|migration| migration.name().version().to_string()).collect())
}

/// Returns the number of missing migrations, after the checks of a start. Changes nothing, unlike
/// `applied_migrations`, which creates its table.
pub(crate) fn missing(connection: &mut SqliteConnection) -> Result<usize, MigrateError> {
    const TABLE: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name";
    const MIGRATED: &str = "'__diesel_schema_migrations'";

    let mut names = |query: String| -> Result<Vec<String>, Failure> {
        Ok(sql::<Text>(&query).load(connection)?)
    };
    let applied = match names(format!("{TABLE} = {MIGRATED}"))?.pop() {
        Some(table) => names(format!("SELECT version FROM {table}"))?,
        None => Vec::new(),
    };
    let missing = count_missing(&applied, &known()?)?;
    let others = format!("{TABLE} NOT GLOB 'sqlite_*' AND name <> {MIGRATED} LIMIT 1");
    match names(others)?.pop() {
        Some(table) if applied.is_empty() => return Err(MigrateError::OtherProgram(table)),
        _ => {}
    }
    let trigger = format!("SELECT name FROM sqlite_schema WHERE name = '{ORDER_CHANGE}'");
    if missing == 0 && names(trigger)?.is_empty() {
        return Err(MigrateError::Incomplete(ORDER_CHANGE));
    }
    Ok(missing)
}
