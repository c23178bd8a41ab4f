//! Brings the schema up to the version of the program.

use diesel::{
    connection::SimpleConnection as _,
    dsl::sql,
    migration::{CREATE_MIGRATIONS_TABLE, Migration, MigrationSource as _},
    prelude::*,
    sql_types::{BigInt, Text},
    sqlite::{Sqlite, SqliteConnection},
};
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use domain::ports::Cause;
use sql_rows::migrations::{
    self, APPLIED_FIRST, APPLIED_LATER, Applied, CREATE_LATER_TABLE, FIRST_TABLE, LATER_TABLE,
    ORDER_CHANGE, VersionError, record,
};

use crate::failure::Failure;

pub(crate) const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/sqlite");

/// The triggers without which changes have no history, no event and no place in the feed, and erasures leave old
/// values. No statement fails then.
const TRIGGERS: [&str; 9] = [
    ORDER_CHANGE,
    "order_feed_number",
    "order_changes_feed",
    "order_notes_feed",
    "events_feed",
    "orders_feed_erasure",
    "orders_erase_day_start",
    "orders_erase_old_values",
    "orders_refuse_past_identifier",
];

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
    /// A trigger is missing, without which changes of orders leave no trace.
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
    let missing = missing(connection)?;
    for statements in [CREATE_MIGRATIONS_TABLE, CREATE_LATER_TABLE] {
        connection.batch_execute(statements).map_err(Failure::from)?;
    }
    for migration in embedded()? {
        let version = version_of(&*migration);
        if missing.contains(&version) {
            migration.run(connection).map_err(MigrateError::Failed)?;
            connection.batch_execute(&record(&version)).map_err(Failure::from)?;
        }
    }
    Ok(missing.len())
}

/// Returns the migrations of this program, oldest first.
fn embedded() -> Result<Vec<Box<dyn Migration<Sqlite>>>, MigrateError> {
    let mut embedded = MIGRATIONS.migrations().map_err(MigrateError::Failed)?;
    embedded.sort_by_key(|migration| version_of(&**migration));
    Ok(embedded)
}

fn version_of(migration: &dyn Migration<Sqlite>) -> String {
    migration.name().version().to_string()
}

/// Returns the versions of the missing migrations, after the checks of a start. Changes nothing.
pub(crate) fn missing(connection: &mut SqliteConnection) -> Result<Vec<String>, MigrateError> {
    const TABLE: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name";

    let applied = applied(connection)?;
    let known: Vec<String> = embedded()?.iter().map(|one| version_of(&**one)).collect();
    let missing = migrations::missing(&applied, &known)?;
    let missing: Vec<String> = missing.into_iter().map(str::to_owned).collect();
    let mut names = |query: String| -> Result<Vec<String>, Failure> {
        Ok(sql::<Text>(&query).load(connection)?)
    };
    let others = format!(
        "{TABLE} NOT GLOB 'sqlite_*' AND name NOT IN ('{FIRST_TABLE}', '{LATER_TABLE}') LIMIT 1"
    );
    match names(others)?.pop() {
        Some(table) if applied.is_empty() => return Err(MigrateError::OtherProgram(table)),
        _ => {}
    }
    if missing.is_empty() {
        let found = names("SELECT name FROM sqlite_schema WHERE type = 'trigger'".to_owned())?;
        if let Some(lost) = TRIGGERS.into_iter().find(|name| !found.iter().any(|it| it == name)) {
            return Err(MigrateError::Incomplete(lost));
        }
    }
    Ok(missing)
}

/// Returns the applied migrations. Changes nothing, unlike `applied_migrations` of diesel, which creates its
/// table.
fn applied(connection: &mut SqliteConnection) -> Result<Vec<Applied>, Failure> {
    let mut applied = Vec::new();
    for (table, query) in [(FIRST_TABLE, APPLIED_FIRST), (LATER_TABLE, APPLIED_LATER)] {
        let exists =
            format!("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '{table}'");
        if sql::<BigInt>(&exists).get_result::<i64>(connection)? > 0 {
            let rows: Vec<(String, String)> = sql::<(Text, Text)>(query).load(connection)?;
            applied.extend(rows.into_iter().map(Applied::from));
        }
    }
    Ok(applied)
}
