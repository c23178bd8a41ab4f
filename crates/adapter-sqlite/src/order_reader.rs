//! Reads of orders by their client.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    api_key::ClientId,
    document::StoredDocument,
    order::{OrderId, StoredOrder},
    ports::{Kept, OrderReader, Page, PageQuery, StoreError},
};
use sql_rows::{
    DocumentRow, KeptOrderRow, Utc,
    schema::{documents, orders},
};

use crate::{failure::Failure, pages, store::SqliteStore};

#[async_trait]
impl OrderReader for SqliteStore {
    async fn order(
        &self,
        client: ClientId,
        id: OrderId,
    ) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        Ok(self.order_readers.run(move |connection| order(connection, client, id)).await?)
    }

    async fn document(
        &self,
        client: ClientId,
        id: OrderId,
        position: u32,
    ) -> Result<Option<Kept<StoredDocument>>, StoreError> {
        let read = move |connection: &mut _| document(connection, client, id, position);
        Ok(self.order_readers.run(read).await?)
    }

    async fn page(&self, client: ClientId, query: &PageQuery) -> Result<Option<Page>, StoreError> {
        let query = query.clone();
        let read = move |connection: &mut _| pages::page(connection, client, &query);
        Ok(self.order_readers.run(read).await?)
    }
}

pub(crate) fn order(
    connection: &mut SqliteConnection,
    client: ClientId,
    id: OrderId,
) -> Result<Option<Kept<StoredOrder>>, Failure> {
    let own = orders::table.find(id.0).filter(orders::client_id.eq(client.0));
    let row = own.select(KeptOrderRow::as_select()).get_result(connection);
    with_documents(connection, id, row.optional())
}

/// Returns an order of any client.
pub(crate) fn any(
    connection: &mut SqliteConnection,
    id: OrderId,
) -> Result<Option<Kept<StoredOrder>>, Failure> {
    let order = orders::table.find(id.0).select(KeptOrderRow::as_select());
    let row = order.get_result(connection);
    with_documents(connection, id, row.optional())
}

fn with_documents(
    connection: &mut SqliteConnection,
    id: OrderId,
    row: QueryResult<Option<KeptOrderRow>>,
) -> Result<Option<Kept<StoredOrder>>, Failure> {
    let Some(row) = row.map_err(|error| Failure::unreadable(error, &id.0))? else {
        return Ok(None);
    };
    let documents = documents::table
        .filter(documents::order_id.eq(id.0))
        .order(documents::position)
        .select(DocumentRow::as_select())
        .load(connection)?;
    Ok(Some(row.into_kept(documents)?))
}

pub(crate) fn document(
    connection: &mut SqliteConnection,
    client: ClientId,
    id: OrderId,
    position: u32,
) -> Result<Option<Kept<StoredDocument>>, Failure> {
    let order: Option<(Option<Utc>, Utc)> = orders::table
        .find(id.0)
        .filter(orders::client_id.eq(client.0))
        .select((orders::erased_at, orders::created_at))
        .first(connection)
        .optional()
        .map_err(|error| Failure::unreadable(error, &id.0))?;
    let created_at = match order {
        Some((None, created_at)) => created_at,
        Some((Some(_erased_at), _)) => return Ok(Some(Kept::Erased)),
        None => return Ok(None),
    };
    let Ok(position) = i32::try_from(position) else { return Ok(None) };
    let document = documents::table.find((id.0, position)).select(DocumentRow::as_select());
    let document: Option<DocumentRow> = document.first(connection).optional()?;
    let document = document.map(|row| row.into_document(created_at)).transpose()?;
    Ok(document.map(Kept::Whole))
}
