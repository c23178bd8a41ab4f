//! The repository of orders.

pub(crate) mod create;
mod insert;

use async_trait::async_trait;
use diesel::{dsl::sql, prelude::*, sql_types::Bool};
use diesel_async::RunQueryDsl;
use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::OrderId,
    ports::{NewDocuments, NewOrder, OrderRepo, StoreError, WriteError},
};
use sql_rows::{PendingOrder, schema::orders};

use crate::{failure::Failure, ports::add_documents, store::PostgresStore};

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

    async fn add_documents(&self, new: &NewDocuments) -> Result<AddedRange, WriteError> {
        add_documents::add_documents(self, new).await
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
