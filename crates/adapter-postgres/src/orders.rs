//! The order repository.

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::OrderId,
    ports::{AddDocumentsError, CreateError, NewDocuments, NewOrder, OrderRepo, StoreError},
};
use futures_util::FutureExt as _;
use sql_rows::{PendingOrder, schema::orders};

use crate::{PostgresStore, add_documents, create_batch::Rejection, failure::Failure};

#[async_trait]
impl OrderRepo for PostgresStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, CreateError> {
        let order = PendingOrder::new(order, window)
            .map_err(|error| Rejection::from(Failure::Unstorable(error)))?;
        Ok(self.threads.batches().orders.run(order).await?)
    }

    async fn add_documents(&self, new: &NewDocuments) -> Result<AddedRange, AddDocumentsError> {
        add_documents::add_documents(&self.pool, new).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(self.pool.run(|connection| check(connection).boxed()).await?)
    }
}

/// Checks that the tables exist and the database accepts writes. Writes nothing.
async fn check(connection: &mut AsyncPgConnection) -> Result<(), Failure> {
    use diesel::dsl::sql;

    let read_only: bool = diesel::select(sql::<diesel::sql_types::Bool>(
        "current_setting('transaction_read_only')::boolean",
    ))
    .get_result(connection)
    .await?;
    if read_only {
        return Err(Failure::ReadOnly);
    }
    orders::table.select(orders::id).first::<i64>(connection).await.optional()?;
    Ok(())
}
