//! The repository of orders.

mod add_documents;
mod add_note;
mod admin;
mod amend;
mod erase;
mod idempotency;
mod list;
pub(crate) mod read;
mod uploads;
mod withdraw;

use async_trait::async_trait;
use diesel::{dsl::sql, prelude::*, sql_types::Bool};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    document::ObjectKey,
    duplicate_window::DuplicateWindow,
    idempotency::AddedRange,
    order::{Note, OrderId},
    ports::{
        Download, ListedOrder, NewDocuments, NewNote, NewOrder, OrderAmendment, OrderRepo,
        OrderUpdate, StoreError, Withdrawal, WriteError,
    },
};
use sql_rows::{
    ChangedOrder, Instant, ListedRow, PendingOrder, Utc, changeable_order, changed_notary,
    schema::orders,
};

use crate::{accesses::WithAccess, failure::Failure, statement::Prepared, store::PostgresStore};

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
        let ended = self.change_orders::<_, Failure>(add).await;
        idempotency::outcome(self, ended, new.idempotent_request.as_ref(), new.at).await
    }

    async fn withdraw(&self, withdrawal: &Withdrawal) -> Result<Vec<ObjectKey>, WriteError> {
        let withdrawal = withdrawal.clone();
        let withdraw = async move |connection: &mut AsyncPgConnection| {
            withdraw::withdraw(connection, &withdrawal).await
        };
        self.change_orders::<_, WriteError>(withdraw).await?
    }

    async fn note_downloads(&self, downloads: &[Download]) -> Result<(), StoreError> {
        let downloads = downloads.to_vec();
        let note = async move |connection: &mut AsyncPgConnection| {
            withdraw::note_downloads(connection, &downloads).await
        };
        self.change_orders(note).await
    }

    async fn update(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError> {
        let (update, condition) = (update.clone(), self.pool.limits.change());
        let change = async move |connection: &mut AsyncPgConnection| {
            let at = sql::<Instant>("greatest(").bind::<Instant, _>(Utc(update.at));
            let at = at.sql(", updated_at + interval '1 microsecond')");
            let order = changeable_order(&update).filter(sql::<Bool>(&condition));
            let change = diesel::update(order)
                .set((
                    ChangedOrder::from(&update),
                    orders::notary.eq(changed_notary(&update)),
                    orders::updated_at.eq(at),
                ))
                .returning(ListedRow::as_select());
            let change = WithAccess::new(change, update.access.as_ref());
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

    async fn add_note(&self, new: &NewNote) -> Result<Note, WriteError> {
        let added = new.clone();
        let add = async move |connection: &mut AsyncPgConnection| {
            add_note::add_note(connection, &added).await
        };
        let ended = self.change_orders::<_, Failure>(add).await;
        idempotency::outcome(self, ended, new.idempotent_request.as_ref(), new.at).await
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
