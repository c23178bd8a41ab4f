//! The repository of orders.

mod admin;
mod change;
mod erase;
mod feed;
mod idempotency;
mod list;
pub(crate) mod read;
mod update;
mod uploads;

use async_trait::async_trait;
use diesel::{dsl::sql, prelude::*, sql_types::Bool};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    duplicate_window::DuplicateWindow,
    order::{DocumentId, OrderId},
    ports::{
        Changed, Download, ListedOrder, NewOrder, OrderCommandRequest, OrderRepo, OrderUpdate,
        StoreError, WriteError,
    },
};
use sql_rows::{orders::PendingOrder, schema::orders};

use crate::{failure::Failure, store::PostgresStore};

#[async_trait]
impl OrderRepo for PostgresStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, WriteError> {
        let order = PendingOrder::new(order, window).map_err(Failure::Unstorable)?;
        self.orders.create(order).await
    }

    async fn change(&self, request: &OrderCommandRequest) -> Result<Changed, WriteError> {
        let command = request.clone();
        let change = async move |connection: &mut AsyncPgConnection| {
            change::change(connection, &command).await
        };
        let changed: Result<_, Failure> = match request.owner {
            Some(owner) => {
                Box::pin(self.pool.change_in_transaction(Some(owner.party), change)).await
            }
            None => self.maintain(change).await,
        };
        match changed {
            Ok(changed) => Ok(changed),
            Err(failure) => Err(idempotency::rejection(self, failure, request).await),
        }
    }

    async fn note_downloads(&self, downloads: &[Download]) -> Result<(), StoreError> {
        let downloads = downloads.to_vec();
        let note = async move |connection: &mut AsyncPgConnection| {
            update::note_downloads(connection, &downloads).await
        };
        Ok(self.pool.change_in_transaction(None, note).await?)
    }

    async fn store_crc32(&self, document: DocumentId, crc32: u32) -> Result<(), StoreError> {
        let store = async move |connection: &mut AsyncPgConnection| {
            update::store_crc32(connection, document, crc32).await
        };
        Ok(self.pool.change_in_transaction(None, store).await?)
    }

    async fn update(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError> {
        let (update, limits) = (update.clone(), self.pool.limits.change());
        let party = update.owner.party;
        let change = async move |connection: &mut AsyncPgConnection| {
            update::update(connection, &update, &limits).await
        };
        Ok(self.pool.change_by_statement(party, change).await?)
    }

    /// Checks that the tables exist and the database accepts writes. Writes nothing.
    async fn check(&self) -> Result<(), StoreError> {
        let checked = self.pool.run(async |connection| {
            let read_only = sql::<Bool>("current_setting('transaction_read_only')::boolean");
            if diesel::select(read_only).get_result(connection).await? {
                return Err(Failure::ReadOnly);
            }
            let any = orders::table.select(orders::id).first::<i64>(connection);
            any.await.optional()?;
            Ok(())
        });
        Ok(checked.await?)
    }
}
