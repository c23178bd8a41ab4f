//! The queue of deliveries.

use async_trait::async_trait;
use diesel::{dsl, prelude::*, sql_query, sql_types::BigInt, sqlite::SqliteConnection};
use domain::{
    delivery::{Delivery, DeliveryId},
    order::OrderId,
    ports::{Attempted, DeliveryQueue, FoundOrder, Kept, Lease, QueueStats, StoreError},
};
use sql_rows::{
    DeliveryRow, Instant, REMOVED_COUNTS, UnsuccessfulAttempt, Utc, counted_hours,
    hashed_recipient, row_limit,
    schema::{deliveries, events, recipient_mails},
};
use time::{Duration, OffsetDateTime};

use crate::{failure::Failure, order_reader, store::SqliteStore};

#[async_trait]
impl DeliveryQueue for SqliteStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        self.write(move |connection| lease(connection, now, lease_for, limit)).await
    }

    async fn orders(&self, ids: &[OrderId]) -> Result<Vec<FoundOrder>, StoreError> {
        let ids = ids.to_vec();
        let read = move |connection: &mut SqliteConnection| {
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                match order_reader::any(connection, id) {
                    Err(unreadable @ Failure::Unreadable(_)) => {
                        found.push((id, Err(unreadable.into())));
                    }
                    order => found.extend(order?.and_then(Kept::whole).map(|it| (id, Ok(it)))),
                }
            }
            Ok(found)
        };
        self.read(read).await
    }

    async fn settle(&self, attempted: &[Attempted]) -> Result<Vec<DeliveryId>, StoreError> {
        let attempted = attempted.to_vec();
        let settle = move |connection: &mut SqliteConnection| {
            let mut held = Vec::with_capacity(attempted.len());
            for one in &attempted {
                if settle(connection, one)? {
                    held.push(one.id);
                }
            }
            Ok(held)
        };
        self.write(settle).await
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let list = move |connection: &mut SqliteConnection| {
            let rows: Vec<DeliveryRow> = deliveries::table
                .filter(deliveries::failed_at.is_not_null().eq(failed))
                .order((deliveries::created_at, deliveries::id))
                .limit(row_limit(limit))
                .select(DeliveryRow::as_select())
                .load(connection)?;
            Ok(rows.into_iter().map(DeliveryRow::into_delivery).collect::<Result<_, _>>()?)
        };
        self.read(list).await
    }

    /// Does not touch a lease that a worker holds; otherwise the mail could be sent twice.
    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<bool, StoreError> {
        let retry = move |connection: &mut SqliteConnection| {
            let reset = (
                deliveries::attempts.eq(0),
                deliveries::created_at.eq(Utc(now)),
                deliveries::due_at.eq(Utc(now)),
                deliveries::failed_at.eq(None::<Utc>),
            );
            Ok(diesel::update(deliveries::table.find(id.0)).set(reset).execute(connection)? > 0)
        };
        self.write(retry).await
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        self.read(stats).await
    }
}

fn lease(
    connection: &mut SqliteConnection,
    now: OffsetDateTime,
    lease_for: Duration,
    limit: usize,
) -> Result<Vec<Lease>, Failure> {
    let (hour, hour_before) = counted_hours(now);
    sql_query(REMOVE_COUNTS)
        .bind::<Instant, _>(Utc(hour_before))
        .bind::<BigInt, _>(REMOVED_COUNTS)
        .execute(connection)?;
    let free = deliveries::leased_until.is_null().or(deliveries::leased_until.le(Utc(now)));
    let due: Vec<i64> = deliveries::table
        .filter(deliveries::failed_at.is_null())
        .filter(deliveries::due_at.le(Utc(now)))
        .filter(free)
        .order((deliveries::due_at, deliveries::id))
        .limit(row_limit(limit))
        .select(deliveries::id)
        .load(connection)?;
    let until = Utc(now.saturating_add(lease_for));
    let mut leases = Vec::with_capacity(due.len());
    for id in due {
        let (row, token): (DeliveryRow, i64) = diesel::update(deliveries::table.find(id))
            .set((
                deliveries::leased_until.eq(until),
                deliveries::lease_token.eq(deliveries::lease_token + 1),
            ))
            .returning((DeliveryRow::as_select(), deliveries::lease_token))
            .get_result(connection)?;
        let mail_of_hour = match token {
            1 => Some(count(connection, hour, row.recipient())?),
            _ => None,
        };
        leases.push(Lease { delivery: row.into_delivery()?, token, mail_of_hour });
    }
    Ok(leases)
}

/// Removes counts of past hours.
const REMOVE_COUNTS: &str = "DELETE FROM recipient_mails WHERE (hour, recipient) IN
    (SELECT hour, recipient FROM recipient_mails WHERE hour < ? LIMIT ?)";

/// Counts a mail that is leased for the first time. Returns which mail of the hour it is.
fn count(
    connection: &mut SqliteConnection,
    hour: OffsetDateTime,
    recipient: &str,
) -> Result<u64, Failure> {
    use recipient_mails::{hour as in_hour, mails, recipient as address, table};

    let counted: i64 = diesel::insert_into(table)
        .values((in_hour.eq(Utc(hour)), address.eq(hashed_recipient(recipient)), mails.eq(1)))
        .on_conflict((in_hour, address))
        .do_update()
        .set(mails.eq(mails + 1))
        .returning(mails)
        .get_result(connection)?;
    Ok(counted.unsigned_abs())
}

/// Settles a delivery. Returns `false` if its lease is not held any more.
fn settle(
    connection: &mut SqliteConnection,
    Attempted { id, token, settlement }: &Attempted,
) -> Result<bool, Failure> {
    let held = deliveries::table
        .find(id.0)
        .filter(deliveries::lease_token.eq(token))
        .filter(deliveries::leased_until.is_not_null());
    let settled = match UnsuccessfulAttempt::of(settlement) {
        None => diesel::delete(held).execute(connection)?,
        Some((failed, attempts)) => {
            let changes = (
                failed,
                deliveries::leased_until.eq(None::<Utc>),
                deliveries::attempts.eq(deliveries::attempts + attempts),
            );
            diesel::update(held).set(changes).execute(connection)?
        }
    };
    Ok(settled > 0)
}

fn stats(connection: &mut SqliteConnection) -> Result<QueueStats, Failure> {
    let (events, oldest_event): (i64, Option<Utc>) = events::table
        .select((dsl::count_star(), dsl::min(events::created_at)))
        .first(connection)?;
    let pending = deliveries::table.filter(deliveries::failed_at.is_null());
    let (pending, oldest): (i64, Option<Utc>) =
        pending.select((dsl::count_star(), dsl::min(deliveries::created_at))).first(connection)?;
    let failed: i64 = deliveries::table
        .filter(deliveries::failed_at.is_not_null())
        .count()
        .get_result(connection)?;
    Ok(QueueStats {
        events: events.unsigned_abs(),
        pending: pending.unsigned_abs(),
        failed: failed.unsigned_abs(),
        oldest_created_at: [oldest_event, oldest].into_iter().flatten().map(|at| at.0).min(),
    })
}
