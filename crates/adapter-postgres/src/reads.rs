//! Reads of orders by their client.

use async_trait::async_trait;
use diesel::{
    QueryableByName,
    dsl::sql,
    prelude::*,
    result::Error,
    sql_query,
    sql_types::{Array, BigInt, Binary, Integer, Nullable, Record, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::ClientId,
    document::StoredDocument,
    order::{OrderId, StoredOrder},
    ports::{FoundOrder, Kept, OrderReader, Page, PageQuery, StoreError},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use sql_rows::{
    DocumentRow, Instant, KeptOrderRow, Unreadable, Utc,
    schema::{documents, orders},
};

use crate::{
    PostgresStore,
    batch::{Waiting, Work},
    failure::{Failure, Shared, store_error},
    order_columns::{COLUMNS, unreadable},
    pages,
    statement::Prepared,
};

#[async_trait]
impl OrderReader for PostgresStore {
    async fn order(
        &self,
        client: ClientId,
        id: OrderId,
    ) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        let asked = Asked { client: client.0, id: id.0 };
        let found = self.threads.batches().reads.run(asked).await.map_err(store_error)?;
        Ok(found.map(FoundRow::into_kept).transpose().map_err(Failure::from)?)
    }

    async fn document(
        &self,
        client: ClientId,
        id: OrderId,
        position: u32,
    ) -> Result<Option<Kept<StoredDocument>>, StoreError> {
        Ok(self
            .pool
            .read(move |connection| document(connection, client, id, position).boxed())
            .await?)
    }

    async fn page(&self, client: ClientId, query: &PageQuery) -> Result<Option<Page>, StoreError> {
        let query = query.clone();
        Ok(self
            .pool
            .read(move |connection| {
                async move { pages::page(connection, client, &query).await }.boxed()
            })
            .await?)
    }
}

/// Returns an expression for the documents of an order, in their order.
fn documents_of(order: &str) -> String {
    format!(
        "ARRAY(SELECT ROW(position, key, name, name_as_sent, media_type, size, sha256, added_at) \
        FROM documents WHERE order_id = {order}.id ORDER BY position)"
    )
}

/// The SQL type of [`documents_of`].
type DocumentRecords =
    Array<Record<(Integer, Text, Text, Text, Text, BigInt, Binary, Nullable<Instant>)>>;

/// An element of [`documents_of`].
type DocumentRecord = (i32, String, String, String, String, i64, Vec<u8>, Option<Utc>);

/// An order with its documents.
#[derive(QueryableByName)]
pub(crate) struct FoundRow {
    /// The position in the batch.
    #[diesel(sql_type = BigInt)]
    number: i64,
    #[diesel(embed)]
    order: KeptOrderRow,
    #[diesel(sql_type = DocumentRecords)]
    documents: Vec<DocumentRecord>,
}

impl FoundRow {
    pub(crate) fn into_kept(self) -> Result<Kept<StoredOrder>, Unreadable> {
        let order_id = self.order.id();
        let documents = self.documents.into_iter().map(|document| {
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
        self.order.into_kept(documents.collect())
    }
}

/// A read of an order. Reads that wait at the same time share a statement, so that any number of
/// them use two connections.
pub(crate) struct Asked {
    client: i64,
    id: i64,
}

impl Work for Asked {
    type Done = Option<FoundRow>;
    type Error = Shared;

    fn commit(
        connection: &mut AsyncPgConnection,
        batch: Vec<Waiting<Self>>,
    ) -> BoxFuture<'_, Result<(), Shared>> {
        find_all(connection, batch).boxed()
    }
}

async fn find_all(
    connection: &mut AsyncPgConnection,
    batch: Vec<Waiting<Asked>>,
) -> Result<(), Shared> {
    let asked: Vec<&Asked> = batch.iter().map(|waiting| &waiting.work).collect();
    match find(connection, &asked).await {
        Ok(found) => {
            let mut rows: Vec<Option<FoundRow>> = batch.iter().map(|_| None).collect();
            for row in found {
                let number = usize::try_from(row.number - 1).ok();
                if let Some(slot) = number.and_then(|number| rows.get_mut(number)) {
                    *slot = Some(row);
                }
            }
            for (waiting, row) in batch.into_iter().zip(rows) {
                waiting.reply(Ok(row));
            }
            Ok(())
        }
        // Tried alone, an unreadable order does not fail the others.
        Err(Failure::Database(Error::DeserializationError(_))) if batch.len() > 1 => {
            let mut health = Ok(());
            for waiting in batch {
                health = health.and(Box::pin(find_all(connection, vec![waiting])).await);
            }
            health
        }
        Err(failure) => {
            let failure = match (&batch[..], failure) {
                ([alone], failure @ Failure::Database(Error::DeserializationError(_))) => {
                    find_any(connection, OrderId(alone.work.id)).await.err().unwrap_or(failure)
                }
                (_, failure) => failure,
            };
            let failure = Shared::from(failure);
            for waiting in batch {
                waiting.reply(Err(failure.clone()));
            }
            Err(failure)
        }
    }
}

/// Returns the orders that their clients ask for. The client stands in the condition, so that the
/// order of another client is not even read. `LIMIT` keeps the planner from a join: one index
/// lookup per order, in every plan.
async fn find(
    connection: &mut AsyncPgConnection,
    asked: &[&Asked],
) -> Result<Vec<FoundRow>, Failure> {
    let documents = documents_of("o");
    let query = format!(
        "SELECT asked.number, found.* \
        FROM unnest($1, $2) WITH ORDINALITY AS asked (id, client_id, number) \
        CROSS JOIN LATERAL (SELECT {COLUMNS}, {documents} AS documents FROM orders AS o \
            WHERE o.id = asked.id AND o.client_id = asked.client_id LIMIT 1) AS found"
    );
    let (ids, clients): (Vec<i64>, Vec<i64>) =
        asked.iter().map(|asked| (asked.id, asked.client)).unzip();
    let query = sql_query(query).bind::<Array<BigInt>, _>(ids).bind::<Array<BigInt>, _>(clients);
    Ok(Prepared(query).get_results(connection).await?)
}

/// Returns an order of any client. An error names the column that cannot be read.
pub(crate) async fn find_any(
    connection: &mut AsyncPgConnection,
    id: OrderId,
) -> Result<Option<Kept<StoredOrder>>, Failure> {
    let documents = sql::<DocumentRecords>(&documents_of("orders"));
    let query = orders::table.find(id.0).select((KeptOrderRow::as_select(), documents));
    let found: Option<(KeptOrderRow, Vec<DocumentRecord>)> = Prepared(query)
        .get_result(connection)
        .await
        .optional()
        .map_err(|error| unreadable(error.into(), &id.0))?;
    let found = found.map(|(order, documents)| FoundRow { number: 1, order, documents });
    Ok(found.map(FoundRow::into_kept).transpose()?)
}

/// Returns the orders of any client that exist and are not erased. One that cannot be read does not
/// fail the others.
pub(crate) async fn find_each(
    connection: &mut AsyncPgConnection,
    ids: Vec<OrderId>,
) -> Result<Vec<FoundOrder>, Failure> {
    let documents = documents_of("o");
    let query = format!(
        "SELECT 1::bigint AS number, {COLUMNS}, {documents} AS documents FROM orders AS o \
        WHERE o.id = ANY ($1)"
    );
    let keys: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let query = Prepared(sql_query(query).bind::<Array<BigInt>, _>(keys));
    let rows: Vec<FoundRow> = match query.get_results(connection).await {
        Ok(rows) => rows,
        // Tried alone, an unreadable order does not fail the others.
        Err(Error::DeserializationError(_)) => {
            let mut found = Vec::new();
            for id in ids {
                match find_any(connection, id).await {
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
        let id = OrderId(row.order.id());
        let order = row.into_kept().map_err(|error| StoreError::from(Failure::from(error)));
        Some((id, order.map(Kept::whole).transpose()?))
    });
    Ok(found.collect())
}

/// Returns a document of an order.
async fn document(
    connection: &mut AsyncPgConnection,
    client: ClientId,
    id: OrderId,
    position: u32,
) -> Result<Option<Kept<StoredDocument>>, Failure> {
    // No document has a position below 0.
    let position = i32::try_from(position).unwrap_or(-1);
    let here = documents::order_id.eq(orders::id).and(documents::position.eq(position));
    let query = orders::table
        .left_join(documents::table.on(here))
        .filter(orders::id.eq(id.0).and(orders::client_id.eq(client.0)))
        .select((orders::erased_at, orders::created_at, Option::<DocumentRow>::as_select()));
    let found: Option<(Option<Utc>, Utc, Option<DocumentRow>)> = Prepared(query)
        .get_result(connection)
        .await
        .optional()
        .map_err(|error| unreadable(error.into(), &id.0))?;
    Ok(match found {
        Some((Some(_erased_at), ..)) => Some(Kept::Erased),
        Some((None, created_at, Some(document))) => {
            Some(Kept::Whole(document.into_document(created_at)?))
        }
        Some((None, _, None)) | None => None,
    })
}
