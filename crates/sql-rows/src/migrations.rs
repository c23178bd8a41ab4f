//! Whether the migrations of a database are those of this program.
//!
//! Version 0.1.0 records its one migration in the table of diesel, and stops at any other there. Later
//! migrations only add, so it can work on them: they are recorded in a table that it does not read.

/// The trigger that records changes of orders.
pub const ORDER_CHANGE: &str = "orders_record_change";

/// The migration of version 0.1.0, the only one in [`FIRST_TABLE`].
pub const FIRST: &str = "20261129100000";

/// The table of [`FIRST`].
pub const FIRST_TABLE: &str = "__diesel_schema_migrations";

/// The table of all other migrations.
pub const LATER_TABLE: &str = "later_migrations";

/// Creates [`LATER_TABLE`], unless it exists. `needs` is the migration that a program must know to work
/// on the result. A migration that removes what an older version uses names the one since which no version
/// uses it.
pub const CREATE_LATER_TABLE: &str = "CREATE TABLE IF NOT EXISTS later_migrations \
    (version TEXT NOT NULL PRIMARY KEY, needs TEXT NOT NULL)";

/// Selects the columns of [`Applied`] from [`FIRST_TABLE`].
pub const APPLIED_FIRST: &str = "SELECT version, version AS needs FROM __diesel_schema_migrations";

/// Selects the columns of [`Applied`] from [`LATER_TABLE`].
pub const APPLIED_LATER: &str = "SELECT version, needs FROM later_migrations";

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

/// A migration that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Its version.
    pub version: String,
    /// The version that a program must know to work on the result.
    pub needs: String,
}

impl From<(String, String)> for Applied {
    fn from((version, needs): (String, String)) -> Self {
        Self { version, needs }
    }
}

/// Returns the statement that records a migration.
pub fn record(version: &str) -> String {
    if version == FIRST {
        return format!("INSERT INTO {FIRST_TABLE} (version) VALUES ('{version}')");
    }
    format!("INSERT INTO {LATER_TABLE} (version, needs) VALUES ('{version}', '{FIRST}')")
}

/// Returns those of the versions that the program knows which were not applied. Fails if one was applied
/// on which the program cannot work.
pub fn missing<'k>(applied: &[Applied], known: &'k [String]) -> Result<Vec<&'k str>, VersionError> {
    let is_known = |version: &String| known.contains(version);
    let unusable = applied.iter().filter(|one| !is_known(&one.version) && !is_known(&one.needs));
    let Some(unknown) = unusable.map(|one| &one.version).max() else {
        let is_missing = |version: &&str| applied.iter().all(|one| one.version != **version);
        return Ok(known.iter().map(String::as_str).filter(is_missing).collect());
    };
    let is_newer = known.iter().all(|version| version < unknown);
    let error = if is_newer { VersionError::Newer } else { VersionError::Other };
    Err(error(unknown.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<String> {
        [FIRST, "20261130000000"].map(str::to_owned).into()
    }

    fn applied(pairs: &[(&str, &str)]) -> Vec<Applied> {
        pairs.iter().map(|(one, needs)| ((*one).to_owned(), (*needs).to_owned()).into()).collect()
    }

    #[test]
    fn unknown_migration_that_needs_a_known_one_is_accepted() {
        let known = known();
        let newer =
            [(FIRST, FIRST), ("20270101000000", FIRST), ("20270201000000", known[1].as_str())];
        assert_eq!(missing(&applied(&newer), &known).unwrap(), [&known[1]]);
        assert_eq!(missing(&[], &known).unwrap(), [FIRST, &known[1]]);
    }

    #[test]
    fn unknown_migration_that_needs_an_unknown_one_is_rejected() {
        for (version, needs, is_newer) in [
            ("20270201000000", "20270101000000", true),
            ("20270201000000", "20270201000000", true),
            ("20261129120000", "20261129120000", false),
        ] {
            let known = known();
            let error = missing(&applied(&[(FIRST, FIRST), (version, needs)]), &known);
            let error = error.unwrap_err();
            assert_eq!(matches!(&error, VersionError::Newer(named) if named == version), is_newer);
            assert_eq!(matches!(&error, VersionError::Other(named) if named == version), !is_newer);
        }
    }
}
