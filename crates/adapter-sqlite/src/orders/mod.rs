//! Orders: the repository, reads by clients, and what operators do.

pub(crate) mod admin;
#[path = "../../../sql-rows/ports/erase.rs"]
mod erase;
pub(crate) mod pages;
#[path = "../../../sql-rows/ports/read.rs"]
pub(crate) mod read;

use async_trait::async_trait;
use diesel::{
    dsl::not,
    prelude::*,
    result::{DatabaseErrorKind, Error},
    sqlite::SqliteConnection,
};
use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::{AddedRange, IdempotentRequest},
    order::OrderId,
    ports::{AddDocumentsError, CreateError, NewDocuments, NewOrder, OrderRepo, StoreError},
    webhook::EventType,
};
use sql_rows::{
    DocumentRow, KeyRow, NewEventRow, PendingAddition, PendingOrder, Utc,
    schema::{documents, events, orders, uploads},
};

use crate::{claims, failure::Failure, store::SqliteStore};

#[async_trait]
impl OrderRepo for SqliteStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, CreateError> {
        let order = PendingOrder::new(order, window).map_err(Failure::Unstorable)?;
        self.writer.run(move |connection| create(connection, order)).await
    }

    async fn add_documents(&self, new: &NewDocuments) -> Result<AddedRange, AddDocumentsError> {
        let addition = PendingAddition::new(new).map_err(Failure::Unstorable)?;
        self.writer.run(move |connection| add_documents(connection, addition)).await
    }

    /// Checks that the database is writable: takes the write lock and reads the schema. Writes
    /// nothing.
    async fn check(&self) -> Result<(), StoreError> {
        let check = async |connection: &mut SqliteConnection| {
            orders::table.select(orders::id).first::<i64>(connection).optional()?;
            Ok(())
        };
        self.transaction(check).await
    }
}

fn create(connection: &mut SqliteConnection, order: PendingOrder) -> Result<OrderId, CreateError> {
    let created_at = order.row.created_at;
    let idempotent_request = order.idempotent_request.as_ref();
    if let Some(key_use) = claims::in_use_by(connection, idempotent_request, created_at)? {
        return Err(CreateError::KeyInUse(key_use));
    }
    let id = insert(connection, &order)?;
    for document in order.documents {
        if !store(connection, DocumentRow { order_id: id, ..document })? {
            return Err(CreateError::UploadSwept);
        }
    }
    note(connection, EventType::OrderCreated, id, created_at, idempotent_request, None)?;
    Ok(OrderId(id))
}

/// Inserts an order that takes its file number. Fails if the window of the order that holds the
/// number is not over.
fn insert(connection: &mut SqliteConnection, order: &PendingOrder) -> Result<i64, CreateError> {
    let holder = orders::table.filter(
        orders::file_number
            .eq(&order.row.file_number)
            .and(orders::is_test.eq(order.row.is_test))
            .and(orders::holds_file_number),
    );
    diesel::update(holder.filter(orders::created_at.le(order.window_opens_at)))
        .set(orders::holds_file_number.eq(false))
        .execute(connection)
        .map_err(Failure::from)?;
    let insert = diesel::insert_into(orders::table).values(&order.row).returning(orders::id);
    match insert.get_result(connection) {
        Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => {
            let created_at: Utc =
                holder.select(orders::created_at).first(connection).map_err(Failure::from)?;
            Err(CreateError::Duplicate { created_at: created_at.0 })
        }
        id => Ok(id.map_err(Failure::from)?),
    }
}

fn add_documents(
    connection: &mut SqliteConnection,
    mut new: PendingAddition,
) -> Result<AddedRange, AddDocumentsError> {
    let request = new.idempotent_request.take();
    let idempotent_request = request.as_ref();
    if let Some(key_use) = claims::in_use_by(connection, idempotent_request, new.at)? {
        return Err(AddDocumentsError::KeyInUse(key_use));
    }
    let own = orders::table.find(new.order_id).filter(orders::client_id.eq(new.client_id));
    let changed = diesel::update(own)
        .set(orders::updated_at.eq(new.at))
        .returning(orders::erased_at)
        .get_result(connection);
    let changed: Option<Option<Utc>> = changed.optional().map_err(Failure::from)?;
    match changed {
        Some(None) => {}
        Some(Some(_erased_at)) => return Err(AddDocumentsError::Erased),
        None => return Err(AddDocumentsError::NoSuchOrder),
    }
    let stored: i64 = documents::table
        .filter(documents::order_id.eq(new.order_id))
        .count()
        .get_result(connection)
        .map_err(Failure::from)?;
    let added = new.range(stored)?;
    for document in new.take_rows(added) {
        if !store(connection, document)? {
            return Err(AddDocumentsError::UploadSwept);
        }
    }
    let event = EventType::DocumentsAdded;
    note(connection, event, new.order_id, new.at, idempotent_request, Some(added))?;
    Ok(added)
}

/// Stores a document, and adopts its upload: the key leaves the ledger. Returns `false` if it is not
/// there, or condemned.
fn store(connection: &mut SqliteConnection, row: DocumentRow) -> Result<bool, Failure> {
    let live = uploads::table.find(&row.key).filter(not(uploads::condemned));
    if diesel::delete(live).execute(connection)? == 0 {
        return Ok(false);
    }
    diesel::insert_into(documents::table).values(row).execute(connection)?;
    Ok(true)
}

/// Adds the event of a request, and remembers the request if it has an idempotency key.
fn note(
    connection: &mut SqliteConnection,
    event: EventType,
    order_id: i64,
    at: Utc,
    idempotent_request: Option<&IdempotentRequest>,
    added: Option<AddedRange>,
) -> Result<(), Failure> {
    let event = NewEventRow::new(event, order_id, at);
    diesel::insert_into(events::table).values(event).execute(connection)?;
    idempotent_request.map_or(Ok(()), |request| {
        claims::remember(connection, &KeyRow::answered(request, order_id, at, added))
    })
}
