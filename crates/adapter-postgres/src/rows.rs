//! Converts between rows and the types of the domain.

use diesel::{
    pg::Pg,
    prelude::{Queryable, Selectable},
};
use domain::{
    delivery::{Delivery, DeliveryId, NewDelivery},
    document::{ObjectKey, Sha256Digest, StoredDocument},
    order::{EmailAddress, OrderId},
};
use time::OffsetDateTime;

use crate::{
    failure::Unreadable,
    schema::{deliveries, documents},
};

mod key;
mod order;

pub(crate) use key::{ApiKeyRow, KeyEventRow, NewApiKeyRow};
pub(crate) use order::OrderRow;

/// The column at fault. The caller adds the table and the row.
#[derive(Debug, Clone, Copy)]
struct Column(&'static str);

impl Column {
    fn of(self, table: &'static str, row: i64) -> Unreadable {
        Unreadable::new(table, &row, &self.0)
    }
}

/// Returns a limit for SQL. More than `i64::MAX` rows never exist.
pub(crate) fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Returns the text without NUL, which PostgreSQL cannot store. A mail relay may send any byte.
pub(crate) fn storable(error: &str) -> String {
    error.replace('\0', "\u{fffd}")
}

fn read_digest(bytes: Vec<u8>, column: &'static str) -> Result<[u8; 32], Column> {
    bytes.try_into().map_err(|_| Column(column))
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = documents, check_for_backend(Pg))]
pub(crate) struct DocumentRow {
    order_id: i64,
    key: String,
    name: String,
    name_as_sent: String,
    media_type: String,
    size: i64,
    sha256: Vec<u8>,
}

impl DocumentRow {
    fn into_document(self) -> Result<StoredDocument, Unreadable> {
        let unreadable = |column: Column| column.of("documents of order", self.order_id);
        Ok(StoredDocument {
            key: ObjectKey::from_stored(self.key),
            name: self.name,
            name_as_sent: self.name_as_sent,
            media_type: self.media_type,
            size: u64::try_from(self.size).map_err(|_| unreadable(Column("size")))?,
            sha256: Sha256Digest(read_digest(self.sha256, "sha256").map_err(unreadable)?),
        })
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = deliveries, check_for_backend(Pg))]
pub(crate) struct DeliveryRow {
    pub(crate) id: i64,
    order_id: i64,
    message_key: String,
    recipient: String,
    attempts: i32,
    created_at: OffsetDateTime,
    pub(crate) due_at: OffsetDateTime,
    failed_at: Option<OffsetDateTime>,
    last_error: Option<String>,
}

impl DeliveryRow {
    pub(crate) fn into_delivery(self) -> Result<Delivery, Unreadable> {
        Ok(Delivery {
            id: DeliveryId(self.id),
            order_id: OrderId(self.order_id),
            task: NewDelivery {
                message_key: self.message_key,
                recipient: EmailAddress::from_stored(self.recipient),
            },
            attempts: u32::try_from(self.attempts)
                .map_err(|_| Column("attempts").of("deliveries", self.id))?,
            created_at: self.created_at,
            due_at: self.due_at,
            failed_at: self.failed_at,
            last_error: self.last_error,
        })
    }
}
