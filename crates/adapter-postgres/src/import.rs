//! Rows of another store, written as they are.

use std::collections::BTreeMap;

use diesel::{
    dsl::sql,
    sql_query,
    sql_types::{BigInt, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use domain::ports::StoreError;

use crate::{failure::Failure, store::PostgresStore};

/// No other transaction writes until the import ends. The tables are in the order in which creating
/// an order writes to them, and giving numbers in the feed, so that none of them waits for another that waits for it.
const LOCK: &str = "LOCK TABLE signing_services, orders, order_changes, order_notes, documents, uploads, \
    events, deliveries, order_recipients, recipient_mails, webhook_endpoints, webhook_deliveries, idempotency_keys, api_keys, \
    key_events, accesses, access_runs, order_feed_position, order_feed, order_feed_epochs, rejected_requests, \
    people, invitations, passkeys, identities IN EXCLUSIVE MODE";

/// Switches the triggers off that write entries of the feed, or on: the source has these entries. Also the one that
/// refuses identifiers that were drawn before: an operator may have given the table a later range, and no rollback of a
/// copy that failed at its end moves a sequence back.
fn triggers(switch: &str) -> String {
    let triggers = [
        ("order_changes", "order_changes_feed"),
        ("order_notes", "order_notes_feed"),
        ("events", "events_feed"),
        ("orders", "orders_refuse_drawn"),
    ];
    let alter = |(table, trigger)| format!("ALTER TABLE {table} {switch} TRIGGER {trigger};");
    triggers.map(alter).concat()
}

/// A service that was started on the database has begun an epoch. Those of the source take its place.
const NO_EPOCH: &str = "DELETE FROM order_feed_epochs";

/// Continues the numbers of the feed after the last one of the source, which may have been removed.
fn number_after(assigned: i64) -> String {
    format!(
        "UPDATE order_feed_position SET number = \
            greatest({assigned}, (SELECT max(number) FROM order_feed)) WHERE id = 1"
    )
}

/// Makes the database a copy, also if a service has started on it while it was empty.
const MARK_COPY: &str = "INSERT INTO installation (id, database, documents) \
    VALUES (1, 'the source of `notary-orders copy`', 'its document store') ON CONFLICT (id) \
    DO UPDATE SET database = excluded.database, documents = excluded.documents";

/// Tables whose identifiers the database assigns.
const IDENTITIES: [&str; 12] = [
    "orders",
    "order_changes",
    "order_notes",
    "order_feed",
    "events",
    "deliveries",
    "webhook_endpoints",
    "webhook_deliveries",
    "api_keys",
    "key_events",
    "people",
    "passkeys",
];

/// An import in progress: one transaction. Dropping it undoes the import.
pub struct Import(AsyncPgConnection);

impl PostgresStore {
    /// Begins an import. Other processes cannot write until it ends.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn begin_import(&self) -> Result<Import, StoreError> {
        // Not a connection of the pool: the server limits how long their statements run.
        let mut import = Import(self.server.connect_unlimited().await.map_err(Failure::from)?);
        for statements in ["BEGIN", LOCK, &triggers("DISABLE"), NO_EPOCH] {
            import.run(statements).await?;
        }
        Ok(import)
    }
}

impl Import {
    /// Returns the number of rows of a table.
    ///
    /// # Errors
    /// The database is unavailable, or the table does not exist.
    pub async fn count(&mut self, table: &'static str) -> Result<u64, StoreError> {
        let count = sql::<BigInt>(&format!("SELECT count(*) FROM {table}"));
        let count: i64 = count.get_result(&mut self.0).await.map_err(Failure::from)?;
        Ok(count.unsigned_abs())
    }

    /// Writes rows of a table: a JSON array of objects with a member for each column.
    ///
    /// # Errors
    /// The database is unavailable or rejects a row. The import must be dropped then.
    pub async fn insert(&mut self, table: &'static str, rows: &str) -> Result<(), StoreError> {
        if table == "documents" {
            // A trigger moves each document's upload out of the ledger.
            let uploads = "INSERT INTO uploads (key, recorded_at) SELECT key, now()";
            self.insert_rows(uploads, table, rows, "WHERE key IS NOT NULL").await?;
        }
        self.insert_rows(&format!("INSERT INTO {table} SELECT r.*"), table, rows, "").await
    }

    /// Ends the import. The identifiers of each table go on after the last one that the source has
    /// assigned, also if its row is gone: whatever names that row must not find another. The database sends
    /// nothing until an operator adopts it, because the source may go on.
    ///
    /// # Errors
    /// The database is unavailable. Whether the import was committed is unknown.
    pub async fn commit(mut self, assigned: &BTreeMap<String, i64>) -> Result<(), StoreError> {
        for table in IDENTITIES {
            let assigned = assigned.get(table).copied().unwrap_or_default();
            self.go_on_after(table, assigned).await?;
        }
        let numbered = assigned.get("order_feed").copied().unwrap_or_default();
        self.run(&number_after(numbered)).await?;
        self.run(&triggers("ENABLE")).await?;
        self.run(MARK_COPY).await?;
        self.run("COMMIT").await
    }

    /// Moves the sequence of a table behind all its rows and an identifier. An operator may have given
    /// it a range that begins later: then it stays.
    async fn go_on_after(&mut self, table: &str, assigned: i64) -> Result<(), StoreError> {
        let facts = sql::<(Text, BigInt)>(&format!(
            "SELECT pg_get_serial_sequence('{table}', 'id'), coalesce(max(id), 0) FROM {table}"
        ));
        let facts: (String, i64) = facts.get_result(&mut self.0).await.map_err(Failure::from)?;
        let (sequence, last) = (facts.0, facts.1.max(assigned));
        let go_on = format!(
            "SELECT setval('{sequence}', {last}) FROM pg_sequence, {sequence} AS own \
            WHERE seqrelid = '{sequence}'::regclass AND {last} >= greatest(seqmin, own.last_value)"
        );
        self.run(&go_on).await
    }

    async fn insert_rows(
        &mut self,
        insert: &str,
        table: &str,
        rows: &str,
        condition: &str,
    ) -> Result<(), StoreError> {
        let from = format!("FROM jsonb_populate_recordset(NULL::{table}, $1::jsonb) AS r");
        let from = format!("{from} {condition}");
        let query = sql_query(format!("{insert} {from}")).bind::<Text, _>(rows);
        query.execute(&mut self.0).await.map_err(Failure::from)?;
        Ok(())
    }

    async fn run(&mut self, statements: &str) -> Result<(), StoreError> {
        Ok(self.0.batch_execute(statements).await.map_err(Failure::from)?)
    }
}
