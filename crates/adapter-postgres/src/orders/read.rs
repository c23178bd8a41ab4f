//! Reads of single orders.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    result::Error,
    sql_query,
    sql_types::{BigInt, Bool},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Owner,
    document::StoredDocument,
    notary::KnownNotaries,
    order::{DocumentId, OrderId, OrderStatus, READ_NOTES, StoredOrder},
    ports::{
        Cursor, FoundOrder, HistoryEntry, HistoryId, HistoryQuery, ListFilter, ListedOrder,
        MaybeErased, NoteQuery, NumberedNote, OrderReader, Page, PageQuery, StoreError,
    },
};
use sql_rows::{
    IdRow, Instant, Prepared, Unreadable, Utc,
    documents::DocumentRow,
    order_changes::{
        OrderChangeRow, add_changes, changes_of, history_after, history_before, history_entry,
        history_page,
    },
    order_notes::{add_notes, is_place_in_notes, note_count, notes_page, notes_query},
    orders::{
        KeptOrderRow, ListedRow, created_order, created_order_and_by, creator, grouped,
        is_order_of,
        notaries::{KnownNotaryRow, notaries_query, order_behind_query},
        order_with_document, orders_with_documents, party_column, unreadable_order,
    },
    row_limit,
    schema::{order_changes, orders},
};
use time::OffsetDateTime;

use super::list;
use crate::{failure::Failure, statement::columns, store::PostgresStore};

/// The owner stands in each condition, so that the order of another owner is not even read.
#[async_trait]
impl OrderReader for PostgresStore {
    async fn order(
        &self,
        owner: Owner,
        id: OrderId,
    ) -> Result<Option<MaybeErased<StoredOrder>>, StoreError> {
        self.read_orders(async move |connection| find(connection, Some(owner), id).await).await
    }

    async fn listed(
        &self,
        owner: Owner,
        id: OrderId,
    ) -> Result<Option<MaybeErased<ListedOrder>>, StoreError> {
        let read = ListedRow::into_known;
        self.read_orders(async move |connection| listed(connection, owner, id, read).await).await
    }

    async fn history(
        &self,
        owner: Owner,
        id: OrderId,
        query: &HistoryQuery,
    ) -> Result<Option<MaybeErased<Option<Page<HistoryEntry>>>>, StoreError> {
        let query = *query;
        self.read_orders(async move |connection| history(connection, owner, id, query).await).await
    }

    async fn notes(
        &self,
        owner: Owner,
        id: OrderId,
        query: &NoteQuery,
    ) -> Result<Option<MaybeErased<Option<Page<NumberedNote>>>>, StoreError> {
        let query = *query;
        self.read_orders(async move |connection| notes(connection, owner, id, query).await).await
    }

    async fn with_documents(
        &self,
        owner: Owner,
        id: OrderId,
    ) -> Result<Option<MaybeErased<StoredOrder>>, StoreError> {
        self.read_orders(async move |connection| with_documents(connection, Some(owner), id).await)
            .await
    }

    async fn document(
        &self,
        owner: Owner,
        id: DocumentId,
    ) -> Result<Option<MaybeErased<StoredDocument>>, StoreError> {
        self.read_orders(async move |connection| document(connection, owner, id).await).await
    }

    async fn newest(
        &self,
        owner: Owner,
        file_number: &str,
    ) -> Result<Option<(OrderId, OrderStatus)>, StoreError> {
        let filter =
            ListFilter { file_number: Some(file_number.to_owned()), ..ListFilter::default() };
        let newest = async move |connection: &mut AsyncPgConnection| {
            list::newest(connection, owner, &filter).await
        };
        self.read_orders(newest).await
    }

    async fn page(&self, owner: Owner, query: &PageQuery) -> Result<Option<Page>, StoreError> {
        let query = query.clone();
        self.read_orders(async move |connection| list::page(connection, owner, &query).await).await
    }

    async fn notaries(
        &self,
        owner: Owner,
        since: OffsetDateTime,
        newest: usize,
    ) -> Result<KnownNotaries, StoreError> {
        let notaries = async move |connection: &mut AsyncPgConnection| {
            let (_, party) = party_column(owner.party);
            let newest = row_limit(newest);
            let found = sql_query(notaries_query(owner.party))
                .bind::<BigInt, _>(party)
                .bind::<Bool, _>(owner.is_test)
                .bind::<BigInt, _>(newest)
                .bind::<Instant, _>(Utc(since));
            let rows: Vec<KnownNotaryRow> = Prepared(found).get_results(connection).await?;
            let behind = sql_query(order_behind_query(owner.party))
                .bind::<BigInt, _>(party)
                .bind::<Bool, _>(owner.is_test)
                .bind::<BigInt, _>(newest);
            let behind: Vec<IdRow> = Prepared(behind).get_results(connection).await?;
            let found = rows.into_iter().filter_map(KnownNotaryRow::into_notary).collect();
            Ok(KnownNotaries { found, is_complete: behind.is_empty() })
        };
        self.read_orders(notaries).await
    }
}

/// Returns an order as `read` reads its row.
pub(super) async fn listed(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    id: OrderId,
    read: fn(ListedRow) -> Result<Option<ListedOrder>, Unreadable>,
) -> Result<Option<MaybeErased<ListedOrder>>, Failure> {
    let own = orders::table.filter(is_order_of(owner)).filter(orders::id.eq(id.0));
    let row = Prepared(own.select(columns::<ListedRow>())).get_result(connection).await.optional();
    let row: Option<ListedRow> = row.map_err(|error| unreadable_order::<Failure>(error, &id.0))?;
    let kept = |listed: Option<ListedOrder>| listed.map_or(MaybeErased::Erased, MaybeErased::Whole);
    Ok(row.map(|row| read(row).map(kept)).transpose()?)
}

async fn history(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    id: OrderId,
    query: HistoryQuery,
) -> Result<Option<MaybeErased<Option<Page<HistoryEntry>>>>, Failure> {
    let created = Prepared(created_order_and_by(owner, id)).get_result(connection).await;
    let created: Option<(Option<Utc>, Utc, i64, Option<i64>)> = created.optional()?;
    let created = match created {
        None => return Ok(None),
        Some((Some(_erased_at), ..)) => return Ok(Some(MaybeErased::Erased)),
        Some((None, at, key, person)) => (at, creator(key, person)),
    };
    let (HistoryQuery { limit, cursor }, columns) =
        (query, (order_changes::id, columns::<OrderChangeRow>()));
    if let Cursor::OlderThan(entry) | Cursor::NewerThan(entry) = cursor
        && entry != HistoryId::CREATED
    {
        let found = Prepared(history_entry(id, entry)).get_result::<i64>(connection).await;
        if found.optional()?.is_none() {
            return Ok(Some(MaybeErased::Whole(None)));
        }
    }
    let rows = match cursor {
        Cursor::NewerThan(entry) => {
            let newer = history_after(id, entry.0, limit).select(columns);
            Prepared(newer).get_results(connection).await?
        }
        Cursor::Newest | Cursor::OlderThan(_) => {
            let end = if let Cursor::OlderThan(entry) = cursor { entry.0 } else { i64::MAX };
            let older = history_before(id, end, limit).select(columns);
            Prepared(older).get_results(connection).await?
        }
    };
    Ok(Some(MaybeErased::Whole(Some(history_page(query, created, rows)?))))
}

async fn notes(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    id: OrderId,
    query: NoteQuery,
) -> Result<Option<MaybeErased<Option<Page<NumberedNote>>>>, Failure> {
    match Prepared(created_order(owner, id)).get_result(connection).await.optional()? {
        None => return Ok(None),
        Some((Some::<Utc>(_erased_at), _)) => return Ok(Some(MaybeErased::Erased)),
        Some::<(_, Utc)>((None, _)) => {}
    }
    if query.cursor != Cursor::Newest {
        let count: i64 = Prepared(note_count(id)).get_result(connection).await?;
        if !is_place_in_notes(&query.cursor, count) {
            return Ok(Some(MaybeErased::Whole(None)));
        }
    }
    Ok(Some(MaybeErased::Whole(Some(load_notes(connection, id, query).await?))))
}

/// Loads a page of the notes of an order.
async fn load_notes(
    connection: &mut AsyncPgConnection,
    id: OrderId,
    query: NoteQuery,
) -> QueryResult<Page<NumberedNote>> {
    let from = match query.cursor {
        Cursor::Newest => i64::MAX,
        Cursor::OlderThan(note) | Cursor::NewerThan(note) => note.0,
    };
    let rows = sql_query(notes_query(matches!(query.cursor, Cursor::NewerThan(_))))
        .bind::<BigInt, _>(id.0)
        .bind::<BigInt, _>(from)
        .bind::<BigInt, _>(row_limit(query.limit.saturating_add(1)));
    Ok(notes_page(query, Prepared(rows).get_results(connection).await?))
}

pub(crate) async fn document(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    id: DocumentId,
) -> Result<Option<MaybeErased<StoredDocument>>, Failure> {
    let query = order_with_document(owner, id);
    let columns = (orders::erased_at, orders::created_at, columns::<Option<DocumentRow>>());
    let row = Prepared(query.select(columns)).get_result(connection).await.optional();
    let row: Option<(Option<Utc>, Utc, Option<DocumentRow>)> =
        row.map_err(|error| unreadable_order::<Failure>(error, &id.order.0))?;
    Ok(match row {
        Some((Some(_erased_at), ..)) => Some(MaybeErased::Erased),
        Some((None, created_at, Some(document))) => {
            Some(MaybeErased::Whole(document.into_document(created_at)?))
        }
        Some((None, _, None)) | None => None,
    })
}

/// Returns an order, of any owner or of the given one. An error names the column that cannot be
/// read.
pub(crate) async fn find(
    connection: &mut AsyncPgConnection,
    owner: Option<Owner>,
    id: OrderId,
) -> Result<Option<MaybeErased<StoredOrder>>, Failure> {
    let mut found = with_documents(connection, owner, id).await?;
    if let Some(MaybeErased::Whole(stored)) = &mut found {
        load_changes(connection, &mut [stored]).await?;
        let newest = NoteQuery { limit: READ_NOTES, cursor: Cursor::Newest };
        add_notes(stored, load_notes(connection, id, newest).await?);
    }
    Ok(found)
}

/// Returns an order like [`find`], without its changes and notes.
async fn with_documents(
    connection: &mut AsyncPgConnection,
    owner: Option<Owner>,
    id: OrderId,
) -> Result<Option<MaybeErased<StoredOrder>>, Failure> {
    let rows = load(connection, owner, vec![id.0]).await;
    let mut rows = rows.map_err(|error| unreadable_order::<Failure>(error, &id.0))?;
    let Some((order, documents)) = rows.pop() else { return Ok(None) };
    Ok(Some(order.into_maybe_erased(documents)?))
}

/// Returns the orders of any owner that exist and are not erased, those of [`OrderStatus::TOLD_WITH_HISTORY`]
/// with their changes. One that cannot be read does not fail the others.
pub(crate) async fn find_each(
    connection: &mut AsyncPgConnection,
    ids: &[OrderId],
) -> Result<Vec<FoundOrder>, Failure> {
    let rows = match load(connection, None, ids.iter().map(|id| id.0).collect()).await {
        Ok(rows) => rows,
        Err(Error::DeserializationError(_)) => return find_alone(connection, ids).await,
        Err(error) => return Err(error.into()),
    };
    let found = rows.into_iter().filter_map(|(order, documents)| {
        let id = OrderId(order.id);
        let order = order.into_maybe_erased(documents).map_err(Failure::from);
        Some((id, order.map_err(StoreError::from).map(MaybeErased::whole).transpose()?))
    });
    let mut found: Vec<FoundOrder> = found.collect();
    let whole = found.iter_mut().filter_map(|(_, order)| order.as_mut().ok());
    let has_news =
        |order: &&mut StoredOrder| OrderStatus::TOLD_WITH_HISTORY.contains(&order.status);
    let mut with_changes: Vec<_> = whole.filter(has_news).collect();
    match load_changes(connection, &mut with_changes).await {
        Err(Failure::Unreadable(_)) => find_alone(connection, ids).await,
        loaded => loaded.map(|()| found),
    }
}

/// Finds orders one by one, so that an unreadable one does not fail the others.
async fn find_alone(
    connection: &mut AsyncPgConnection,
    ids: &[OrderId],
) -> Result<Vec<FoundOrder>, Failure> {
    let mut found = Vec::with_capacity(ids.len());
    for &id in ids {
        match find_for_news(connection, id).await {
            Err(unreadable @ Failure::Unreadable(_)) => found.push((id, Err(unreadable.into()))),
            order => found.extend(order?.map(|order| (id, Ok(order)))),
        }
    }
    Ok(found)
}

/// Finds an order that is not erased, with its changes if its status is told with them. Its notes are not read: nothing
/// that leaves by itself shows them.
async fn find_for_news(
    connection: &mut AsyncPgConnection,
    id: OrderId,
) -> Result<Option<StoredOrder>, Failure> {
    let rows = load(connection, None, vec![id.0]).await;
    let mut rows = rows.map_err(|error| unreadable_order::<Failure>(error, &id.0))?;
    let Some((order, documents)) = rows.pop() else { return Ok(None) };
    let mut order = order.into_maybe_erased(documents)?.whole();
    let has_news =
        |order: &&mut StoredOrder| OrderStatus::TOLD_WITH_HISTORY.contains(&order.status);
    if let Some(order) = order.as_mut().filter(has_news) {
        load_changes(connection, &mut [order]).await?;
    }
    Ok(order)
}

async fn load(
    connection: &mut AsyncPgConnection,
    owner: Option<Owner>,
    ids: Vec<i64>,
) -> QueryResult<Vec<(KeptOrderRow, Vec<DocumentRow>)>> {
    let columns = (columns::<KeptOrderRow>(), columns::<Option<DocumentRow>>());
    let mut query = orders_with_documents(ids).select(columns).into_boxed();
    if let Some(owner) = owner {
        query = query.filter(is_order_of(owner));
    }
    Ok(grouped(Prepared(query).get_results(connection).await?))
}

async fn load_changes(
    connection: &mut AsyncPgConnection,
    found: &mut [&mut StoredOrder],
) -> Result<(), Failure> {
    if found.is_empty() {
        return Ok(());
    }
    let changes = changes_of(found.iter().map(|order| order.id.0).collect());
    let changes = changes.select(columns::<OrderChangeRow>());
    let rows = Prepared(changes).get_results(connection).await?;
    Ok(add_changes(found, rows)?)
}
