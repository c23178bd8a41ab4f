//! Applies migrations at the start.

use std::mem;

use diesel::{
    dsl::sql,
    migration::CREATE_MIGRATIONS_TABLE,
    prelude::*,
    sql_query,
    sql_types::{BigInt, Bool, Nullable, Text},
};
use diesel_async::{
    AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _,
    TransactionManager as _,
};
use domain::ports::Cause;
use sql_rows::migrations::{
    self, APPLIED_FIRST, APPLIED_LATER, Applied, CREATE_LATER_TABLE, FIRST_TABLE, LATER_TABLE,
    ORDER_CHANGE, VersionError, record,
};

use crate::{ConnectError, connect::Server};

/// The migrations, oldest first: a version, and its statements.
const MIGRATIONS: [(&str, &str); 19] = [
    ("20261129100000", include_str!("../../../migrations/postgres/20261129100000_create/up.sql")),
    (
        "20261129140000",
        include_str!("../../../migrations/postgres/20261129140000_rules_of_sql/up.sql"),
    ),
    (
        "20261129140100",
        include_str!("../../../migrations/postgres/20261129140100_older_secrets/up.sql"),
    ),
    (
        "20261129150000",
        include_str!("../../../migrations/postgres/20261129150000_installation/up.sql"),
    ),
    ("20261129160000", include_str!("../../../migrations/postgres/20261129160000_accesses/up.sql")),
    (
        "20261129170000",
        include_str!("../../../migrations/postgres/20261129170000_archive_crc32/up.sql"),
    ),
    ("20261129170100", include_str!("../../../migrations/postgres/20261129170100_versions/up.sql")),
    (
        "20261129170200",
        include_str!("../../../migrations/postgres/20261129170200_webhook_bodies/up.sql"),
    ),
    ("20261130100000", include_str!("../../../migrations/postgres/20261130100000_changes/up.sql")),
    ("20261130150000", include_str!("../../../migrations/postgres/20261130150000_mails/up.sql")),
    (
        "20261130300000",
        include_str!("../../../migrations/postgres/20261130300000_rejected_requests/up.sql"),
    ),
    ("20261130400000", include_str!("../../../migrations/postgres/20261130400000_lists/up.sql")),
    ("20261130600000", include_str!("../../../migrations/postgres/20261130600000_people/up.sql")),
    (
        "20261130700000",
        include_str!("../../../migrations/postgres/20261130700000_feed_epochs/up.sql"),
    ),
    ("20261130800000", include_str!("../../../migrations/postgres/20261130800000_contacts/up.sql")),
    (
        "20261130900000",
        include_str!("../../../migrations/postgres/20261130900000_old_values/up.sql"),
    ),
    ("20261201100000", include_str!("../../../migrations/postgres/20261201100000_indexes/up.sql")),
    (
        "20261201200000",
        include_str!("../../../migrations/postgres/20261201200000_other_programs/up.sql"),
    ),
    (
        "20261201300000",
        include_str!("../../../migrations/postgres/20261201300000_changed_notary/up.sql"),
    ),
];

/// Makes instances that start at once in one schema migrate one after the other. The number is `nota`
/// in ASCII. The wait for locks on tables is short, because creating an order would wait behind it.
const LOCK: &str = "SET LOCAL lock_timeout = '60s'; \
    SELECT pg_advisory_xact_lock(1852797025, hashtext(current_schema())); \
    SET LOCAL lock_timeout = '1s'";

/// The triggers that an incomplete restore may lose. No statement fails without them, but documents lose
/// their objects, keys create two orders, changes leave no event and no entry in the feed, and erasures leave old
/// values.
const TRIGGERS: [(&str, &str); 14] = [
    ("documents", "documents_adopt_uploads"),
    ("events", "events_feed"),
    ("order_changes", "order_changes_feed"),
    ("order_notes", "order_notes_feed"),
    ("orders", "orders_announce"),
    ("orders", "orders_erase_day_start"),
    ("orders", "orders_erase_old_values"),
    ("orders", "orders_feed_erasure"),
    ("orders", "orders_keep_identifier"),
    ("orders", "orders_refuse_drawn"),
    ("idempotency_keys", "idempotency_keys_in_use"),
    ("orders", "orders_check_notary"),
    ("orders", "orders_name_status"),
    ("orders", ORDER_CHANGE),
];

/// The tables that the migrations create, and the rights on them that the service needs.
const TABLES: [(&str, &str); 28] = [
    ("orders", "SELECT INSERT UPDATE"),
    ("order_changes", "SELECT INSERT UPDATE"),
    ("order_notes", "SELECT INSERT UPDATE"),
    ("order_feed", "SELECT UPDATE DELETE"),
    ("order_feed_position", "SELECT UPDATE"),
    ("order_feed_epochs", "SELECT INSERT"),
    ("signing_services", "SELECT INSERT UPDATE DELETE"),
    ("documents", "SELECT INSERT DELETE"),
    ("uploads", "SELECT INSERT UPDATE DELETE"),
    ("events", "SELECT INSERT UPDATE DELETE"),
    ("deliveries", "SELECT INSERT UPDATE DELETE"),
    ("webhook_endpoints", "SELECT INSERT UPDATE DELETE"),
    ("webhook_deliveries", "SELECT INSERT UPDATE DELETE"),
    ("order_recipients", "SELECT INSERT UPDATE DELETE"),
    ("recipient_mails", "SELECT INSERT UPDATE DELETE"),
    ("api_keys", "SELECT INSERT UPDATE"),
    ("key_events", "SELECT INSERT"),
    ("idempotency_keys", "SELECT INSERT UPDATE DELETE"),
    ("accesses", "SELECT INSERT DELETE"),
    ("access_runs", "SELECT INSERT UPDATE DELETE"),
    ("rejected_requests", "SELECT INSERT UPDATE DELETE"),
    ("people", "SELECT INSERT UPDATE"),
    ("invitations", "SELECT INSERT UPDATE DELETE"),
    ("passkeys", "SELECT INSERT UPDATE DELETE"),
    ("identities", "SELECT INSERT DELETE"),
    ("sessions", "SELECT INSERT UPDATE DELETE"),
    ("ceremonies", "SELECT INSERT DELETE"),
    ("installation", "SELECT INSERT UPDATE"),
];

/// The objects without which two orders get one file number, or pages of a list miss orders: a name, and
/// whether it is right. An incomplete restore loses them, and no statement fails then. An
/// operator may rename the index, and change its storage parameters.
const SAFEGUARDS: &str = "VALUES \
    ('a valid unique index on orders (file_number, is_test) WHERE holds_file_number', \
        EXISTS (SELECT FROM pg_index WHERE indrelid = 'orders'::regclass \
            AND indisunique AND indisvalid AND replace(pg_get_indexdef(indexrelid), '\"', '') \
                LIKE '% USING btree (file_number, is_test)% WHERE holds_file_number')), \
    ('the identity of orders.id: the sequence orders_id_seq with a positive INCREMENT', \
        EXISTS (SELECT FROM pg_sequence JOIN pg_attribute ON attrelid = 'orders'::regclass \
            AND attname = 'id' AND attidentity <> '' \
            WHERE seqrelid = 'orders_id_seq'::regclass \
            AND seqrelid = pg_get_serial_sequence('orders', 'id')::regclass \
            AND seqincrement > 0 AND NOT seqcycle))";

/// Selects how many identifiers of orders a session draws at once, if an operator has changed it.
const DRAWN_AHEAD: &str = "(SELECT seqcache FROM pg_sequence \
    WHERE seqrelid = 'orders_id_seq'::regclass AND seqcache > 1)";

/// The reason why the database could not be migrated or used.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// There is no connection to the database.
    #[error(transparent)]
    Connection(#[from] ConnectError),
    /// Another version of the program has migrated the database.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The URL leads to a pooler that shares sessions among clients.
    #[error(
        "a pooler lends the sessions of the database to other clients between transactions; set \
        pool_mode = session in PgBouncer, or name the server itself"
    )]
    Pooler,
    /// The encoding of the database lacks characters that orders may have.
    #[error("the database is encoded in {0}, but must be in UTF8")]
    Encoding(String),
    /// Another program uses the database.
    #[error("the database has a table {0} of another program; use an empty database or schema")]
    Foreign(&'static str),
    /// The user lacks a right that the service needs.
    #[error("the database user lacks the right {privilege} on {table}")]
    Right {
        /// The table or sequence.
        table: String,
        /// `SELECT`, `INSERT`, `UPDATE`, `DELETE` or, for a sequence, `USAGE`.
        privilege: String,
    },
    /// Something is missing or changed, without which orders or documents could be lost.
    #[error(
        "the database lacks {0}, as after an incomplete restore; restore the backup again, or repair \
        the schema"
    )]
    Incomplete(String),
    /// An operator lets sessions draw identifiers of orders ahead. A trigger refuses orders with such identifiers.
    #[error(
        "the sequence orders_id_seq has CACHE {0}, so that the database refuses most orders; run ALTER \
        SEQUENCE orders_id_seq CACHE 1"
    )]
    DrawsAhead(i64),
    /// The database does not answer, or a migration failed and changed nothing.
    #[error("the database could not be migrated")]
    Failed(#[source] Cause),
}

impl From<diesel::result::Error> for MigrateError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Applies the missing migrations, all or none, and returns their number. Takes no lock if none is
/// missing. The lock and the settings end with the transaction.
pub(crate) async fn migrate(server: &Server) -> Result<usize, MigrateError> {
    let mut connection = server.connect_alone().await?.ok_or(MigrateError::Pooler)?;
    check_encoding(&mut connection).await?;
    let mut applied = 0;
    if !missing(&mut connection).await?.is_empty() {
        // In a transaction, a session goes on believing that a table is missing which it once
        // looked for. Another instance may make it during the wait for the lock.
        drop(connection);
        connection = server.connect_unlimited().await?;
        AnsiTransactionManager::begin_transaction(&mut connection).await?;
        connection.batch_execute(LOCK).await?;
        let missing = missing(&mut connection).await?;
        if !missing.is_empty() {
            check_tables(&mut connection).await?;
            apply(&mut connection, &missing).await?;
        }
        applied = missing.len();
        AnsiTransactionManager::commit_transaction(&mut connection).await?;
    }
    check_schema(&mut connection).await?;
    Ok(applied)
}

/// Returns the number of missing migrations, after the checks of a start. Changes nothing.
pub(crate) async fn check(connection: &mut AsyncPgConnection) -> Result<usize, MigrateError> {
    check_encoding(connection).await?;
    let missing = missing(connection).await?.len();
    if missing > 0 {
        check_tables(connection).await?;
    } else {
        check_schema(connection).await?;
    }
    Ok(missing)
}

/// Returns the versions of the missing migrations.
async fn missing(connection: &mut AsyncPgConnection) -> Result<Vec<String>, MigrateError> {
    let known = MIGRATIONS.map(|(version, _)| version.to_owned());
    let missing = migrations::missing(&applied(connection).await?, &known)?;
    Ok(missing.into_iter().map(str::to_owned).collect())
}

/// Checks that no other program has tables of these names. Without the lock, the tables may be those
/// of another instance that migrates.
async fn check_tables(connection: &mut AsyncPgConnection) -> Result<(), MigrateError> {
    if applied(connection).await?.is_empty() {
        for (table, _) in TABLES {
            if is_there(connection, table).await? {
                return Err(MigrateError::Foreign(table));
            }
        }
    }
    Ok(())
}

/// Applies the missing migrations. Sends one statement a message: engines with several nodes pass each
/// on as a prepared statement.
async fn apply(connection: &mut AsyncPgConnection, missing: &[String]) -> Result<(), MigrateError> {
    for table in [CREATE_MIGRATIONS_TABLE, CREATE_LATER_TABLE] {
        sql_query(table).execute(connection).await?;
    }
    for (version, migration) in MIGRATIONS {
        if missing.iter().any(|one| one == version) {
            for statement in statements(migration).into_iter().chain([record(version)]) {
                sql_query(statement).execute(connection).await?;
            }
        }
    }
    Ok(())
}

/// Returns the statements of a migration. Each ends with a semicolon at the end of a line, but not in
/// the body of a function, which stands between two `$$`.
fn statements(migration: &str) -> Vec<String> {
    let (mut statements, mut statement, mut is_body) = (Vec::new(), String::new(), false);
    for line in migration.lines().filter(|line| !line.trim_start().starts_with("--")) {
        is_body ^= line.matches("$$").count() % 2 == 1;
        statement.push_str(line);
        statement.push('\n');
        if !is_body && line.ends_with(';') {
            statements.push(mem::take(&mut statement));
        }
    }
    statements
}

async fn applied(connection: &mut AsyncPgConnection) -> Result<Vec<Applied>, MigrateError> {
    let mut applied = Vec::new();
    for (table, query) in [(FIRST_TABLE, APPLIED_FIRST), (LATER_TABLE, APPLIED_LATER)] {
        if is_there(connection, table).await? {
            check_rights(connection, &[(table, "SELECT")]).await?;
            let rows: Vec<(String, String)> =
                sql::<(Text, Text)>(query).get_results(connection).await?;
            applied.extend(rows.into_iter().map(Applied::from));
        }
    }
    Ok(applied)
}

async fn is_there(connection: &mut AsyncPgConnection, table: &str) -> Result<bool, MigrateError> {
    let query = sql::<Bool>("to_regclass(").bind::<Text, _>(table).sql(") IS NOT NULL");
    Ok(diesel::select(query).get_result(connection).await?)
}

async fn check_encoding(connection: &mut AsyncPgConnection) -> Result<(), MigrateError> {
    let encoding: String = diesel::select(sql::<Text>("current_setting('server_encoding')"))
        .get_result(connection)
        .await?;
    if encoding == "UTF8" { Ok(()) } else { Err(MigrateError::Encoding(encoding)) }
}

/// Checks rights, separated by spaces, on tables and sequences.
async fn check_rights(
    connection: &mut AsyncPgConnection,
    needed: &[(&str, &str)],
) -> Result<(), MigrateError> {
    let needed = needed.iter().map(|(name, privileges)| format!("('{name}', '{privileges}')"));
    let lacking = format!(
        "SELECT name, privilege FROM (VALUES {}) AS needed (name, privileges) \
        CROSS JOIN LATERAL regexp_split_to_table(privileges, ' ') AS privilege \
        WHERE NOT CASE privilege WHEN 'USAGE' THEN has_sequence_privilege(name, privilege) \
            ELSE has_table_privilege(name, privilege) END LIMIT 1",
        needed.collect::<Vec<_>>().join(", ")
    );
    let lacking: Option<(String, String)> =
        sql::<(Text, Text)>(&lacking).get_result(connection).await.optional()?;
    lacking.map_or(Ok(()), |(table, privilege)| Err(MigrateError::Right { table, privilege }))
}

/// Checks the rights of the user, then what most statements would succeed without.
async fn check_schema(connection: &mut AsyncPgConnection) -> Result<(), MigrateError> {
    check_rights(connection, &[&TABLES[..], &[("orders_id_seq", "USAGE")]].concat()).await?;
    let ahead = diesel::select(sql::<Nullable<BigInt>>(DRAWN_AHEAD));
    let ahead: Option<i64> = ahead.get_result(connection).await?;
    if let Some(cache) = ahead {
        return Err(MigrateError::DrawsAhead(cache));
    }
    let triggers = TRIGGERS.map(|(table, name)| {
        format!(
            ", ('the trigger {name}', EXISTS (SELECT FROM pg_trigger \
            WHERE tgrelid = '{table}'::regclass AND tgname = '{name}' \
            AND tgenabled IN ('O', 'A')))"
        )
    });
    let lacking = sql::<Nullable<Text>>(&format!(
        "(SELECT name FROM ({SAFEGUARDS}{}) AS needed (name, is_right) WHERE NOT is_right LIMIT 1)",
        triggers.concat()
    ));
    let lacking: Option<String> = diesel::select(lacking).get_result(connection).await?;
    lacking.map_or(Ok(()), |name| Err(MigrateError::Incomplete(name)))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    #[test]
    fn every_migration_is_embedded_whole() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres");
        let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let versions =
            folders.map(|name| name.to_str().unwrap().split('_').next().unwrap().to_owned());
        let embedded = MIGRATIONS.map(|(version, _)| version.to_owned());
        assert_eq!(versions.collect::<BTreeSet<_>>(), BTreeSet::from(embedded));
        for (_, migration) in MIGRATIONS {
            let lines = migration.lines().filter(|line| !line.trim_start().starts_with("--"));
            assert_eq!(statements(migration).concat().lines().count(), lines.count());
        }
    }
}
