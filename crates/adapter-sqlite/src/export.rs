//! Rows as JSON, to be copied to PostgreSQL.

use std::{
    collections::BTreeMap,
    path::{Path, absolute},
};

use diesel::{
    connection::SimpleConnection as _,
    dsl::sql,
    prelude::*,
    result::Error as DatabaseError,
    sql_types::{BigInt, Text},
    sqlite::SqliteConnection,
};
use domain::ports::StoreError;
use sql_rows::orphans::{has_parent, orphans_query};

use crate::{
    database::{OpenError, establish},
    failure::LOCKED,
    store::SqliteStore,
};

/// The tables of a copy. A row comes after the rows to which it refers. The installation is left out: the
/// copy is another one. So are sessions and ceremonies: people sign in again.
pub const EXPORTED_TABLES: [&str; 24] = [
    "signing_services",
    "api_keys",
    "key_events",
    "orders",
    "order_changes",
    "order_notes",
    "documents",
    "uploads",
    "events",
    "deliveries",
    "order_recipients",
    "recipient_mails",
    "webhook_endpoints",
    "webhook_deliveries",
    "idempotency_keys",
    "accesses",
    "access_runs",
    "order_feed",
    "order_feed_epochs",
    "rejected_requests",
    "people",
    "invitations",
    "passkeys",
    "identities",
];

/// Begins a transaction that ends with the connection. In this mode of locking, it fails while another
/// process has the database open, and none can open it meanwhile. Waits for processes that are ending.
const BEGIN: &str = "PRAGMA busy_timeout = 3000; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE";

/// The reason why a database was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Another process has the database open, and could change it during the export or after it.
    #[error("another process uses the database: stop every service on it, then copy again")]
    InUse,
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database cannot be read.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// Rows of a table in the order of its primary key.
#[derive(Debug)]
pub struct ExportedPage {
    /// The rows as a JSON array of objects, with the column names and the text forms of PostgreSQL.
    pub rows: String,
    /// The number of rows.
    pub count: u64,
    /// Where the next page begins.
    pub last: String,
}

/// The name of a column, its type, and its position in the primary key from 1; 0 for others.
type Column = (String, String, i64);

impl SqliteStore {
    /// Returns what rows lack whose parent is gone, and their number. Blocks nothing.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn orphans(&self) -> Result<Vec<(String, i64)>, StoreError> {
        self.survey(move |connection| Ok(orphans(connection)?)).await
    }
}

/// A database that is being exported. No other process can use it until this is dropped. Every call blocks.
pub struct Export(SqliteConnection);

impl Export {
    /// Opens a database that has every migration.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn begin(path: &Path) -> Result<Self, ExportError> {
        let path = absolute(path).map_err(OpenError::File)?;
        let mut connection = establish(&path).map_err(OpenError::from)?;
        match connection.batch_execute(BEGIN) {
            Err(DatabaseError::DatabaseError(_, error)) if error.message() == LOCKED => {
                Err(ExportError::InUse)
            }
            begun => Ok(begun.map(|()| Self(connection))?),
        }
    }

    /// Returns up to `limit` rows of one of [`EXPORTED_TABLES`] after the page that ended with
    /// `after`; `None` after the last row.
    ///
    /// Leases of deliveries and claims of requests in progress are left out: they belong to
    /// processes that used this database. So are rows whose parent is gone: see [`Self::orphans`].
    ///
    /// # Errors
    /// The database cannot be read, or the table does not exist.
    pub fn page(
        &mut self,
        table: &'static str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Option<ExportedPage>, ExportError> {
        Ok(page(&mut self.0, table, after, limit)?)
    }

    /// Returns what rows lack whose parent is gone, and their number.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn orphans(&mut self) -> Result<Vec<(String, i64)>, ExportError> {
        Ok(orphans(&mut self.0)?)
    }

    /// Returns the last identifier that each table has assigned, also if its row is gone. A table that
    /// keeps all its rows is left out.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn assigned_identifiers(&mut self) -> Result<BTreeMap<String, i64>, ExportError> {
        let assigned = sql::<(Text, BigInt)>("SELECT name, seq FROM sqlite_sequence");
        let assigned: Vec<(String, i64)> = assigned.load(&mut self.0)?;
        Ok(assigned.into_iter().collect())
    }
}

/// See [`SqliteStore::orphans`].
pub(crate) fn orphans(connection: &mut SqliteConnection) -> QueryResult<Vec<(String, i64)>> {
    sql::<(Text, BigInt)>(&orphans_query()).load(connection)
}

fn page(
    connection: &mut SqliteConnection,
    table: &str,
    after: Option<&str>,
    limit: usize,
) -> QueryResult<Option<ExportedPage>> {
    let columns = format!("SELECT name, type, pk FROM pragma_table_info('{table}') ORDER BY pk");
    let columns: Vec<Column> = sql::<(Text, Text, BigInt)>(&columns).load(connection)?;
    let key = columns.iter().filter(|(.., position)| *position > 0);
    let key: Vec<&str> = key.map(|(name, ..)| name.as_str()).collect();
    let literals: Vec<String> = key.iter().map(|name| format!("quote({name})")).collect();
    let members: Vec<String> = columns.iter().filter_map(member).collect();
    let (key, literals, members) =
        (key.join(", "), literals.join(" || ', ' || "), members.join(", "));
    let after = after.map_or_else(|| "true".to_owned(), |last| format!("({key}) > ({last})"));
    let answered = if table == "idempotency_keys" { "order_id IS NOT NULL" } else { "true" };
    let has_parent = has_parent(table);
    // The primary key of each row as SQL literals, and the row.
    let rows = format!(
        "SELECT {literals}, json_object({members}) FROM {table}
         WHERE {after} AND {answered} AND {has_parent} ORDER BY {key} LIMIT {limit}"
    );
    let rows: Vec<(String, String)> = sql::<(Text, Text)>(&rows).load(connection)?;
    let (mut keys, json): (Vec<String>, Vec<String>) = rows.into_iter().unzip();
    let Some(last) = keys.pop() else { return Ok(None) };
    Ok(Some(ExportedPage { count: json.len() as u64, rows: format!("[{}]", json.join(",")), last }))
}

/// Returns the name and the value of a column as arguments of `json_object`.
fn member((name, kind, _): &Column) -> Option<String> {
    match name.as_str() {
        "leased_until" => None,
        "details" => Some("'details', json(details)".to_owned()),
        _ if matches!(name.rsplit('_').next(), Some("at" | "until" | "hour")) => {
            Some(format!("'{name}', {}", timestamp(name)))
        }
        _ if kind == "BLOB" => Some(format!(r"'{name}', '\x' || hex({name})")),
        _ => Some(format!("'{name}', {name}")),
    }
}

/// Returns the SQL of an instant as text. PostgreSQL has no year 0, but the year 1 BC.
fn timestamp(column: &str) -> String {
    let fraction = format!("(({column} % 1000000 + 1000000) % 1000000)");
    let seconds = format!("({column} - {fraction}) / 1000000");
    let format = |pattern| {
        format!("strftime('{pattern}', {seconds}, 'unixepoch') || printf('.%06d+00', {fraction})")
    };
    let (year_0, other) = (format("0001-%m-%d %H:%M:%S"), format("%Y-%m-%d %H:%M:%S"));
    format!("CASE WHEN {column} < -62135596800000000 THEN {year_0} || ' BC' ELSE {other} END")
}
