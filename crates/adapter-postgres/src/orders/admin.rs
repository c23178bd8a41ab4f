//! What operators do with orders of any client.

use async_trait::async_trait;
use diesel::{
    sql_query,
    sql_types::{BigInt, Nullable, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    document::ObjectKey,
    order::{OrderId, StoredOrder, record::ADDRESSES},
    ports::{Kept, ListedOrder, OrderAdmin, OrderFilter, StoreError},
};
use sql_rows::{Utc, row_limit};
use time::OffsetDateTime;

use super::pages::{ListedRow, listed_columns, source};
use crate::{
    failure::Failure,
    ports::{
        erase,
        read::{self, unreadable},
    },
    statement::IdRow,
    store::PostgresStore,
};

/// Looks at the oldest orders of each owner, because the indexes of orders begin with the owner.
const CREATED_BEFORE: &str = "WITH RECURSIVE clients (id) AS (\
        (SELECT client_id FROM orders WHERE erased_at IS NULL ORDER BY client_id LIMIT 1) \
        UNION ALL SELECT (SELECT client_id FROM orders \
            WHERE client_id > clients.id AND erased_at IS NULL ORDER BY client_id LIMIT 1) \
        FROM clients WHERE clients.id IS NOT NULL\
    ) SELECT oldest.id FROM clients CROSS JOIN (VALUES (false), (true)) AS mode (is_test) \
    CROSS JOIN LATERAL (\
        SELECT id, created_at FROM orders WHERE client_id = clients.id \
        AND orders.is_test = mode.is_test AND erased_at IS NULL AND created_at < $1 \
        ORDER BY created_at, id LIMIT $2\
    ) AS oldest ORDER BY oldest.created_at, oldest.id LIMIT $2";

#[async_trait]
impl OrderAdmin for PostgresStore {
    async fn list(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<ListedOrder>, StoreError> {
        // Not a connection of the pool: no index has addresses, so this may take long.
        let connection = self.server.connect_unlimited().await;
        let mut connection = connection.map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(list(&mut connection, filter, before, limit).await?)
    }

    async fn order(&self, id: OrderId) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        self.read_orders(async |connection| read::find(connection, None, id).await).await
    }

    async fn created_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<OrderId>, StoreError> {
        let query = sql_query(CREATED_BEFORE)
            .bind::<Timestamptz, _>(instant)
            .bind::<BigInt, _>(row_limit(limit));
        let oldest = async move |connection: &mut AsyncPgConnection| {
            let rows: Vec<IdRow> = query.get_results(connection).await?;
            Ok(rows.into_iter().map(|row| OrderId(row.id)).collect())
        };
        self.maintain(oldest).await
    }

    async fn erase(
        &self,
        id: OrderId,
        at: OffsetDateTime,
    ) -> Result<Option<Vec<ObjectKey>>, StoreError> {
        self.maintain(async |connection| erase::erase(connection, id, Utc(at)).await).await
    }

    async fn remove_mails(&self, at: OffsetDateTime) -> Result<usize, StoreError> {
        let remove = async move |connection: &mut _| erase::remove_mails(connection, Utc(at)).await;
        self.maintain(remove).await
    }
}

async fn list(
    connection: &mut AsyncPgConnection,
    filter: &OrderFilter,
    before: Option<OrderId>,
    limit: usize,
) -> Result<Vec<ListedOrder>, Failure> {
    let addresses =
        ADDRESSES.map(|path| format!("lower(details #>> '{{{}}}')", path.join(","))).join(", ");
    let columns = listed_columns();
    let source = source(filter.file_number.as_deref());
    // The statement is planned for its values, because the connection is new. So the planner sees
    // which index serves them.
    let query = format!(
        "SELECT {columns} FROM {source} WHERE erased_at IS NULL AND id < $4 \
        AND ($1 IS NULL OR file_number = $1) AND ($2 IS NULL OR client_id = $2) \
        AND ($3 IS NULL OR lower($3) IN ({addresses})) ORDER BY id DESC LIMIT $5"
    );
    let rows: Vec<ListedRow> = sql_query(query)
        .bind::<Nullable<Text>, _>(filter.file_number.as_deref())
        .bind::<Nullable<BigInt>, _>(filter.client.map(|client| client.0))
        .bind::<Nullable<Text>, _>(filter.email.as_deref())
        .bind::<BigInt, _>(before.map_or(i64::MAX, |id| id.0))
        .bind::<BigInt, _>(row_limit(limit))
        .get_results(connection)
        .await
        .map_err(|error| unreadable(error, &"of a list"))?;
    ListedRow::all_listed(rows)
}
