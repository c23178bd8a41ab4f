//! Orders.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    result::{DatabaseErrorKind, Error},
    sqlite::SqliteConnection,
};
use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::{AddedRange, IdempotentRequest},
    order::OrderId,
    ports::{NewDocuments, NewOrder, OrderRepo, StoreError, WriteError},
    webhook::EventType,
};
use sql_rows::{
    DocumentRow, PendingAddition, PendingOrder, Utc,
    schema::{documents, events, orders},
};

use crate::{failure::Failure, idempotency, store::SqliteStore, uploads};

#[async_trait]
impl OrderRepo for SqliteStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, WriteError> {
        let order = PendingOrder::new(order, window).map_err(Failure::Unstorable)?;
        self.writer.run(move |connection| create(connection, order)).await
    }

    async fn add_documents(&self, new: &NewDocuments) -> Result<AddedRange, WriteError> {
        let addition = PendingAddition::new(new).map_err(Failure::Unstorable)?;
        self.writer.run(move |connection| add_documents(connection, addition)).await
    }

    /// Checks that the database is writable: takes the write lock and reads the schema. Writes
    /// nothing.
    async fn check(&self) -> Result<(), StoreError> {
        let check = |connection: &mut SqliteConnection| {
            orders::table.select(orders::id).first::<i64>(connection).optional()?;
            Ok(())
        };
        self.write(check).await
    }
}

fn create(connection: &mut SqliteConnection, order: PendingOrder) -> Result<OrderId, WriteError> {
    let created_at = order.row.created_at;
    let idempotent_request = order.idempotent_request.as_ref();
    if let Some(key_use) = idempotency::in_use_by(connection, idempotent_request, created_at)? {
        return Err(WriteError::KeyInUse(key_use));
    }
    let id = insert(connection, &order)?;
    for document in order.documents {
        if !store(connection, DocumentRow { order_id: id, ..document })? {
            return Err(WriteError::UploadSwept);
        }
    }
    note(connection, EventType::OrderCreated, id, created_at, idempotent_request, None)?;
    Ok(OrderId(id))
}

/// Inserts an order that takes its file number. Fails if the window of the order that holds the
/// number is not over.
fn insert(connection: &mut SqliteConnection, order: &PendingOrder) -> Result<i64, WriteError> {
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
            Err(WriteError::Duplicate { created_at: created_at.0 })
        }
        id => Ok(id.map_err(Failure::from)?),
    }
}

fn add_documents(
    connection: &mut SqliteConnection,
    new: PendingAddition,
) -> Result<AddedRange, WriteError> {
    let idempotent_request = new.idempotent_request.as_ref();
    if let Some(key_use) = idempotency::in_use_by(connection, idempotent_request, new.at)? {
        return Err(WriteError::KeyInUse(key_use));
    }
    let own = orders::table.find(new.order_id).filter(orders::client_id.eq(new.client_id));
    let changed = diesel::update(own)
        .set(orders::updated_at.eq(new.at))
        .returning(orders::erased_at)
        .get_result(connection);
    let changed: Option<Option<Utc>> = changed.optional().map_err(Failure::from)?;
    match changed {
        Some(None) => {}
        Some(Some(_erased_at)) => return Err(WriteError::Erased),
        None => return Err(WriteError::NoSuchOrder),
    }
    let stored: i64 = documents::table
        .filter(documents::order_id.eq(new.order_id))
        .count()
        .get_result(connection)
        .map_err(Failure::from)?;
    let added = new.range(stored)?;
    for (position, document) in (added.first_position..).zip(new.documents) {
        let position =
            i32::try_from(position).map_err(|error| Failure::Unstorable(error.into()))?;
        if !store(connection, DocumentRow { order_id: new.order_id, position, ..document })? {
            return Err(WriteError::UploadSwept);
        }
    }
    let event = EventType::DocumentsAdded;
    note(connection, event, new.order_id, new.at, idempotent_request, Some(added))?;
    Ok(added)
}

/// Stores a document, and adopts its upload. Returns `false` if that was swept.
fn store(connection: &mut SqliteConnection, row: DocumentRow) -> Result<bool, Failure> {
    if !uploads::adopt(connection, &row.key)? {
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
    let row =
        (events::kind.eq(event.as_str()), events::order_id.eq(order_id), events::created_at.eq(at));
    diesel::insert_into(events::table).values(row).execute(connection)?;
    match idempotent_request {
        Some(request) => idempotency::remember(connection, request, order_id, at, added),
        None => Ok(()),
    }
}
