//! Orders.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection, upsert::excluded};
use domain::{
    delivery::NewDelivery,
    document::StoredDocument,
    duplicate_window::DuplicateWindow,
    idempotency::{KeyUse, Remembrance},
    order::{OrderId, StoredOrder},
    ports::{CreateError, NewOrder, OrderRepo, StoreError},
};
use time::OffsetDateTime;

use crate::{
    SqliteStore,
    failure::{Failure, Unreadable},
    idempotency,
    rows::{DocumentRow, NewDeliveryRow, OrderRow, instant, micros},
    schema::{deliveries, documents, file_numbers, orders, test_file_numbers},
    uploads,
};

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the file number was used a moment ago")]
    Duplicate { created_at: OffsetDateTime },
    #[error("the idempotency key is in use")]
    KeyTaken(KeyUse),
    #[error("an upload was swept")]
    UploadSwept,
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<diesel::result::Error> for Refusal {
    fn from(error: diesel::result::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Refusal> for CreateError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Duplicate { created_at } => Self::Duplicate { created_at },
            Refusal::KeyTaken(taken) => Self::KeyTaken(taken),
            Refusal::UploadSwept => Self::UploadSwept,
            Refusal::Failed(failure) => failure.into(),
        }
    }
}

#[async_trait]
impl OrderRepo for SqliteStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, CreateError> {
        let NewOrder { documents, deliveries, remembrance, .. } = order;
        let (row, created_at) = (OrderRow::new(order)?, order.created_at);
        let wanted = Wanted {
            row,
            created_at,
            documents: documents.clone(),
            deliveries: deliveries.clone(),
            remembrance: remembrance.clone(),
        };
        Ok(self.writer.run(move |connection| create(connection, &wanted, window)).await?)
    }

    async fn find(&self, id: OrderId) -> Result<Option<StoredOrder>, StoreError> {
        Ok(self.reader.run(move |connection| find(connection, id)).await?)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(self.writer.run(check).await?)
    }
}

/// One statement decides: it inserts the file number into a table, or renews it when the window has
/// left its last use behind, or touches nothing.
macro_rules! claim_file_number {
    ($connection:expr, $table:ident, $file_number:expr, $created_at:expr, $window:expr) => {{
        let row =
            ($table::file_number.eq($file_number), $table::created_at_us.eq(micros($created_at)));
        let claim = diesel::insert_into($table::table)
            .values(row)
            .on_conflict($table::file_number)
            .do_update()
            .set($table::created_at_us.eq(excluded($table::created_at_us)));
        let past = $table::created_at_us.le(micros($window.opens_at($created_at)));
        if diesel::query_dsl::methods::FilterDsl::filter(claim, past).execute($connection)? == 0 {
            let at: i64 = $table::table
                .find($file_number)
                .select($table::created_at_us)
                .first($connection)?;
            let unreadable = || Unreadable {
                table: stringify!($table),
                row: $file_number.clone(),
                column: "created_at_us",
            };
            return Err(Refusal::Duplicate {
                created_at: instant(at).ok_or_else(unreadable).map_err(Failure::from)?,
            });
        }
    }};
}

/// An order to be placed.
struct Wanted {
    row: OrderRow,
    created_at: OffsetDateTime,
    documents: Vec<StoredDocument>,
    deliveries: Vec<NewDelivery>,
    remembrance: Option<Remembrance>,
}

fn create(
    connection: &mut SqliteConnection,
    order: &Wanted,
    window: DuplicateWindow,
) -> Result<OrderId, Refusal> {
    let row = &order.row;
    if let Some(remembrance) = &order.remembrance
        && let Some(taken) =
            idempotency::in_use(connection, &remembrance.attempt.claim, order.created_at)?
    {
        return Err(Refusal::KeyTaken(taken));
    }
    if row.is_test {
        claim_file_number!(
            connection,
            test_file_numbers,
            &row.file_number,
            order.created_at,
            window
        );
    } else {
        claim_file_number!(connection, file_numbers, &row.file_number, order.created_at, window);
    }
    let id: i64 = diesel::insert_into(orders::table)
        .values(row)
        .returning(orders::id)
        .get_result(connection)?;
    for (position, document) in (0..).zip(&order.documents) {
        if !uploads::adopt(connection, &document.key)? {
            return Err(Refusal::UploadSwept);
        }
        let row = DocumentRow::new(id, position, document)?;
        diesel::insert_into(documents::table).values(row).execute(connection)?;
    }
    for delivery in &order.deliveries {
        let row = NewDeliveryRow::new(id, delivery, order.created_at);
        diesel::insert_into(deliveries::table).values(row).execute(connection)?;
    }
    if let Some(remembrance) = &order.remembrance {
        idempotency::remember(connection, remembrance, OrderId(id), order.created_at)?;
    }
    Ok(OrderId(id))
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

/// That the write lock was given and the tables are there is what is asked; nothing is written.
fn check(connection: &mut SqliteConnection) -> Result<(), Failure> {
    orders::table.select(orders::id).first::<i64>(connection).optional()?;
    Ok(())
}
