//! The rows that both databases have, and what they mean in the domain.
//!
//! PostgreSQL and SQLite have the same tables and columns. Only the types of instants and of
//! `orders.details` differ.
//!
//! Also here: query builders that both adapters use, and logic without a database. There is no port and
//! no connection.

use std::sync::Arc;

use domain::ports::{Cause, UnreadableRecord, UnreadableRow};

mod access;
mod faults;
mod idempotency;
mod instant;
mod key;
mod migrations;
mod orders;
mod orphan;
mod queue;
pub mod schema;
mod service;
mod statement;
mod webhooks;

pub use access::{
    AccessRow, EndedRun, FirstNumber, MissingColumns, accesses_before, accesses_from,
    accesses_up_to, busy_key, busy_keys, missing_access, missing_accesses, oldest_accesses,
    page_after, runs_ended_before, sides_and_operators,
};
pub use faults::{
    LookedAt, loaded_orders, newest_orders, oldest_events, oldest_mails, oldest_webhooks,
    scopes_of_keys, unknown_key_events,
};
pub use idempotency::{
    KeyRow, KeyUseRow, first_key, free_keys, key_in_use, key_of, key_row, keys_after, own_claim,
};
pub use instant::{Instant, Utc, farthest};
pub use key::{ApiKeyRow, KeyEventRow, NewApiKeyRow, first_key_of, key_unused_since, valid_key};
pub use migrations::{ORDER_CHANGE, VersionError, count_missing};
pub use orders::change::{
    AgedOrderRow, ChangeRows, CondemnedUpload, DocumentBeforeRow, OrderBeforeRow, documents_before,
    note_count,
};
pub use orders::erase::{
    ErasedOrder, HeldMail, HeldWebhook, abandoned_uploads, attempted_webhooks,
    attempted_webhooks_of_erased, condemned, condemned_of, ended_mails, ended_uploads,
    erased_among, free_mails, mails_of_erased, unerased_order, uploads_of_erased,
    waiting_webhooks_of,
};
pub use orders::find::{AtEnd, ListBackend, Matching, OnPage, Walk};
pub use orders::lists::{
    Ids, OrderList, PageRanges, common, compare_ids, compare_numbers, listed, owners,
};
pub use orders::queries::{
    ChangedOrder, add_changes, add_notes, changeable_order, changed_notary, changes_of,
    created_order, document_row, grouped, history_after, history_before, history_entry,
    history_page, is_place_in_notes, not_downloaded_before, notes_page, notes_query,
    order_with_document, orders_with_documents, sorted_keys, unreadable_order, uploads_for,
};
pub use orders::retention::IsDue;
pub use orders::rows::{
    DocumentRow, FoundBy, KeptOrderRow, ListedRow, NewChangeRow, NoteRow, NumberedNoteRow,
    OrderChangeRow, OrderRow, PendingOrder, is_order_of, party_column,
};
pub use orphan::{has_parent, orphans_query};
pub use queue::{
    DeliveryRow, Dispatched, EventRow, MAIL_STATS, NewChangeEventRow, NewEventRow, REMOVED_COUNTS,
    RecipientRow, RetriedDelivery, UNREADABLE_EVENT_DELAY, UnsuccessfulAttempt, counted_hours,
    due_events, due_mails, hashed_recipient, listed_mails, mail_stats, readable_events,
    recipients_of, retried, told_contacts, unleased_mail,
};
pub use service::ServiceRow;
pub use statement::{IdRow, ListedValue, OneOf, Prepared, pieces};
pub use webhooks::lease::{
    IsFree, LOOKED_AT, NextDue, UNREADABLE_DELAY, Waiting, chosen, full_parties, leases, put_offs,
};
pub use webhooks::queries::{
    DueAgain, deliveries_of, deliveries_with_endpoints, due_endpoints, due_of, endpoint_of,
    endpoints_made_by, endpoints_of, is_known, leased_of, unleased_webhook, untold_endpoints,
    waits,
};
pub use webhooks::rows::{
    EndpointChangeRow, EndpointRow, NewEndpointRow, NewWebhookRow, TargetRow, WEBHOOK_STATS,
    WebhookAttempt, WebhookDeliveryRow, party_of, readable_page, stored_change, stored_party,
    webhook_stats,
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
                    Self::Unavailable(failure.into())
                } else {
                    Self::Internal(failure.into_cause())
                }
            }
        }
    )+};
}
