//! The rows that both databases have, and what they mean in the domain.
//!
//! PostgreSQL and SQLite have the same tables and columns. Only the types of instants and of
//! `orders.details` differ, and each adapter has its own statements.

mod instant;
mod key;
mod migrations;
mod order;
mod queue;
pub mod schema;
mod statement;
mod webhook;
mod webhook_queries;

use diesel::prelude::*;
use domain::{
    api_key::ClientId,
    idempotency::{AddedRange, Answered, Fingerprint, IdempotencyKey, KeyUse},
    order::OrderId,
};

use schema::idempotency_keys;

pub use instant::{Instant, Utc};
pub use key::{ApiKeyRow, KeyEventRow, NewApiKeyRow};
pub use migrations::{VersionError, check_versions};
pub use order::{DocumentRow, KeptOrderRow, OrderRow, PendingAddition, PendingOrder};
pub use queue::{
    DeliveryRow, EVENT_TYPES, EventRow, REMOVED_COUNTS, UnsuccessfulAttempt, counted_hours,
    hashed_recipient,
};
pub use statement::{IdRow, Prepared};
pub use webhook::{
    EndpointRow, NewEndpointRow, TargetRow, WebhookAttempt, WebhookDeliveryRow, stored_events,
};
pub use webhook_queries::{
    DueAgain, deliveries_with_endpoints, endpoint_of, endpoints_of, next_batch, untold_endpoints,
    waits,
};

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
}

/// The most by which an order with a smaller identifier may have been created later: the clocks of
/// instances differ, and a request waits before its order gets an identifier.
/// So a list between two instants needs no index of instants: identifiers grow nearly alike.
pub const DISORDER: time::Duration = time::Duration::HOUR;

/// Returns a limit for SQL. More than `i64::MAX` rows never exist.
pub fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn digest(bytes: Vec<u8>, unreadable: impl FnOnce() -> Unreadable) -> Result<[u8; 32], Unreadable> {
    bytes.try_into().map_err(|_| unreadable())
}

/// What an idempotency key is in use for.
#[derive(Queryable, QueryableByName, Selectable)]
#[diesel(table_name = idempotency_keys)]
pub struct KeyUseRow {
    client_id: i64,
    fingerprint: Option<Vec<u8>>,
    order_id: Option<i64>,
    kept_until: Utc,
    first_document: Option<i32>,
    documents: Option<i32>,
}

impl KeyUseRow {
    /// Returns the use.
    pub fn into_use(self) -> Result<KeyUse, Unreadable> {
        let (Some(order_id), Some(fingerprint)) = (self.order_id, self.fingerprint) else {
            return Ok(KeyUse::InProgress { until: self.kept_until.0 });
        };
        let fingerprint = digest(fingerprint, || of_client(self.client_id, "fingerprint"))?;
        let (fingerprint, order_id) = (Fingerprint(fingerprint), OrderId(order_id));
        let added = match (self.first_document, self.documents) {
            (None, None) => None,
            (Some(first), Some(count)) => Some(AddedRange {
                first_position: position(first, self.client_id, "first_document")?,
                count: position(count, self.client_id, "documents")?,
            }),
            _ => return Err(of_client(self.client_id, "first_document")),
        };
        Ok(KeyUse::Answered(Answered { fingerprint, order_id, added }))
    }
}

fn position(number: i32, client: i64, column: &str) -> Result<u32, Unreadable> {
    u32::try_from(number).map_err(|_| of_client(client, column))
}

/// An idempotency key that the walk has read.
#[derive(Clone, Queryable, QueryableByName, Selectable)]
#[diesel(table_name = idempotency_keys)]
pub struct WalkedKeyRow {
    /// The client.
    pub client_id: i64,
    /// The digest of the key.
    pub digest: Vec<u8>,
}

impl WalkedKeyRow {
    /// Returns the row before which the walk begins.
    pub fn before(after: Option<IdempotencyKey>) -> Self {
        let (client_id, digest) =
            after.map_or((i64::MIN, Vec::new()), |key| (key.client.0, key.digest.to_vec()));
        Self { client_id, digest }
    }

    /// Returns the key.
    pub fn into_key(self) -> Result<IdempotencyKey, Unreadable> {
        Ok(IdempotencyKey {
            client: ClientId(self.client_id),
            digest: digest(self.digest, || of_client(self.client_id, "digest"))?,
        })
    }
}

fn of_client(client: i64, column: &str) -> Unreadable {
    Unreadable::new("idempotency_keys", &format!("of client {client}"), &column)
}
