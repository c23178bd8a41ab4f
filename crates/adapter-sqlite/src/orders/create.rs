//! Creates orders.

use diesel::{dsl::not, prelude::*, result::Error, sqlite::SqliteConnection};
use domain::{
    api_key::{ClientId, Owner},
    order::OrderId,
    ports::{ListFilter, WriteError},
    webhook::EventType,
};
use sql_rows::{
    Utc,
    documents::DocumentRow,
    events::NewEventRow,
    idempotency_keys::KeyRow,
    orders::{PendingOrder, lists::OrderList, update::ended},
    schema::{documents, events, orders, uploads},
};
use time::OffsetDateTime;

use super::{
    idempotency::{in_use, remember},
    list::load,
};
use crate::failure::Failure;

/// Creates an order. A rejection has changed nothing.
pub(super) fn create(
    connection: &mut SqliteConnection,
    order: PendingOrder,
) -> Result<OrderId, WriteError> {
    let at = order.row.created_at;
    if let Some(request) = &order.idempotent_request
        && let Some(key_use) = in_use(connection, &request.attempt.claim, at)?
    {
        return Err(WriteError::KeyInUse(key_use));
    }
    if let Some(created_at) = barring_order(connection, &order)? {
        return Err(WriteError::Duplicate { created_at });
    }
    let order_id = insert(connection, &order)?;
    let documents = order.documents.into_iter().map(|row| DocumentRow { order_id, ..row });
    store_documents(connection, documents)?;
    let event = NewEventRow::new(EventType::OrderCreated, order_id, at);
    let event = diesel::insert_into(events::table).values(event);
    event.execute(connection).map_err(Failure::from)?;
    if let Some(request) = &order.idempotent_request {
        remember(connection, &KeyRow::answered(request, order_id, at, None))?;
    }
    Ok(OrderId(order_id))
}

/// Returns the creation of an order that bars the file number: one within the window that has another form of it, one
/// that is newer than the client's newest may be, or the client's newest, if it takes changes again.
fn barring_order(
    connection: &mut SqliteConnection,
    order: &PendingOrder,
) -> Result<Option<OffsetDateTime>, Failure> {
    let PendingOrder { row, only_after, .. } = order;
    let created_at = orders::created_at;
    if let Some(other) = &order.other_number {
        let holder = orders::table
            .filter(orders::file_number.eq(other).and(orders::is_test.eq(row.is_test)))
            .filter(orders::holds_file_number)
            .filter(created_at.gt(order.window_opens_at))
            .filter(orders::id.ne(only_after.unwrap_or_default()));
        let barred: Option<Utc> = holder.select(created_at).first(connection).optional()?;
        if let Some(barred) = barred {
            return Ok(Some(barred.0));
        }
    }
    let Some(after) = only_after else { return Ok(None) };
    let open = orders::table
        .filter(orders::id.eq(after).and(orders::erased_at.is_null()))
        .filter(orders::status.ne_all(ended()));
    let open: Option<Utc> = open.select(created_at).first(connection).optional()?;
    if let Some(open) = open {
        return Ok(Some(open.0));
    }
    let file_number = Some(row.file_number.clone());
    let filter = ListFilter { file_number, ..ListFilter::default() };
    let owner = Some(Owner::client(ClientId(row.client_id), row.is_test));
    let (list, ids) = (OrderList { owner, filter: &filter }, after + 1..=i64::MAX);
    let newer = load(connection, list, &ids, |orders| orders, true, 1)?;
    Ok(newer.first().map(|order| order.stored.created_at))
}

/// The message of the trigger `orders_keep_file_numbers` of `migrations/`.
const HELD: &str = "another order holds the file number";

/// Inserts an order that takes its file number. Fails if the window of the order that holds the
/// number is not over, unless that is the one that it follows.
fn insert(connection: &mut SqliteConnection, order: &PendingOrder) -> Result<i64, WriteError> {
    let holder = orders::table.filter(
        orders::file_number
            .eq(&order.row.file_number)
            .and(orders::is_test.eq(order.row.is_test))
            .and(orders::holds_file_number),
    );
    let insert = |connection: &mut SqliteConnection| {
        diesel::insert_into(orders::table)
            .values((&order.row, &order.found_by))
            .returning(orders::id)
            .get_result(connection)
    };
    match insert(connection) {
        Err(Error::DatabaseError(_, error)) if error.message() == HELD => {}
        id => return Ok(id.map_err(Failure::from)?),
    }
    // After the insertion, because most file numbers are new.
    let is_free = orders::created_at
        .le(order.window_opens_at)
        .or(orders::id.eq(order.only_after.unwrap_or_default()));
    let released = diesel::update(holder.filter(is_free))
        .set(orders::holds_file_number.eq(false))
        .execute(connection)
        .map_err(Failure::from)?;
    if released == 0 {
        let created_at: Utc =
            holder.select(orders::created_at).first(connection).map_err(Failure::from)?;
        return Err(WriteError::Duplicate { created_at: created_at.0 });
    }
    Ok(insert(connection).map_err(Failure::from)?)
}

/// Stores documents, and adopts their uploads: the keys leave the ledger. Fails if one is not there,
/// or condemned.
pub(super) fn store_documents(
    connection: &mut SqliteConnection,
    rows: impl IntoIterator<Item = DocumentRow>,
) -> Result<(), Failure> {
    for row in rows {
        let own = uploads::key.nullable().eq(&row.key);
        let live = uploads::table.filter(own).filter(not(uploads::condemned));
        if diesel::delete(live).execute(connection)? == 0 {
            return Err(Failure::Rejected(WriteError::UploadSwept));
        }
        diesel::insert_into(documents::table).values(row).execute(connection)?;
    }
    Ok(())
}
