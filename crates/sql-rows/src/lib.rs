//! The rows that both databases have, and what they mean in the domain.
//!
//! PostgreSQL and SQLite have the same tables and columns. Only the types of instants and of
//! `orders.details` differ.
//!
//! Each table has a module with its rows, their conversions, and the queries that both adapters use. Names are
//! used by path: `documents::DocumentRow`. There is no port, no connection and no rule.

use std::sync::Arc;

use domain::ports::{Cause, UnreadableRecord, UnreadableRow};

pub mod access_runs;
pub mod accesses;
pub mod api_keys;
pub mod deliveries;
pub mod documents;
pub mod events;
pub mod faults;
pub mod idempotency_keys;
pub mod installation;
pub mod instant;
pub mod key_events;
pub mod migrations;
pub mod order_changes;
pub mod order_feed;
pub mod order_notes;
pub mod order_recipients;
pub mod orders;
pub mod orphans;
pub mod party;
pub mod people;
pub mod recipient_mails;
pub mod rejected_requests;
pub mod schema;
pub mod sessions;
pub mod signing_services;
mod statement;
pub mod text;
pub mod uploads;
pub mod webhook_deliveries;
pub mod webhook_endpoints;

pub use instant::{Instant, Utc};
pub use statement::{IdRow, ListedValue, OneOf, Prepared, pieces};

/// A row that this program cannot have written. The reason names the column, or the member of
/// `details`, and contains no value.
#[derive(Debug, thiserror::Error)]
#[error("row {row} of {table} cannot be read: {reason}")]
pub struct Unreadable {
    table: &'static str,
    row: String,
    reason: String,
}

impl Unreadable {
    /// Returns the error for a row of a table.
    pub fn new(table: &'static str, row: &dyn ToString, reason: &dyn ToString) -> Self {
        Self { table, row: row.to_string(), reason: reason.to_string() }
    }

    /// Returns the cause of the error of a port.
    pub fn into_cause(self) -> Cause {
        if self.table == "orders" || self.table.ends_with("of order") {
            return UnreadableRecord(self.to_string()).into();
        }
        self.into()
    }

    /// Returns the row for the log.
    pub(crate) fn named(&self) -> UnreadableRow {
        let is_of_webhooks = ["webhook_endpoints", "webhook_deliveries"].contains(&self.table);
        UnreadableRow { is_of_webhooks, fault: self.to_string() }
    }
}

/// Gets the number of calls of each transaction or statement.
pub type BatchObserver = Arc<dyn Fn(usize) + Send + Sync>;

/// The metrics of a database.
pub trait ObservedDatabase: Send + Sync {
    /// Reports how many writing calls share each transaction or statement.
    fn observe_batches(&self, observer: BatchObserver);

    /// Returns the number of open connections.
    fn open_connections(&self) -> usize;

    /// Returns the number of calls that wait for a connection.
    fn waiting_calls(&self) -> usize;

    /// Returns how many reads may walk through many orders at the same time, so that connections for quick reads
    /// are free; at least one.
    fn walks(&self) -> usize;
}

/// Returns a limit for SQL. More than `i64::MAX` rows never exist.
pub fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn digest(bytes: Vec<u8>, unreadable: impl FnOnce() -> Unreadable) -> Result<[u8; 32], Unreadable> {
    bytes.try_into().map_err(|_| unreadable())
}

/// Makes a failure of an adapter the error of each port.
#[macro_export]
macro_rules! port_errors {
    ($failure:ty => $($error:ident),+) => {$(
        impl From<$failure> for $error {
            fn from(failure: $failure) -> Self {
                if failure.is_temporary() {
                    Self::Unavailable(failure.into_cause())
                } else {
                    Self::Internal(failure.into_cause())
                }
            }
        }
    )+};
}
