//! The repository of orders.

use async_trait::async_trait;
use diesel::{connection::SimpleConnection as _, prelude::*, sqlite::SqliteConnection};
use domain::{
    duplicate_window::DuplicateWindow,
    order::{DocumentId, OrderId},
    ports::{
        Changed, Download, ListedOrder, NewOrder, OrderCommandRequest, OrderRepo, OrderUpdate,
        StoreError, WriteError,
    },
};
use sql_rows::{orders::PendingOrder, schema::orders};

use crate::{failure::Failure, store::SqliteStore};

pub(crate) mod admin;
mod change;
mod create;
mod erase;
pub(crate) mod feed;
mod idempotency;
pub(crate) mod list;
pub(crate) mod read;
mod update;
mod uploads;

/// A row of 32 KiB, which no other transaction sees. `secure_delete` overwrites its pages with zeros, so they are
/// committed, too.
const WRITTEN_BY_CHECK: &str =
    "INSERT INTO uploads (key, recorded_at) VALUES (hex(zeroblob(16384)), 0);
    DELETE FROM uploads WHERE key = hex(zeroblob(16384));";

#[async_trait]
impl OrderRepo for SqliteStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, WriteError> {
        let order = PendingOrder::new(order, window).map_err(Failure::Unstorable)?;
        self.writer.run(move |connection| create::create(connection, order)).await
    }

    async fn change(&self, request: &OrderCommandRequest) -> Result<Changed, WriteError> {
        let command = request.clone();
        let change = move |connection: &mut SqliteConnection| change::change(connection, &command);
        match request.owner {
            Some(_) => self.transaction(change).await,
            None => self.maintain(change).await,
        }
    }

    async fn note_downloads(&self, downloads: &[Download]) -> Result<(), StoreError> {
        let downloads = downloads.to_vec();
        let note =
            move |connection: &mut SqliteConnection| update::note_downloads(connection, &downloads);
        self.transaction(note).await
    }

    async fn store_crc32(&self, document: DocumentId, crc32: u32) -> Result<(), StoreError> {
        self.transaction(move |connection| update::store_crc32(connection, document, crc32)).await
    }

    async fn update(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError> {
        let update = update.clone();
        self.transaction(move |connection| update::update(connection, &update)).await
    }

    /// Checks that the database is writable: commits as many pages as a large order, and leaves no row. A
    /// transaction that is rolled back would not show a full disk: pages reach it with the commit.
    async fn check(&self) -> Result<(), StoreError> {
        let check = |connection: &mut SqliteConnection| {
            orders::table.select(orders::id).first::<i64>(connection).optional()?;
            Ok(connection.batch_execute(WRITTEN_BY_CHECK)?)
        };
        self.transaction(check).await
    }
}
