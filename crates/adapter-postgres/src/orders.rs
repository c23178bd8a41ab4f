//! The order repository.

use async_trait::async_trait;
use diesel::{prelude::*, result::Error};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::ClientId,
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::{OrderId, StoredOrder},
    ports::{AddDocumentsError, CreateError, Kept, NewDocuments, NewOrder, OrderRepo, StoreError},
};
use futures_util::FutureExt as _;
use sql_rows::{
    DocumentRow, OrderRow, PendingOrder, Unreadable,
    schema::{documents, orders},
};

use crate::{PostgresStore, create_batch::Rejection, failure::Failure};

#[async_trait]
impl OrderRepo for PostgresStore {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, CreateError> {
        let order = PendingOrder::new(order, window)
            .map_err(|error| Rejection::from(Failure::Unstorable(error)))?;
        Ok(self.orders.run(order).await?)
    }

    async fn add_documents(&self, _: &NewDocuments) -> Result<AddedRange, AddDocumentsError> {
        Err(AddDocumentsError::Internal("documents cannot be added yet".into()))
    }

    async fn find(
        &self,
        client: ClientId,
        id: OrderId,
    ) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        let found: Option<StoredOrder> =
            self.pool.run(move |connection| find(connection, id).boxed()).await?;
        Ok(found.filter(|order| order.client == client).map(Kept::Whole))
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(self.pool.run(|connection| check(connection).boxed()).await?)
    }
}

pub(crate) async fn find(
    connection: &mut AsyncPgConnection,
    id: OrderId,
) -> Result<Option<StoredOrder>, Failure> {
    let order: Option<OrderRow> = orders::table
        .find(id.0)
        .select(OrderRow::as_select())
        .first(connection)
        .await
        .optional()
        .map_err(|error| match error {
            // The driver cannot read a column.
            Error::DeserializationError(reason) => Unreadable::new("orders", &id.0, &reason).into(),
            error => Failure::from(error),
        })?;
    let Some(order) = order else { return Ok(None) };
    let documents: Vec<DocumentRow> = documents::table
        .filter(documents::order_id.eq(id.0))
        .order(documents::position)
        .select(DocumentRow::as_select())
        .load(connection)
        .await?;
    Ok(Some(order.into_stored(id, documents)?))
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
