//! Takes over everything from another store.

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::{
    AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _,
};
use domain::{
    api_key::{ApiKey, KeyEvent},
    delivery::Delivery,
    idempotency::IdempotencyKey,
    order::{FileNumber, OrderId, StoredOrder},
    ports::{
        MoveError, RecordedUpload, RememberedRequest, StoreCounts, StoreError, StoreSource,
        StoreTarget, UsedFileNumber,
    },
};

use crate::{
    PostgresStore,
    failure::Failure,
    idempotency::NewKeyRow,
    rows::{KeyEventRow, NewApiKeyRow, NewDocumentRow, OrderRow, storable},
    schema::{
        api_keys, deliveries, documents, file_numbers, idempotency_keys, key_events, orders,
        uploads,
    },
};

/// Rows that are moved at a time; with their values they stay below the 65,535 parameters of a
/// statement.
const PAGE: usize = 500;

/// Of this transaction alone, whatever the server is set up for. It lasts as long as it lasts, and
/// sees what others have committed; a commit that is acknowledged before it is durable would be no
/// acknowledgement.
const SETTINGS: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT set_config(name, '0', true) FROM pg_settings
        WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');
    SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'";

/// Nobody else writes until everything is moved, and two that take over at once do it in turns. The
/// tables are in the order in which placing an order asks for them, so that neither holds what the
/// other waits for.
const LOCK: &str = "LOCK TABLE file_numbers, orders, documents, deliveries, uploads, idempotency_keys, api_keys, key_events IN EXCLUSIVE MODE";

/// Identifiers given from now on are none of those that were moved.
const CONTINUE: &str = "SELECT setval(pg_get_serial_sequence('orders', 'id'), max(id)) FROM orders HAVING count(*) > 0;
    SELECT setval(pg_get_serial_sequence('deliveries', 'id'), max(id)) FROM deliveries HAVING count(*) > 0;
    SELECT setval(pg_get_serial_sequence('api_keys', 'id'), max(id)) FROM api_keys HAVING count(*) > 0";

#[async_trait]
impl StoreTarget for PostgresStore {
    async fn take_over<'a>(&self, source: &'a dyn StoreSource) -> Result<StoreCounts, MoveError> {
        // Not one of the pool, whose statements end after two seconds.
        let connection = self.server.connect_unlimited().await;
        let mut connection =
            connection.map_err(|error| MoveError::Target(StoreError::Unavailable(error.into())))?;
        connection
            .transaction(async |connection| take_over(connection, source).await)
            .await
            .map_err(MoveError::from)
    }
}

/// A [`MoveError`] that the end of a transaction can add to.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Move(#[from] MoveError),
    #[error(transparent)]
    Target(#[from] Failure),
}

impl From<diesel::result::Error> for Stop {
    fn from(error: diesel::result::Error) -> Self {
        Self::Target(error.into())
    }
}

impl From<Stop> for MoveError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Move(error) => error,
            Stop::Target(failure) => Self::Target(failure.into()),
        }
    }
}

async fn take_over(
    connection: &mut AsyncPgConnection,
    source: &dyn StoreSource,
) -> Result<StoreCounts, Stop> {
    connection.batch_execute(SETTINGS).await?;
    connection.batch_execute(LOCK).await?;
    let there = counts(connection).await?;
    if there != StoreCounts::default() {
        return Err(MoveError::NotEmpty(there).into());
    }
    // Asked for before the keys and the orders, so that those of each are there, even if somebody
    // adds some meanwhile.
    let events = source.key_events().await.map_err(MoveError::Source)?;
    keep_api_keys(connection, source.api_keys().await.map_err(MoveError::Source)?).await?;
    keep_key_events(connection, events).await?;
    let deliveries = source.deliveries().await.map_err(MoveError::Source)?;
    move_file_numbers(connection, source).await?;
    move_orders(connection, source).await?;
    keep_deliveries(connection, deliveries).await?;
    keep_uploads(connection, source.uploads().await.map_err(MoveError::Source)?).await?;
    move_remembered(connection, source).await?;

    let (arrived, source_has) =
        (counts(connection).await?, source.counts().await.map_err(MoveError::Source)?);
    if arrived != source_has {
        return Err(MoveError::Differs {
            source_has: Box::new(source_has),
            arrived: Box::new(arrived),
        }
        .into());
    }
    connection.batch_execute(CONTINUE).await?;
    Ok(arrived)
}

async fn move_file_numbers(
    connection: &mut AsyncPgConnection,
    source: &dyn StoreSource,
) -> Result<(), Stop> {
    let mut last: Option<FileNumber> = None;
    loop {
        let page = source.file_numbers(last.clone(), PAGE).await.map_err(MoveError::Source)?;
        let Some(end) = page.last() else { return Ok(()) };
        last = Some(end.file_number.clone());
        keep_file_numbers(connection, page).await?;
    }
}

async fn move_orders(
    connection: &mut AsyncPgConnection,
    source: &dyn StoreSource,
) -> Result<(), Stop> {
    let mut last: Option<OrderId> = None;
    loop {
        let page = source.orders(last, PAGE).await.map_err(MoveError::Source)?;
        let Some(end) = page.last() else { return Ok(()) };
        last = Some(end.id);
        keep_orders(connection, page).await?;
    }
}

async fn move_remembered(
    connection: &mut AsyncPgConnection,
    source: &dyn StoreSource,
) -> Result<(), Stop> {
    let mut last: Option<IdempotencyKey> = None;
    loop {
        let page = source.remembered(last.clone(), PAGE).await.map_err(MoveError::Source)?;
        let Some(end) = page.last() else { return Ok(()) };
        last = Some(end.key.clone());
        keep_remembered(connection, &page).await?;
    }
}

async fn counts(connection: &mut AsyncPgConnection) -> QueryResult<StoreCounts> {
    Ok(StoreCounts {
        orders: orders::table.count().get_result::<i64>(connection).await?.unsigned_abs(),
        documents: documents::table.count().get_result::<i64>(connection).await?.unsigned_abs(),
        file_numbers: file_numbers::table
            .count()
            .get_result::<i64>(connection)
            .await?
            .unsigned_abs(),
        uploads: uploads::table.count().get_result::<i64>(connection).await?.unsigned_abs(),
        deliveries: deliveries::table.count().get_result::<i64>(connection).await?.unsigned_abs(),
        api_keys: api_keys::table.count().get_result::<i64>(connection).await?.unsigned_abs(),
        key_events: key_events::table.count().get_result::<i64>(connection).await?.unsigned_abs(),
        idempotency_keys: idempotency_keys::table
            .filter(idempotency_keys::order_id.is_not_null())
            .count()
            .get_result::<i64>(connection)
            .await?
            .unsigned_abs(),
    })
}

async fn keep_api_keys(
    connection: &mut AsyncPgConnection,
    mut keys: Vec<ApiKey>,
) -> Result<(), Failure> {
    // A key names the first of its line, which is older.
    keys.sort_by_key(|key| key.id);
    for page in keys.chunks(PAGE) {
        let row = |key: &ApiKey| {
            let ends = (
                api_keys::revoked_at.eq(key.revoked_at),
                api_keys::last_used_at.eq(key.last_used_at),
            );
            (api_keys::id.eq(key.id.0), NewApiKeyRow::new(&key.key), ends)
        };
        let rows: Vec<_> = page.iter().map(row).collect();
        diesel::insert_into(api_keys::table).values(rows).execute(connection).await?;
    }
    Ok(())
}

async fn keep_key_events(
    connection: &mut AsyncPgConnection,
    events: Vec<KeyEvent>,
) -> Result<(), Failure> {
    for page in events.chunks(PAGE) {
        let rows: Vec<_> = page
            .iter()
            .map(|event| KeyEventRow::new(event.key, event.change, event.at, &event.by))
            .collect();
        diesel::insert_into(key_events::table).values(rows).execute(connection).await?;
    }
    Ok(())
}

async fn keep_remembered(
    connection: &mut AsyncPgConnection,
    page: &[RememberedRequest],
) -> Result<(), Failure> {
    let rows: Vec<_> = page.iter().map(NewKeyRow::moved).collect();
    diesel::insert_into(idempotency_keys::table).values(rows).execute(connection).await?;
    Ok(())
}

async fn keep_file_numbers(
    connection: &mut AsyncPgConnection,
    page: Vec<UsedFileNumber>,
) -> Result<(), Failure> {
    let row = |used: UsedFileNumber| {
        (
            file_numbers::file_number.eq(used.file_number.as_str().to_owned()),
            file_numbers::created_at.eq(used.created_at),
        )
    };
    let rows: Vec<_> = page.into_iter().map(row).collect();
    diesel::insert_into(file_numbers::table).values(rows).execute(connection).await?;
    Ok(())
}

async fn keep_orders(
    connection: &mut AsyncPgConnection,
    page: Vec<StoredOrder>,
) -> Result<(), Failure> {
    let mut theirs = Vec::new();
    for order in &page {
        for (position, document) in (0..).zip(&order.documents) {
            theirs.push(NewDocumentRow::new(order.id, position, document)?);
        }
    }
    let rows = page
        .into_iter()
        .map(|order| Ok((orders::id.eq(order.id.0), OrderRow::of(order)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    diesel::insert_into(orders::table).values(rows).execute(connection).await?;
    for documents in theirs.chunks(PAGE) {
        // A document comes from the ledger.
        let row = |document: &NewDocumentRow| {
            (uploads::key.eq(document.key.clone()), uploads::recorded_at.eq(diesel::dsl::now))
        };
        let recorded: Vec<_> = documents.iter().map(row).collect();
        diesel::insert_into(uploads::table).values(recorded).execute(connection).await?;
        diesel::insert_into(documents::table).values(documents).execute(connection).await?;
    }
    Ok(())
}

async fn keep_deliveries(
    connection: &mut AsyncPgConnection,
    all: Vec<Delivery>,
) -> Result<(), Failure> {
    for page in all.chunks(PAGE) {
        let row = |delivery: &Delivery| {
            let Delivery {
                id,
                order_id,
                task,
                attempts,
                created_at,
                due_at,
                failed_at,
                last_error,
            } = delivery.clone();
            let last_error = last_error.as_deref().map(storable);
            let attempts =
                i32::try_from(attempts).map_err(|error| Failure::Unstorable(error.into()))?;
            Ok((
                (deliveries::id.eq(id.0), deliveries::order_id.eq(order_id.0)),
                (
                    deliveries::message_key.eq(task.message_key),
                    deliveries::recipient.eq(task.recipient.as_str().to_owned()),
                    deliveries::attempts.eq(attempts),
                ),
                (deliveries::created_at.eq(created_at), deliveries::due_at.eq(due_at)),
                (deliveries::failed_at.eq(failed_at), deliveries::last_error.eq(last_error)),
            ))
        };
        let rows: Vec<_> = page.iter().map(row).collect::<Result<_, Failure>>()?;
        diesel::insert_into(deliveries::table).values(rows).execute(connection).await?;
    }
    Ok(())
}

async fn keep_uploads(
    connection: &mut AsyncPgConnection,
    all: Vec<RecordedUpload>,
) -> Result<(), Failure> {
    for page in all.chunks(PAGE) {
        let row = |upload: &RecordedUpload| {
            (
                uploads::key.eq(upload.key.as_str().to_owned()),
                uploads::recorded_at.eq(upload.recorded_at),
                uploads::condemned.eq(upload.condemned),
            )
        };
        let rows: Vec<_> = page.iter().map(row).collect();
        diesel::insert_into(uploads::table).values(rows).execute(connection).await?;
    }
    Ok(())
}
