//! Reads of single orders.

use async_trait::async_trait;
use diesel::{
    dsl::{AsSelect, sql},
    expression::SqlLiteral,
    pg::Pg,
    prelude::*,
    result::Error,
    sql_types::{Array, BigInt, Binary, Integer, Nullable, Record, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::ClientId,
    document::StoredDocument,
    order::{OrderId, StoredOrder},
    ports::{FoundOrder, Kept, OrderReader, Page, PageQuery, StoreError},
};
use sql_rows::{
    DocumentRow, Instant, KeptOrderRow, Unreadable, Utc,
    schema::{documents, orders},
};

use super::{columns::unreadable, pages};
use crate::{PostgresStore, failure::Failure, statement::Prepared};

/// The documents of an order, in their order.
const DOCUMENTS: &str = "ARRAY(\
    SELECT ROW(position, key, name, name_as_sent, media_type, size, sha256, added_at) \
    FROM documents WHERE order_id = orders.id ORDER BY position)";

/// The SQL type of [`DOCUMENTS`].
type DocumentRecords =
    Array<Record<(Integer, Text, Text, Text, Text, BigInt, Binary, Nullable<Instant>)>>;

/// An element of [`DOCUMENTS`].
type DocumentRecord = (i32, String, String, String, String, i64, Vec<u8>, Option<Utc>);

/// An order with its documents.
type FoundRow = (KeptOrderRow, Vec<DocumentRecord>);

/// Selects a [`FoundRow`].
fn columns() -> (AsSelect<KeptOrderRow, Pg>, SqlLiteral<DocumentRecords>) {
    (KeptOrderRow::as_select(), sql(DOCUMENTS))
}

fn into_kept((order, documents): FoundRow) -> Result<Kept<StoredOrder>, Unreadable> {
    let order_id = order.id();
    let documents = documents.into_iter().map(|document| {
        let (position, key, name, name_as_sent, media_type, size, sha256, added_at) = document;
        DocumentRow {
            order_id,
            position,
            key,
            name,
            name_as_sent,
            media_type,
            size,
            sha256,
            added_at,
        }
    });
    order.into_kept(documents.collect())
}

/// The client stands in each condition, so that the order of another client is not even read.
#[async_trait]
impl OrderReader for PostgresStore {
    async fn order(
        &self,
        client: ClientId,
        id: OrderId,
    ) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        Ok(self.pool.read(async |connection| find(connection, Some(client), id).await).await?)
    }

    async fn document(
        &self,
        client: ClientId,
        id: OrderId,
        position: u32,
    ) -> Result<Option<Kept<StoredDocument>>, StoreError> {
        // No document has a position below 0.
        let position = i32::try_from(position).unwrap_or(-1);
        let here = documents::order_id.eq(orders::id).and(documents::position.eq(position));
        let query = orders::table
            .left_join(documents::table.on(here))
            .filter(orders::id.eq(id.0).and(orders::client_id.eq(client.0)))
            .select((orders::erased_at, orders::created_at, Option::<DocumentRow>::as_select()));
        let found = self.pool.read(async |connection| {
            let row = Prepared(query).get_result(connection).await.optional();
            let row: Option<(Option<Utc>, Utc, Option<DocumentRow>)> =
                row.map_err(|error| unreadable(error.into(), &id.0))?;
            Ok(match row {
                Some((Some(_erased_at), ..)) => Some(Kept::Erased),
                Some((None, created_at, Some(document))) => {
                    Some(Kept::Whole(document.into_document(created_at)?))
                }
                Some((None, _, None)) | None => None,
            })
        });
        Ok(found.await?)
    }

    async fn page(&self, client: ClientId, query: &PageQuery) -> Result<Option<Page>, StoreError> {
        let page = async |connection: &mut _| pages::page(connection, client, query).await;
        Ok(self.pool.read(page).await?)
    }
}

/// Returns an order, of any client or of the given one. An error names the column that cannot be
/// read.
pub(crate) async fn find(
    connection: &mut AsyncPgConnection,
    client: Option<ClientId>,
    id: OrderId,
) -> Result<Option<Kept<StoredOrder>>, Failure> {
    let mut query = orders::table.find(id.0).select(columns()).into_boxed();
    if let Some(client) = client {
        query = query.filter(orders::client_id.eq(client.0));
    }
    let row = Prepared(query).get_result(connection).await.optional();
    let row = row.map_err(|error| unreadable(error.into(), &id.0))?;
    Ok(row.map(into_kept).transpose()?)
}

/// Returns the orders of any client that exist and are not erased. One that cannot be read does not
/// fail the others.
pub(crate) async fn find_each(
    connection: &mut AsyncPgConnection,
    ids: &[OrderId],
) -> Result<Vec<FoundOrder>, Failure> {
    let keys = ids.iter().map(|id| id.0);
    let query = orders::table.filter(orders::id.eq_any(keys)).select(columns());
    let rows: Vec<FoundRow> = match Prepared(query).get_results(connection).await {
        Ok(rows) => rows,
        // Tried alone, an unreadable order does not fail the others.
        Err(Error::DeserializationError(_)) => {
            let mut found = Vec::new();
            for &id in ids {
                match find(connection, None, id).await {
                    Err(failure @ Failure::Unreadable(_)) => found.push((id, Err(failure.into()))),
                    order => {
                        found.extend(order?.and_then(Kept::whole).map(|order| (id, Ok(order))));
                    }
                }
            }
            return Ok(found);
        }
        Err(error) => return Err(error.into()),
    };
    let found = rows.into_iter().filter_map(|row| {
        let id = OrderId(row.0.id());
        let order = into_kept(row).map_err(|error| StoreError::from(Failure::from(error)));
        Some((id, order.map(Kept::whole).transpose()?))
    });
    Ok(found.collect())
}
