//! Orders.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection, upsert::excluded};
use domain::{
    duplicate_window::DuplicateWindow,
    order::{OrderId, PlacedOrder},
    ports::{NewOrder, OrderRepo, PlaceError, StoreError},
};
use time::OffsetDateTime;

use crate::{
    SqliteStore,
    failure::{Failure, Unreadable},
    rows::{DocumentRow, NewFollowUpRow, OrderRow, instant, micros},
    schema::{documents, file_numbers, follow_ups, orders},
    uploads,
};

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the file number was used a moment ago")]
    Duplicate { placed_at: OffsetDateTime },
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
            Refusal::UploadSwept => Self::UploadSwept,
            Refusal::Failed(failure) => failure.into(),
        }
    }
}

#[async_trait]
impl OrderRepo for SqliteStore {
    async fn place(&self, order: &NewOrder, window: DuplicateWindow) -> Result<OrderId, PlaceError> {
        let row = OrderRow::new(order)?;
        let order = order.clone();
        Ok(self.writer.run(move |connection| place(connection, &row, &order, window)).await?)
    }

    async fn find(&self, id: OrderId) -> Result<Option<PlacedOrder>, StoreError> {
        Ok(self.reader.run(move |connection| find(connection, id)).await?)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(self.writer.run(check).await?)
    }
}

fn place(connection: &mut SqliteConnection, row: &OrderRow, order: &NewOrder, window: DuplicateWindow) -> Result<OrderId, Refusal> {
    claim_file_number(connection, &row.file_number, order.placed_at, window)?;
    let id: i64 = diesel::insert_into(orders::table).values(row).returning(orders::id).get_result(connection)?;
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
    Ok(OrderId(id))
}

/// One statement decides: it inserts the file number, or renews it when the window has left its last use behind, or
/// touches nothing.
fn claim_file_number(connection: &mut SqliteConnection, file_number: &str, placed_at: OffsetDateTime, window: DuplicateWindow) -> Result<(), Refusal> {
    use diesel::query_dsl::methods::FilterDsl as _;

    use crate::schema::file_numbers::dsl;

    let opens_at = micros(window.opens_at(placed_at));
    let claimed = diesel::insert_into(file_numbers::table)
        .values((dsl::file_number.eq(file_number), dsl::placed_at_us.eq(micros(placed_at))))
        .on_conflict(dsl::file_number)
        .do_update()
        .set(dsl::placed_at_us.eq(excluded(dsl::placed_at_us)))
        .filter(dsl::placed_at_us.le(opens_at))
        .execute(connection)?;
    if claimed > 0 {
        return Ok(());
    }
    let at: i64 = file_numbers::table.find(file_number).select(dsl::placed_at_us).first(connection)?;
    let unreadable = || Unreadable { table: "file_numbers", row: file_number.to_owned(), column: "placed_at_us" };
    Err(Refusal::Duplicate { placed_at: instant(at).ok_or_else(unreadable).map_err(Failure::from)? })
}

fn find(connection: &mut SqliteConnection, id: OrderId) -> Result<Option<PlacedOrder>, Failure> {
    let Some(order): Option<OrderRow> = orders::table.find(id.0).select(OrderRow::as_select()).first(connection).optional()? else { return Ok(None) };
    let documents: Vec<DocumentRow> =
        documents::table.filter(documents::order_id.eq(id.0)).order(documents::position).select(DocumentRow::as_select()).load(connection)?;
    Ok(Some(order.into_placed(id, documents)?))
}

/// That the write lock was given and the tables are there is what is asked; nothing is written.
fn check(connection: &mut SqliteConnection) -> Result<(), Failure> {
    orders::table.select(orders::id).first::<i64>(connection).optional()?;
    Ok(())
}
