//! Orders.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    result::{DatabaseErrorKind, Error},
    sql_query,
    sql_types::{BigInt, Bool, Nullable, Text},
    sqlite::SqliteConnection,
};
use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::OrderId,
    ports::{AddDocumentsError, CreateError, NewDocuments, NewOrder, OrderRepo, StoreError},
    webhook::EventType,
};
use sql_rows::{
    DocumentRow, IdRow, Instant, OrderRow, PendingAddition, PendingOrder, Prepared, Utc,
    schema::{documents, orders},
};

use crate::{failure::Failure, idempotency, store::SqliteStore, uploads};

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

    async fn check(&self) -> Result<(), StoreError> {
        Ok(self.writer.run(check).await?)
    }
}

fn create(connection: &mut SqliteConnection, order: PendingOrder) -> Result<OrderId, CreateError> {
    let created_at = order.row.created_at;
    if let Some(idempotent_request) = &order.idempotent_request
        && let Some(key_use) =
            idempotency::in_use(connection, &idempotent_request.attempt.claim, created_at.0)?
    {
        return Err(CreateError::KeyInUse(key_use));
    }
    // Most file numbers are new. Only a file number that is held needs a look at its window.
    let id = match insert(connection, &order.row)? {
        Some(id) => id,
        None => insert_after_window(connection, &order)?,
    };
    for document in order.documents {
        store(connection, DocumentRow { order_id: id, ..document })?
            .ok_or(CreateError::UploadSwept)?;
    }
    note(connection, EventType::OrderCreated, id, created_at)?;
    if let Some(idempotent_request) = &order.idempotent_request {
        idempotency::remember(connection, idempotent_request, OrderId(id), created_at.0, None)?;
    }
    Ok(OrderId(id))
}

fn add_documents(
    connection: &mut SqliteConnection,
    new: PendingAddition,
) -> Result<AddedRange, AddDocumentsError> {
    if let Some(idempotent_request) = &new.idempotent_request
        && let Some(key_use) =
            idempotency::in_use(connection, &idempotent_request.attempt.claim, new.at.0)?
    {
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
    for (position, document) in (added.first_position..).zip(new.documents) {
        let position =
            i32::try_from(position).map_err(|error| Failure::Unstorable(error.into()))?;
        store(connection, DocumentRow { order_id: new.order_id, position, ..document })?
            .ok_or(AddDocumentsError::UploadSwept)?;
    }
    note(connection, EventType::DocumentsAdded, new.order_id, new.at)?;
    if let Some(idempotent_request) = &new.idempotent_request {
        let order = OrderId(new.order_id);
        idempotency::remember(connection, idempotent_request, order, new.at.0, Some(added))?;
    }
    Ok(added)
}

/// Adds an event of an order.
fn note(
    connection: &mut SqliteConnection,
    event: EventType,
    order_id: i64,
    at: Utc,
) -> Result<(), Failure> {
    let insert = sql_query("INSERT INTO events (type, order_id, created_at) VALUES (?, ?, ?)")
        .bind::<Text, _>(event.as_str())
        .bind::<BigInt, _>(order_id)
        .bind::<Instant, _>(at);
    Ok(Prepared(insert).run(connection)?)
}

/// Stores a document, and adopts its upload. Returns `None` if that was swept.
fn store(connection: &mut SqliteConnection, row: DocumentRow) -> Result<Option<()>, Failure> {
    if !uploads::adopt(connection, &row.key)? {
        return Ok(None);
    }
    diesel::insert_into(documents::table).values(row).execute(connection)?;
    Ok(Some(()))
}

/// Inserts a new order, which has no notary. It is a fixed text, because diesel walks through the
/// columns of its queries for longer than SQLite needs to insert them.
const INSERT: &str = "INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, \
    ends_at, created_at, updated_at, is_test, holds_file_number, file_number, status, details) \
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id";

/// Inserts an order that holds its file number. Returns `None` if another order holds it.
fn insert(connection: &mut SqliteConnection, row: &OrderRow) -> Result<Option<i64>, Failure> {
    let insert = sql_query(INSERT)
        .bind::<BigInt, _>(row.client_id)
        .bind::<BigInt, _>(row.api_key_id)
        .bind::<BigInt, _>(row.signing_service_id)
        .bind::<Nullable<Instant>, _>(row.starts_at)
        .bind::<Nullable<Instant>, _>(row.ends_at)
        .bind::<Instant, _>(row.created_at)
        .bind::<Instant, _>(row.updated_at)
        .bind::<Bool, _>(row.is_test)
        .bind::<Bool, _>(row.holds_file_number)
        .bind::<Text, _>(&row.file_number)
        .bind::<Text, _>(&row.status)
        .bind::<Text, _>(&row.details);
    match Prepared(insert).get_result::<IdRow>(connection) {
        Ok(row) => Ok(Some(row.id)),
        Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The order that holds the file number of a row.
macro_rules! holder {
    ($row:expr) => {
        orders::table.filter(
            orders::file_number
                .eq(&$row.file_number)
                .and(orders::is_test.eq($row.is_test))
                .and(orders::holds_file_number),
        )
    };
}

/// Inserts an order whose file number another order holds, if the window of that order is over.
fn insert_after_window(
    connection: &mut SqliteConnection,
    order: &PendingOrder,
) -> Result<i64, CreateError> {
    // Takes the file number from its holder if the window of the holder is over.
    diesel::update(holder!(order.row).filter(orders::created_at.le(order.window_opens_at)))
        .set(orders::holds_file_number.eq(false))
        .execute(connection)
        .map_err(Failure::from)?;
    if let Some(id) = insert(connection, &order.row)? {
        return Ok(id);
    }
    let created_at: Utc =
        holder!(order.row).select(orders::created_at).first(connection).map_err(Failure::from)?;
    Err(CreateError::Duplicate { created_at: created_at.0 })
}

/// Checks that the database is writable: holds the write lock and reads the schema. Writes nothing.
fn check(connection: &mut SqliteConnection) -> Result<(), Failure> {
    orders::table.select(orders::id).first::<i64>(connection).optional()?;
    Ok(())
}
