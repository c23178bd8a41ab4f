//! Withdraws documents, and stores when they were first downloaded.

use diesel::{dsl::sql, prelude::*};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    document::ObjectKey,
    ports::{Download, Withdrawal, WriteError},
};
use sql_rows::{
    CondemnedUpload, DocumentsChange, Instant, OrderState, Prepared, Utc, WithdrawnDocument,
    condemned_of, document_row, is_order_of, not_downloaded,
    schema::{documents, events, order_changes, orders, uploads},
};

use crate::{accesses::store_access, failure::Failure, locks};

/// Withdraws a document in a transaction, and returns the condemned keys of its order. A rejection has changed nothing.
pub(super) async fn withdraw(
    connection: &mut AsyncPgConnection,
    withdrawal: &Withdrawal,
) -> Result<Result<Vec<ObjectKey>, WriteError>, Failure> {
    let (document, id) = (withdrawal.document, withdrawal.document.order);
    locks::lock(connection, "orders", &[id.0]).await?;
    let own = orders::table.find(id.0).filter(is_order_of(withdrawal.owner));
    let state = Prepared(own.select(OrderState::as_select())).get_result(connection).await;
    let order = match OrderState::is_there(state.optional()?) {
        Ok(order) => order,
        Err(error) => return Ok(Err(error)),
    };
    let row = document_row(document).select((documents::key, documents::name));
    let row: Option<(Option<String>, String)> =
        Prepared(row).get_result(connection).await.optional()?;
    let Some((key, name)) = row else { return Ok(Err(WriteError::NoSuchOrder)) };
    if let Some(key) = key {
        if order.is_held(withdrawal.at) {
            return Ok(Err(WriteError::Held));
        }
        let at = order.changed_at(withdrawal.at);
        let emptied = diesel::update(document_row(document));
        Prepared(emptied.set(WithdrawnDocument::at(at, &name))).execute(connection).await?;
        let condemned = CondemnedUpload::withdrawn(key, id, at);
        diesel::insert_into(uploads::table).values(condemned).execute(connection).await?;
        record(connection, DocumentsChange::withdrawn(document, &order, at)).await?;
        let update = diesel::update(orders::table.find(id.0));
        Prepared(update.set(orders::updated_at.eq(at))).execute(connection).await?;
        store_access(connection, withdrawal.access.as_ref()).await?;
    }
    let condemned: Vec<String> = Prepared(condemned_of(id)).get_results(connection).await?;
    Ok(Ok(condemned.into_iter().map(ObjectKey::from_stored).collect()))
}

/// Adds the entry of the history and the event of a change of documents.
pub(super) async fn record(
    connection: &mut AsyncPgConnection,
    change: DocumentsChange,
) -> QueryResult<()> {
    if let Some(entry) = change.entry {
        diesel::insert_into(order_changes::table).values(entry).execute(connection).await?;
    }
    diesel::insert_into(events::table).values(change.event).execute(connection).await?;
    Ok(())
}

/// Stores when documents were first downloaded.
pub(super) async fn note_downloads(
    connection: &mut AsyncPgConnection,
    downloads: &[Download],
) -> Result<(), Failure> {
    let orders: Vec<i64> = downloads.iter().map(|download| download.document.order.0).collect();
    locks::lock(connection, "orders", &orders).await?;
    for &Download { document, at } in downloads {
        let at = Utc(at);
        let noted = diesel::update(not_downloaded(document))
            .set(documents::first_downloaded_at.eq(Some(at)));
        if Prepared(noted).execute(connection).await? == 0 {
            continue;
        }
        let later = sql::<Instant>("greatest(").bind::<Instant, _>(at);
        let later = later.sql(", updated_at + interval '1 microsecond')");
        let order = diesel::update(orders::table.find(document.order.0));
        Prepared(order.set(orders::updated_at.eq(later))).execute(connection).await?;
    }
    Ok(())
}
