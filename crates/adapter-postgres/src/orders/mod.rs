//! The repository of orders.

mod add_documents;
mod admin;
mod amend;
mod erase;
mod idempotency;
mod list;
pub(crate) mod read;
mod uploads;

use async_trait::async_trait;
use diesel::{dsl::sql, prelude::*, sql_types::Bool};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::OrderId,
    ports::{
        ListedOrder, NewDocuments, NewOrder, OrderAmendment, OrderRepo, OrderUpdate, StoreError,
        WriteError,
    },
};
use sql_rows::{
    ChangedOrder, Instant, ListedRow, PendingOrder, Utc, changeable_order, schema::orders,
};

use crate::{
    failure::Failure,
    statement::{CHANGE, Prepared},
    store::PostgresStore,
};

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
        let added = new.clone();
        let add = async move |connection: &mut AsyncPgConnection| {
            add_documents::add_documents(connection, &added).await
        };
        match self.change_orders::<_, Failure>(add).await {
            Ok(outcome) => outcome,
            Err(failure) => Err(idempotency::rejection(self, failure, new).await),
        }
    }

    async fn update(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError> {
        let update = update.clone();
        let change = async move |connection: &mut AsyncPgConnection| {
            let at = sql::<Instant>("greatest(").bind::<Instant, _>(Utc(update.at));
            let at = at.sql(", updated_at + interval '1 microsecond')");
            let order = changeable_order(&update).filter(sql::<Bool>(&CHANGE));
            let change = diesel::update(order)
                .set((ChangedOrder::from(&update), orders::updated_at.eq(at)))
                .returning(ListedRow::as_select());
            Ok(Prepared(change).get_results(connection).await?)
        };
        let changed: Vec<ListedRow> = self.pool.change_order(change).await?;
        let changed = changed.into_iter().map(ListedRow::into_listed);
        Ok(changed
            .collect::<Result<Vec<_>, _>>()
            .map_err(Failure::from)?
            .into_iter()
            .flatten()
            .next())
    }

    async fn amend(&self, amendment: &OrderAmendment) -> Result<ListedOrder, WriteError> {
        let amendment = amendment.clone();
        let amend = async move |connection: &mut AsyncPgConnection| {
            amend::amend(connection, &amendment).await
        };
        self.change_orders::<_, WriteError>(amend).await?
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
