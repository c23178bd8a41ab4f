//! Reads of single orders.

use async_trait::async_trait;
use diesel::{prelude::*, result::Error};
use domain::{
    api_key::Owner,
    document::StoredDocument,
    order::{OrderId, OrderStatus, StoredOrder},
    ports::{FoundOrder, Kept, OrderReader, Page, PageQuery, StoreError},
};
use sql_rows::{
    DocumentRow, KeptOrderRow, Prepared, Unreadable, Utc, is_order_of,
    schema::{documents, orders},
};

use super::pages;
use crate::{
    dialect::{Connection, RunQueryDsl, Store},
    failure::Failure,
    ports::changes::load_changes,
};

/// The owner stands in each condition, so that the order of another owner is not even read.
#[async_trait]
impl OrderReader for Store {
    async fn order(
        &self,
        owner: Owner,
        id: OrderId,
    ) -> Result<Option<Kept<StoredOrder>>, StoreError> {
        self.read_orders_ported(async move |connection| find(connection, Some(owner), id).await)
            .await
    }

    async fn document(
        &self,
        owner: Owner,
        id: OrderId,
        position: u32,
    ) -> Result<Option<Kept<StoredDocument>>, StoreError> {
        let read = async move |connection: &mut Connection| {
            document(connection, owner, id, position).await
        };
        self.read_orders_ported(read).await
    }

    async fn page(&self, owner: Owner, query: &PageQuery) -> Result<Option<Page>, StoreError> {
        let query = query.clone();
        let page =
            async move |connection: &mut Connection| pages::page(connection, owner, &query).await;
        self.read_orders_ported(page).await
    }
}

pub(crate) async fn document(
    connection: &mut Connection,
    owner: Owner,
    id: OrderId,
    position: u32,
) -> Result<Option<Kept<StoredDocument>>, Failure> {
    // No document has a position below 0.
    let position = i32::try_from(position).unwrap_or(-1);
    let here = documents::order_id.eq(orders::id).and(documents::position.eq(position));
    let query = orders::table
        .left_join(documents::table.on(here))
        .filter(orders::id.eq(id.0))
        .filter(is_order_of(owner))
        .select((orders::erased_at, orders::created_at, Option::<DocumentRow>::as_select()));
    let row = Prepared(query).get_result(connection).await.optional();
    let row: Option<(Option<Utc>, Utc, Option<DocumentRow>)> =
        row.map_err(|error| unreadable(error, &id.0))?;
    Ok(match row {
        Some((Some(_erased_at), ..)) => Some(Kept::Erased),
        Some((None, created_at, Some(document))) => {
            Some(Kept::Whole(document.into_document(created_at)?))
        }
        Some((None, _, None)) | None => None,
    })
}

/// Returns an order, of any owner or of the given one. An error names the column that cannot be
/// read.
pub(crate) async fn find(
    connection: &mut Connection,
    owner: Option<Owner>,
    id: OrderId,
) -> Result<Option<Kept<StoredOrder>>, Failure> {
    let rows = load(connection, owner, vec![id.0]).await;
    let Some((order, documents)) = rows.map_err(|error| unreadable(error, &id.0))?.pop() else {
        return Ok(None);
    };
    let mut kept = order.into_kept(documents)?;
    if let Kept::Whole(stored) = &mut kept {
        load_changes(connection, &mut [stored]).await?;
    }
    Ok(Some(kept))
}

/// Returns the orders of any owner that exist and are not erased, the cancelled ones with their
/// changes. One that cannot be read does not fail the others.
pub(crate) async fn find_each(
    store: &Store,
    ids: &[OrderId],
) -> Result<Vec<FoundOrder>, StoreError> {
    let ids = ids.to_vec();
    let find = async move |connection: &mut Connection| {
        let rows = match load(connection, None, ids.iter().map(|id| id.0).collect()).await {
            Ok(rows) => rows,
            Err(Error::DeserializationError(_)) => return find_alone(connection, &ids).await,
            Err(error) => return Err(error.into()),
        };
        let found = rows.into_iter().filter_map(|(order, documents)| {
            let id = OrderId(order.id);
            let order = order.into_kept(documents).map_err(Failure::from);
            Some((id, order.map_err(StoreError::from).map(Kept::whole).transpose()?))
        });
        let mut found: Vec<FoundOrder> = found.collect();
        let whole = found.iter_mut().filter_map(|(_, order)| order.as_mut().ok());
        let mut cancelled: Vec<_> =
            whole.filter(|order| order.status == OrderStatus::CANCELLED).collect();
        match load_changes(connection, &mut cancelled).await {
            Err(Failure::Unreadable(_)) => find_alone(connection, &ids).await,
            loaded => loaded.map(|()| found),
        }
    };
    store.read_ported(find).await
}

/// Finds orders one by one, so that an unreadable one does not fail the others.
async fn find_alone(
    connection: &mut Connection,
    ids: &[OrderId],
) -> Result<Vec<FoundOrder>, Failure> {
    let mut found = Vec::with_capacity(ids.len());
    for &id in ids {
        match find(connection, None, id).await {
            Err(unreadable @ Failure::Unreadable(_)) => found.push((id, Err(unreadable.into()))),
            order => found.extend(order?.and_then(Kept::whole).map(|order| (id, Ok(order)))),
        }
    }
    Ok(found)
}

/// Loads orders with their documents, by one statement, so that both are of one instant.
async fn load(
    connection: &mut Connection,
    owner: Option<Owner>,
    ids: Vec<i64>,
) -> QueryResult<Vec<(KeptOrderRow, Vec<DocumentRow>)>> {
    let mut query = orders::table
        .left_join(documents::table.on(documents::order_id.eq(orders::id)))
        .filter(orders::id.eq_any(ids))
        .order((orders::id, documents::position))
        .select((KeptOrderRow::as_select(), Option::<DocumentRow>::as_select()))
        .into_boxed();
    if let Some(owner) = owner {
        query = query.filter(is_order_of(owner));
    }
    let rows: Vec<(KeptOrderRow, Option<DocumentRow>)> =
        Prepared(query).get_results(connection).await?;
    let mut orders: Vec<(KeptOrderRow, Vec<DocumentRow>)> = Vec::new();
    for (order, document) in rows {
        match orders.last_mut() {
            Some((last, documents)) if last.id == order.id => documents.extend(document),
            _ => orders.push((order, document.into_iter().collect())),
        }
    }
    Ok(orders)
}

/// Names the order of which diesel cannot read a column.
pub(crate) fn unreadable(error: Error, row: &dyn ToString) -> Failure {
    match error {
        Error::DeserializationError(reason) => Unreadable::new("orders", row, &reason).into(),
        error => error.into(),
    }
}
