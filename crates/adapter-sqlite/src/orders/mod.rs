//! The repository of orders.

use async_trait::async_trait;
use diesel::{dsl::sql, prelude::*, result::Error, sqlite::SqliteConnection};
use domain::{
    document::ObjectKey,
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::{Note, OrderId},
    ports::{
        Download, ListedOrder, NewDocuments, NewNote, NewOrder, OrderAmendment, OrderRepo,
        OrderUpdate, StoreError, Withdrawal, WriteError,
    },
    webhook::EventType,
};
use sql_rows::{
    ChangedOrder, DocumentRow, Instant, KeyRow, ListedRow, NewEventRow, PendingOrder, Prepared,
    Utc, changeable_order, changed_notary,
    schema::{events, orders},
};

use self::{
    add_documents::{add_documents, store_documents},
    idempotency::{in_use, remember},
    withdraw::{note_downloads, withdraw},
};
use crate::{accesses::store_access, failure::Failure, store::SqliteStore};

mod add_documents;
mod add_note;
pub(crate) mod admin;
mod amend;
mod erase;
mod idempotency;
pub(crate) mod list;
pub(crate) mod read;
mod uploads;
mod withdraw;

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
        let new = new.clone();
        match self.transaction(move |connection| add_documents(connection, &new)).await {
            Err(Failure::Swept) => Err(WriteError::UploadSwept),
            added => added?,
        }
    }

    async fn withdraw(&self, withdrawal: &Withdrawal) -> Result<Vec<ObjectKey>, WriteError> {
        let withdrawal = withdrawal.clone();
        self.transaction::<_, Failure>(move |connection| withdraw(connection, &withdrawal)).await?
    }

    async fn note_downloads(&self, downloads: &[Download]) -> Result<(), StoreError> {
        let downloads = downloads.to_vec();
        self.transaction(move |connection| note_downloads(connection, &downloads)).await
    }

    async fn update(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError> {
        let update = update.clone();
        self.transaction(move |connection| change(connection, &update)).await
    }

    async fn amend(&self, amendment: &OrderAmendment) -> Result<ListedOrder, WriteError> {
        let amendment = amendment.clone();
        let amend = move |connection: &mut SqliteConnection| amend::amend(connection, &amendment);
        self.transaction::<_, WriteError>(amend).await?
    }

    async fn add_note(&self, new: &NewNote) -> Result<Note, WriteError> {
        let new = new.clone();
        let add = move |connection: &mut SqliteConnection| add_note::add_note(connection, &new);
        self.transaction::<_, Failure>(add).await?
    }

    /// Checks that the database is writable: takes the write lock and reads the schema. Writes
    /// nothing.
    async fn check(&self) -> Result<(), StoreError> {
        let check = |connection: &mut SqliteConnection| {
            orders::table.select(orders::id).first::<i64>(connection).optional()?;
            Ok(())
        };
        self.transaction(check).await
    }
}

fn change(
    connection: &mut SqliteConnection,
    update: &OrderUpdate,
) -> Result<Option<ListedOrder>, Failure> {
    let at = sql::<Instant>("max(").bind::<Instant, _>(Utc(update.at)).sql(", updated_at + 1)");
    let change = diesel::update(changeable_order(update))
        .set((
            ChangedOrder::from(update),
            orders::notary.eq(changed_notary(update)),
            orders::updated_at.eq(at),
        ))
        .returning(ListedRow::as_select());
    let changed = Prepared(change).get_result(connection).optional()?;
    if changed.is_some() {
        store_access(connection, update.access.as_ref())?;
    }
    Ok(changed.map(ListedRow::into_listed).transpose()?.flatten())
}

fn create(connection: &mut SqliteConnection, order: PendingOrder) -> Result<OrderId, WriteError> {
    let at = order.row.created_at;
    if let Some(request) = &order.idempotent_request
        && let Some(key_use) = in_use(connection, &request.attempt.claim, at)?
    {
        return Err(WriteError::KeyInUse(key_use));
    }
    let order_id = insert(connection, &order)?;
    let documents = order.documents.into_iter().map(|row| DocumentRow { order_id, ..row });
    match store_documents(connection, documents) {
        Err(Failure::Swept) => return Err(WriteError::UploadSwept),
        stored => stored?,
    }
    let event = NewEventRow::new(EventType::OrderCreated, order_id, at);
    let event = diesel::insert_into(events::table).values(event);
    event.execute(connection).map_err(Failure::from)?;
    if let Some(request) = &order.idempotent_request {
        remember(connection, &KeyRow::answered(request, order_id, at, None))?;
    }
    Ok(OrderId(order_id))
}

/// The message of the trigger `orders_keep_file_numbers` of `migrations/`.
const HELD: &str = "another order holds the file number";

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
            .values((&order.row, &order.found_by))
            .returning(orders::id)
            .get_result(connection)
    };
    match insert(connection) {
        Err(Error::DatabaseError(_, error)) if error.message() == HELD => {}
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
