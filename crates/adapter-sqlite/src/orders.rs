//! Orders.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    delivery::NewDelivery,
    document::StoredDocument,
    duplicate_window::DuplicateWindow,
    idempotency::IdempotentRequest,
    order::{OrderId, StoredOrder},
    ports::{CreateError, NewOrder, OrderRepo, StoreError},
};
use time::OffsetDateTime;

use crate::{
    failure::{Failure, Unreadable},
    idempotency,
    rows::{DocumentRow, NewDeliveryRow, OrderRow, instant, micros},
    schema::{deliveries, documents, orders},
    store::SqliteStore,
    uploads,
};

#[async_trait]
impl OrderRepo for SqliteStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, CreateError> {
        let order = OrderRows {
            row: OrderRow::new(order)?,
            created_at: order.created_at,
            documents: order.documents.clone(),
            deliveries: order.deliveries.clone(),
            idempotent_request: order.idempotent_request.clone(),
        };
        self.writer.run(move |connection| create(connection, &order, window)).await
    }

    async fn find(&self, id: OrderId) -> Result<Option<StoredOrder>, StoreError> {
        Ok(self.reader.run(move |connection| find(connection, id)).await?)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(self.writer.run(check).await?)
    }
}

/// A new order, and what is written with it.
struct OrderRows {
    row: OrderRow,
    created_at: OffsetDateTime,
    documents: Vec<StoredDocument>,
    deliveries: Vec<NewDelivery>,
    idempotent_request: Option<IdempotentRequest>,
}

fn create(
    connection: &mut SqliteConnection,
    order: &OrderRows,
    window: DuplicateWindow,
) -> Result<OrderId, CreateError> {
    if let Some(idempotent_request) = &order.idempotent_request
        && let Some(key_use) =
            idempotency::in_use(connection, &idempotent_request.attempt.claim, order.created_at)?
    {
        return Err(CreateError::KeyInUse(key_use));
    }
    // Most file numbers are new. Only a file number that is held needs a look at its window.
    let id = match insert(connection, &order.row)? {
        Some(id) => id,
        None => insert_after_window(connection, order, window)?,
    };
    for (position, document) in (0..).zip(&order.documents) {
        if !uploads::adopt(connection, &document.key)? {
            return Err(CreateError::UploadSwept);
        }
        insert_document(connection, DocumentRow::new(id, position, document)?)?;
    }
    insert_deliveries(connection, id, order)?;
    if let Some(idempotent_request) = &order.idempotent_request {
        idempotency::remember(connection, idempotent_request, OrderId(id), order.created_at)?;
    }
    Ok(OrderId(id))
}

/// Inserts an order that holds its file number. Returns `None` if another order holds it.
fn insert(connection: &mut SqliteConnection, row: &OrderRow) -> Result<Option<i64>, Failure> {
    Ok(diesel::insert_into(orders::table)
        .values(row)
        .on_conflict_do_nothing()
        .returning(orders::id)
        .get_result(connection)
        .optional()?)
}

/// Inserts an order whose file number another order holds, if the window of that order is over.
fn insert_after_window(
    connection: &mut SqliteConnection,
    order: &OrderRows,
    window: DuplicateWindow,
) -> Result<i64, CreateError> {
    release_file_number(connection, order, window)?;
    if let Some(id) = insert(connection, &order.row)? {
        return Ok(id);
    }
    Err(CreateError::Duplicate { created_at: holder_created_at(connection, &order.row)? })
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

/// Takes the file number from its holder if the window of the holder is over.
fn release_file_number(
    connection: &mut SqliteConnection,
    order: &OrderRows,
    window: DuplicateWindow,
) -> Result<(), Failure> {
    let end = micros(window.opens_at(order.created_at));
    diesel::update(holder!(order.row).filter(orders::created_at_us.le(end)))
        .set(orders::holds_file_number.eq(false))
        .execute(connection)?;
    Ok(())
}

fn holder_created_at(
    connection: &mut SqliteConnection,
    row: &OrderRow,
) -> Result<OffsetDateTime, Failure> {
    let (id, created_at): (i64, i64) =
        holder!(row).select((orders::id, orders::created_at_us)).first(connection)?;
    instant(created_at).ok_or_else(|| {
        let (table, row) = ("orders", id.to_string());
        Unreadable { table, row, reason: "created_at_us".to_owned() }.into()
    })
}

fn insert_document(connection: &mut SqliteConnection, row: DocumentRow) -> Result<(), Failure> {
    diesel::insert_into(documents::table).values(row).execute(connection)?;
    Ok(())
}

fn insert_deliveries(
    connection: &mut SqliteConnection,
    id: i64,
    order: &OrderRows,
) -> Result<(), Failure> {
    for delivery in &order.deliveries {
        let row = NewDeliveryRow::new(id, delivery, order.created_at);
        diesel::insert_into(deliveries::table).values(row).execute(connection)?;
    }
    Ok(())
}

fn find(connection: &mut SqliteConnection, id: OrderId) -> Result<Option<StoredOrder>, Failure> {
    let Some(order): Option<OrderRow> =
        orders::table.find(id.0).select(OrderRow::as_select()).first(connection).optional()?
    else {
        return Ok(None);
    };
    let documents: Vec<DocumentRow> = documents::table
        .filter(documents::order_id.eq(id.0))
        .order(documents::position)
        .select(DocumentRow::as_select())
        .load(connection)?;
    Ok(Some(order.into_stored(id, documents)?))
}

/// Checks that the database is writable: holds the write lock and reads the schema. Writes nothing.
fn check(connection: &mut SqliteConnection) -> Result<(), Failure> {
    orders::table.select(orders::id).first::<i64>(connection).optional()?;
    Ok(())
}
