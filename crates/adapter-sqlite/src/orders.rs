//! The repository of orders.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    result::{DatabaseErrorKind, Error},
    sqlite::SqliteConnection,
};
use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::OrderId,
    ports::{NewDocuments, NewOrder, OrderRepo, OrderUpdate, StoreError, WriteError},
    webhook::EventType,
};
use sql_rows::{
    DocumentRow, KeyRow, NewEventRow, PendingOrder, Utc,
    schema::{events, orders},
};

use crate::{
    dialect,
    failure::Failure,
    ports::{add_documents, changes, key_use},
    store::{SqliteStore, at_once},
};

#[async_trait]
impl OrderRepo for SqliteStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, WriteError> {
        let order = PendingOrder::new(order, window).map_err(Failure::Unstorable)?;
        self.writer.run(move |connection| at_once(create(connection, order))).await
    }

    async fn add_documents(&self, new: &NewDocuments) -> Result<AddedRange, WriteError> {
        add_documents::add_documents(self, new).await
    }

    async fn update(&self, update: &OrderUpdate) -> Result<bool, StoreError> {
        changes::update(self, update).await
    }

    /// Checks that the database is writable: takes the write lock and reads the schema. Writes
    /// nothing.
    async fn check(&self) -> Result<(), StoreError> {
        let check = async |connection: &mut SqliteConnection| {
            orders::table.select(orders::id).first::<i64>(connection).optional()?;
            Ok(())
        };
        self.transaction_ported(check).await
    }
}

async fn create(
    connection: &mut SqliteConnection,
    order: PendingOrder,
) -> Result<OrderId, WriteError> {
    let at = order.row.created_at;
    if let Some(request) = &order.idempotent_request
        && let Some(key_use) = key_use::in_use(connection, &request.attempt.claim, at).await?
    {
        return Err(WriteError::KeyInUse(key_use));
    }
    let order_id = insert(connection, &order)?;
    let documents = order.documents.into_iter().map(|row| DocumentRow { order_id, ..row });
    match dialect::store_documents(connection, documents.collect()).await {
        Err(Failure::Swept) => return Err(WriteError::UploadSwept),
        stored => stored?,
    }
    let event = NewEventRow::new(EventType::OrderCreated, order_id, at);
    let event = diesel::insert_into(events::table).values(event);
    event.execute(connection).map_err(Failure::from)?;
    if let Some(request) = &order.idempotent_request {
        key_use::remember(connection, &KeyRow::answered(request, order_id, at, None)).await?;
    }
    Ok(OrderId(order_id))
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
    let insert = |connection: &mut SqliteConnection| {
        diesel::insert_into(orders::table)
            .values(&order.row)
            .returning(orders::id)
            .get_result(connection)
    };
    match insert(connection) {
        Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => {}
        id => return Ok(id.map_err(Failure::from)?),
    }
    // After the insertion, because most file numbers are new.
    let released = diesel::update(holder.filter(orders::created_at.le(order.window_opens_at)))
        .set(orders::holds_file_number.eq(false))
        .execute(connection)
        .map_err(Failure::from)?;
    if released == 0 {
        let created_at: Utc =
            holder.select(orders::created_at).first(connection).map_err(Failure::from)?;
        return Err(WriteError::Duplicate { created_at: created_at.0 });
    }
    Ok(insert(connection).map_err(Failure::from)?)
}
