//! Orders.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection, upsert::excluded};
use domain::{
    document::StoredDocument,
    duplicate_window::DuplicateWindow,
    follow_up::NewFollowUp,
    idempotency::{KeyUse, Remembrance},
    order::{OrderId, PlacedOrder},
    ports::{NewOrder, OrderRepo, PlaceError, StoreError},
};
use time::OffsetDateTime;

use crate::{
    SqliteStore,
    failure::{Failure, Unreadable},
    idempotency,
    rows::{DocumentRow, NewFollowUpRow, OrderRow, instant, micros},
    schema::{documents, file_numbers, follow_ups, orders, test_file_numbers},
    uploads,
};

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the file number was used a moment ago")]
    Duplicate { placed_at: OffsetDateTime },
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

impl From<Refusal> for PlaceError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Duplicate { placed_at } => Self::Duplicate { placed_at },
            Refusal::KeyTaken(taken) => Self::KeyTaken(taken),
            Refusal::UploadSwept => Self::UploadSwept,
            Refusal::Failed(failure) => failure.into(),
        }
    }
}

#[async_trait]
impl OrderRepo for SqliteStore {
    async fn place(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, PlaceError> {
        let NewOrder { documents, follow_ups, remembrance, .. } = order;
        let (row, placed_at) = (OrderRow::new(order)?, order.placed_at);
        let wanted = Wanted {
            row,
            placed_at,
            documents: documents.clone(),
            follow_ups: follow_ups.clone(),
            remembrance: remembrance.clone(),
        };
        Ok(self.writer.run(move |connection| place(connection, &wanted, window)).await?)
    }

    async fn find(&self, id: OrderId) -> Result<Option<PlacedOrder>, StoreError> {
        Ok(self.reader.run(move |connection| find(connection, id)).await?)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(self.writer.run(check).await?)
    }
}

/// One statement decides: it inserts the file number into a table, or renews it when the window has
/// left its last use behind, or touches nothing.
macro_rules! claim_file_number {
    ($connection:expr, $table:ident, $file_number:expr, $placed_at:expr, $window:expr) => {{
        let row =
            ($table::file_number.eq($file_number), $table::placed_at_us.eq(micros($placed_at)));
        let claim = diesel::insert_into($table::table)
            .values(row)
            .on_conflict($table::file_number)
            .do_update()
            .set($table::placed_at_us.eq(excluded($table::placed_at_us)));
        let past = $table::placed_at_us.le(micros($window.opens_at($placed_at)));
        if diesel::query_dsl::methods::FilterDsl::filter(claim, past).execute($connection)? == 0 {
            let at: i64 =
                $table::table.find($file_number).select($table::placed_at_us).first($connection)?;
            let unreadable = || Unreadable {
                table: stringify!($table),
                row: $file_number.clone(),
                column: "placed_at_us",
            };
            return Err(Refusal::Duplicate {
                placed_at: instant(at).ok_or_else(unreadable).map_err(Failure::from)?,
            });
        }
    }};
}

/// An order to be placed.
struct Wanted {
    row: OrderRow,
    placed_at: OffsetDateTime,
    documents: Vec<StoredDocument>,
    follow_ups: Vec<NewFollowUp>,
    remembrance: Option<Remembrance>,
}

fn place(
    connection: &mut SqliteConnection,
    order: &Wanted,
    window: DuplicateWindow,
) -> Result<OrderId, Refusal> {
    let row = &order.row;
    if let Some(remembrance) = &order.remembrance
        && let Some(taken) =
            idempotency::in_use(connection, &remembrance.attempt.claim, order.placed_at)?
    {
        return Err(Refusal::KeyTaken(taken));
    }
    if row.is_test {
        claim_file_number!(
            connection,
            test_file_numbers,
            &row.file_number,
            order.placed_at,
            window
        );
    } else {
        claim_file_number!(connection, file_numbers, &row.file_number, order.placed_at, window);
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
    for follow_up in &order.follow_ups {
        let row = NewFollowUpRow::new(id, follow_up, order.placed_at);
        diesel::insert_into(follow_ups::table).values(row).execute(connection)?;
    }
    if let Some(remembrance) = &order.remembrance {
        idempotency::remember(connection, remembrance, OrderId(id), order.placed_at)?;
    }
    Ok(OrderId(id))
}

fn find(connection: &mut SqliteConnection, id: OrderId) -> Result<Option<PlacedOrder>, Failure> {
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
    Ok(Some(order.into_placed(id, documents)?))
}

/// That the write lock was given and the tables are there is what is asked; nothing is written.
fn check(connection: &mut SqliteConnection) -> Result<(), Failure> {
    orders::table.select(orders::id).first::<i64>(connection).optional()?;
    Ok(())
}
