//! Everything, to be moved to another store.

use std::collections::BTreeMap;

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    api_key::{ApiKey, KeyEvent},
    delivery::Delivery,
    document::ObjectKey,
    idempotency::IdempotencyKey,
    order::{FileNumber, OrderId, StoredOrder},
    ports::{
        ApiKeyRepo as _, RecordedUpload, RememberedRequest, StoreCounts, StoreError, StoreSource,
        UsedFileNumber,
    },
};

use crate::{
    SqliteStore,
    failure::{Failure, Unreadable},
    idempotency,
    rows::{DeliveryRow, DocumentRow, OrderRow, instant, row_limit},
    schema::{
        api_keys, deliveries, documents, file_numbers, idempotency_keys, key_events, orders,
        uploads,
    },
};

/// Orders that are counted at a time. All of them may take longer than a transaction may: SQLite
/// walks through the rows.
const STEP: i64 = 20_000;

#[async_trait]
impl StoreSource for SqliteStore {
    async fn counts(&self) -> Result<StoreCounts, StoreError> {
        let mut counts = self.reader.run(counts_but_orders).await?;
        let mut after = i64::MIN;
        loop {
            let ids = self.reader.run(move |connection| some_order_ids(connection, after)).await?;
            let Some(last) = ids.last() else { return Ok(counts) };
            after = *last;
            counts.orders += ids.len() as u64;
        }
    }

    async fn orders(
        &self,
        after: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<StoredOrder>, StoreError> {
        Ok(self.reader.run(move |connection| some_orders(connection, after, limit)).await?)
    }

    async fn file_numbers(
        &self,
        after: Option<FileNumber>,
        limit: usize,
    ) -> Result<Vec<UsedFileNumber>, StoreError> {
        let after = after.map(|file_number| file_number.as_str().to_owned());
        Ok(self.reader.run(move |connection| some_file_numbers(connection, after, limit)).await?)
    }

    async fn uploads(&self) -> Result<Vec<RecordedUpload>, StoreError> {
        Ok(self.reader.run(all_uploads).await?)
    }

    async fn deliveries(&self) -> Result<Vec<Delivery>, StoreError> {
        Ok(self.reader.run(all_deliveries).await?)
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.list().await
    }

    async fn key_events(&self) -> Result<Vec<KeyEvent>, StoreError> {
        self.trail().await
    }

    async fn remembered(
        &self,
        after: Option<IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RememberedRequest>, StoreError> {
        Ok(self
            .reader
            .run(move |connection| idempotency::remembered(connection, after, limit))
            .await?)
    }
}

fn counts_but_orders(connection: &mut SqliteConnection) -> Result<StoreCounts, Failure> {
    Ok(StoreCounts {
        orders: 0,
        documents: documents::table.count().get_result::<i64>(connection)?.unsigned_abs(),
        file_numbers: file_numbers::table.count().get_result::<i64>(connection)?.unsigned_abs(),
        uploads: uploads::table.count().get_result::<i64>(connection)?.unsigned_abs(),
        deliveries: deliveries::table.count().get_result::<i64>(connection)?.unsigned_abs(),
        api_keys: api_keys::table.count().get_result::<i64>(connection)?.unsigned_abs(),
        key_events: key_events::table.count().get_result::<i64>(connection)?.unsigned_abs(),
        idempotency_keys: idempotency_keys::table
            .filter(idempotency_keys::order_id.is_not_null())
            .count()
            .get_result::<i64>(connection)?
            .unsigned_abs(),
    })
}

fn some_order_ids(connection: &mut SqliteConnection, after: i64) -> Result<Vec<i64>, Failure> {
    Ok(orders::table
        .filter(orders::id.gt(after))
        .order(orders::id)
        .limit(STEP)
        .select(orders::id)
        .load(connection)?)
}

fn some_orders(
    connection: &mut SqliteConnection,
    after: Option<OrderId>,
    limit: usize,
) -> Result<Vec<StoredOrder>, Failure> {
    let after = after.map_or(i64::MIN, |id| id.0);
    let rows: Vec<(i64, OrderRow)> = orders::table
        .filter(orders::id.gt(after))
        .order(orders::id)
        .limit(row_limit(limit))
        .select((orders::id, OrderRow::as_select()))
        .load(connection)?;
    let (Some((first, _)), Some((last, _))) = (rows.first(), rows.last()) else {
        return Ok(Vec::new());
    };
    let theirs: Vec<DocumentRow> = documents::table
        .filter(documents::order_id.between(*first, *last))
        .order((documents::order_id, documents::position))
        .select(DocumentRow::as_select())
        .load(connection)?;
    let mut documents: BTreeMap<i64, Vec<DocumentRow>> = BTreeMap::new();
    for document in theirs {
        documents.entry(document.order_id()).or_default().push(document);
    }
    let stored = rows
        .into_iter()
        .map(|(id, row)| row.into_stored(OrderId(id), documents.remove(&id).unwrap_or_default()));
    Ok(stored.collect::<Result<_, _>>()?)
}

fn some_file_numbers(
    connection: &mut SqliteConnection,
    after: Option<String>,
    limit: usize,
) -> Result<Vec<UsedFileNumber>, Failure> {
    // No file number is empty, so all come after the empty text.
    let after = after.unwrap_or_default();
    let rows: Vec<(String, i64)> = file_numbers::table
        .filter(file_numbers::file_number.gt(after))
        .order(file_numbers::file_number)
        .limit(row_limit(limit))
        .load(connection)?;
    let read = |(file_number, created_at): (String, i64)| {
        let unreadable =
            |column| Unreadable { table: "file_numbers", row: file_number.clone(), column };
        Ok(UsedFileNumber {
            created_at: instant(created_at).ok_or_else(|| unreadable("created_at_us"))?,
            file_number: FileNumber::try_from(file_number.clone())
                .map_err(|_| unreadable("file_number"))?,
        })
    };
    rows.into_iter().map(read).collect()
}

fn all_uploads(connection: &mut SqliteConnection) -> Result<Vec<RecordedUpload>, Failure> {
    let rows: Vec<(String, i64, bool)> = uploads::table.order(uploads::key).load(connection)?;
    let read = |(key, recorded_at, condemned): (String, i64, bool)| {
        let unreadable =
            || Unreadable { table: "uploads", row: key.clone(), column: "recorded_at_us" };
        Ok(RecordedUpload {
            recorded_at: instant(recorded_at).ok_or_else(unreadable)?,
            key: ObjectKey::from_stored(key),
            condemned,
        })
    };
    rows.into_iter().map(read).collect()
}

fn all_deliveries(connection: &mut SqliteConnection) -> Result<Vec<Delivery>, Failure> {
    let rows: Vec<DeliveryRow> = deliveries::table
        .order(deliveries::id)
        .select(DeliveryRow::as_select())
        .load(connection)?;
    Ok(rows.into_iter().map(DeliveryRow::into_delivery).collect::<Result<_, _>>()?)
}
