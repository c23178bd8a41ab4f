//! Conversions between the domain and rows.

use diesel::{
    prelude::{Insertable, Queryable, Selectable},
    sqlite::Sqlite,
};
use domain::{
    delivery::{Delivery, DeliveryId, NewDelivery},
    document::{ObjectKey, Sha256Digest, StoredDocument},
    order::{EmailAddress, OrderId},
};
use time::OffsetDateTime;

use crate::{
    failure::{Failure, Unreadable},
    schema::{deliveries, documents},
};

mod key;
mod order;

pub(crate) use key::{ApiKeyRow, KeyEventRow, NewApiKeyRow};
pub(crate) use order::OrderRow;

/// The column that cannot be read. The caller adds the row.
#[derive(Debug, Clone, Copy)]
struct Column(&'static str);

impl Column {
    fn of(self, table: &'static str, row: i64) -> Unreadable {
        Unreadable { table, row: row.to_string(), reason: self.0.to_owned() }
    }
}

/// Returns the microseconds since 1970. Every year that the program accepts fits.
pub(crate) fn micros(at: OffsetDateTime) -> i64 {
    at.unix_timestamp() * 1_000_000 + i64::from(at.microsecond())
}

/// Returns the instant of [`micros`].
pub(crate) fn instant(micros: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).ok()
}

/// Returns a limit that SQL can represent.
pub(crate) fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn read_instant(micros: i64, column: &'static str) -> Result<OffsetDateTime, Column> {
    instant(micros).ok_or(Column(column))
}

fn read_digest(bytes: Vec<u8>, column: &'static str) -> Result<[u8; 32], Column> {
    bytes.try_into().map_err(|_| Column(column))
}

#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = documents, check_for_backend(Sqlite))]
pub(crate) struct DocumentRow {
    order_id: i64,
    position: i64,
    key: String,
    name: String,
    name_as_sent: String,
    media_type: String,
    size: i64,
    sha256: Vec<u8>,
}

impl DocumentRow {
    pub(crate) fn new(
        order_id: i64,
        position: i64,
        document: &StoredDocument,
    ) -> Result<Self, Failure> {
        Ok(Self {
            order_id,
            position,
            key: document.key.as_str().to_owned(),
            name: document.name.clone(),
            name_as_sent: document.name_as_sent.clone(),
            media_type: document.media_type.clone(),
            size: i64::try_from(document.size)
                .map_err(|error| Failure::Unstorable(error.into()))?,
            sha256: document.sha256.0.to_vec(),
        })
    }

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

#[derive(Insertable)]
#[diesel(table_name = deliveries)]
pub(crate) struct NewDeliveryRow<'a> {
    order_id: i64,
    message_key: &'a str,
    recipient: &'a str,
    created_at_us: i64,
    due_at_us: i64,
}

impl<'a> NewDeliveryRow<'a> {
    pub(crate) fn new(order_id: i64, task: &'a NewDelivery, at: OffsetDateTime) -> Self {
        Self {
            order_id,
            message_key: &task.message_key,
            recipient: task.recipient.as_str(),
            created_at_us: micros(at),
            due_at_us: micros(at),
        }
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = deliveries, check_for_backend(Sqlite))]
pub(crate) struct DeliveryRow {
    pub(crate) id: i64,
    order_id: i64,
    message_key: String,
    recipient: String,
    attempts: i64,
    created_at_us: i64,
    pub(crate) due_at_us: i64,
    failed_at_us: Option<i64>,
    last_error: Option<String>,
}

impl DeliveryRow {
    pub(crate) fn into_delivery(self) -> Result<Delivery, Unreadable> {
        let id = self.id;
        self.read().map_err(|column| column.of("deliveries", id))
    }

    fn read(self) -> Result<Delivery, Column> {
        Ok(Delivery {
            id: DeliveryId(self.id),
            order_id: OrderId(self.order_id),
            task: NewDelivery {
                message_key: self.message_key,
                recipient: EmailAddress::from_stored(self.recipient),
            },
            attempts: u32::try_from(self.attempts).map_err(|_| Column("attempts"))?,
            created_at: read_instant(self.created_at_us, "created_at_us")?,
            due_at: read_instant(self.due_at_us, "due_at_us")?,
            failed_at: self.failed_at_us.map(|at| read_instant(at, "failed_at_us")).transpose()?,
            last_error: self.last_error,
        })
    }
}
