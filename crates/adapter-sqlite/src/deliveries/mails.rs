//! The queue of mails.

use std::collections::BTreeSet;

use async_trait::async_trait;
use diesel::{
    dsl::{auto_type, sql},
    prelude::*,
    sql_query,
    sql_types::{BigInt, Nullable},
    sqlite::SqliteConnection,
};
use domain::{
    delivery::{Delivery, DeliveryId, Recipient},
    order::OrderId,
    ports::{Attempted, DeliveryQueue, FoundOrder, Lease, QueueStats, StoreError},
};
use sql_rows::{
    DeliveryRow, Instant, MAIL_STATS, REMOVED_COUNTS, RecipientRow, RetriedDelivery,
    UnsuccessfulAttempt, Utc, counted_hours, due_mails, hashed_recipient, listed_mails, mail_stats,
    recipients_of, row_limit,
    schema::{deliveries, order_changes, order_recipients, orders, recipient_mails},
};
use time::{Duration, OffsetDateTime};

use crate::{failure::Failure, orders::read::find_each, store::SqliteStore};

#[async_trait]
impl DeliveryQueue for SqliteStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        self.transaction(move |connection| lease_due(connection, now, lease_for, limit)).await
    }

    async fn renew(
        &self,
        leases: &[(DeliveryId, i64)],
        until: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let leases = leases.to_vec();
        let renew = move |connection: &mut SqliteConnection| {
            for (id, token) in leases {
                diesel::update(held_lease(id, token))
                    .set(deliveries::leased_until.eq(Utc(until)))
                    .execute(connection)?;
            }
            Ok(())
        };
        self.transaction(renew).await
    }

    async fn begin(&self, recipients: &[Recipient]) -> Result<Vec<(OrderId, u32)>, StoreError> {
        let recipients: Vec<_> = recipients.iter().map(RecipientRow::from).collect();
        self.transaction(move |connection| begin(connection, recipients)).await
    }

    async fn told(&self, orders: &[OrderId]) -> Result<Vec<Recipient>, StoreError> {
        let orders = orders.iter().map(|id| id.0).collect();
        self.select(recipients_of(orders), |row: RecipientRow| Ok(row.into_recipient())).await
    }

    async fn orders(&self, ids: &[OrderId]) -> Result<Vec<FoundOrder>, StoreError> {
        let ids = ids.to_vec();
        self.read(move |connection| find_each(connection, &ids)).await
    }

    async fn settle(&self, attempted: &[Attempted]) -> Result<Vec<DeliveryId>, StoreError> {
        let attempted = attempted.to_vec();
        let settle = move |connection: &mut SqliteConnection| {
            let mut held = Vec::with_capacity(attempted.len());
            for one in &attempted {
                if settle_one(connection, one)? {
                    held.push(one.id);
                }
            }
            Ok(held)
        };
        self.transaction(settle).await
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let listed = listed_mails(failed).limit(row_limit(limit));
        self.select(listed, DeliveryRow::into_delivery).await
    }

    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<bool, StoreError> {
        let retried = diesel::update(deliveries::table.find(id.0)).set(RetriedDelivery::at(now));
        Ok(self.execute(retried).await? > 0)
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        let stats = |connection: &mut SqliteConnection| {
            let stats = sql::<(BigInt, BigInt, BigInt, BigInt, Nullable<Instant>)>(MAIL_STATS);
            Ok(mail_stats(stats.get_result(connection)?))
        };
        self.read(stats).await
    }
}

fn lease_due(
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
    let due = due_mails(now).limit(row_limit(limit)).select(deliveries::id);
    let due: Vec<i64> = due.load(connection)?;
    let until = Utc(now.saturating_add(lease_for));
    let mut leases = Vec::with_capacity(due.len());
    for id in due {
        let (row, token, waited): (DeliveryRow, i64, bool) =
            diesel::update(deliveries::table.find(id))
                .set((
                    deliveries::leased_until.eq(until),
                    deliveries::lease_token.eq(deliveries::lease_token + 1),
                ))
                .returning((
                    DeliveryRow::as_select(),
                    deliveries::lease_token,
                    deliveries::over_limit,
                ))
                .get_result(connection)?;
        let is_counted = (token == 1 || waited) && !row.to_service;
        let mail_of_hour = if is_counted { Some(count(connection, hour, &row)?) } else { None };
        leases.push(Lease { delivery: row.into_delivery()?, token, mail_of_hour });
    }
    Ok(leases)
}

/// Remembers the recipients of orders that are not erased. Returns these orders with their numbers of
/// changes.
fn begin(
    connection: &mut SqliteConnection,
    mut recipients: Vec<RecipientRow>,
) -> Result<Vec<(OrderId, u32)>, Failure> {
    let ids: BTreeSet<i64> = recipients.iter().map(|row| row.order_id).collect();
    let mut orders = Vec::new();
    for id in ids {
        let order = orders::table.find(id).filter(orders::erased_at.is_null());
        if order.select(orders::id).first::<i64>(connection).optional()?.is_none() {
            recipients.retain(|row| row.order_id != id);
            continue;
        }
        let changes = order_changes::table.filter(order_changes::order_id.eq(id)).count();
        let changes: i64 = changes.get_result(connection)?;
        orders.push((OrderId(id), u32::try_from(changes).unwrap_or(u32::MAX)));
    }
    diesel::insert_or_ignore_into(order_recipients::table)
        .values(recipients)
        .execute(connection)?;
    Ok(orders)
}

/// Removes counts of past hours.
const REMOVE_COUNTS: &str = "DELETE FROM recipient_mails WHERE (hour, client_id, recipient) IN
    (SELECT hour, client_id, recipient FROM recipient_mails WHERE hour < ? LIMIT ?)";

/// Counts a mail of a client to a recipient. Returns which mail of the hour it is.
fn count(
    connection: &mut SqliteConnection,
    hour: OffsetDateTime,
    row: &DeliveryRow,
) -> Result<u64, Failure> {
    use recipient_mails::{client_id, hour as in_hour, mails, recipient as address, table};

    let client = orders::table.find(row.order_id).select(orders::client_id).first(connection);
    let client: i64 = client.optional()?.unwrap_or_default();
    let recipient = hashed_recipient(&row.recipient);
    let counted: i64 = diesel::insert_into(table)
        .values((in_hour.eq(Utc(hour)), client_id.eq(client), address.eq(recipient), mails.eq(1)))
        .on_conflict((in_hour, client_id, address))
        .do_update()
        .set(mails.eq(mails + 1))
        .returning(mails)
        .get_result(connection)?;
    Ok(counted.unsigned_abs())
}

/// Selects a delivery if its lease is still held.
#[auto_type(no_type_alias)]
fn held_lease(id: DeliveryId, token: i64) -> _ {
    let id: i64 = id.0;
    deliveries::table
        .find(id)
        .filter(deliveries::lease_token.eq(token))
        .filter(deliveries::leased_until.is_not_null())
}

/// Settles a delivery. Returns `false` if its lease is not held any more.
fn settle_one(
    connection: &mut SqliteConnection,
    Attempted { id, token, settlement }: &Attempted,
) -> Result<bool, Failure> {
    let held = held_lease(*id, *token);
    let settled = match UnsuccessfulAttempt::of(settlement) {
        None => diesel::delete(held).execute(connection)?,
        Some((failed, [attempts, unknown])) => {
            let changes = (
                failed,
                deliveries::leased_until.eq(None::<Utc>),
                deliveries::attempts.eq(deliveries::attempts + attempts),
                deliveries::unknown_outcomes.eq(deliveries::unknown_outcomes + unknown),
            );
            diesel::update(held).set(changes).execute(connection)?
        }
    };
    Ok(settled > 0)
}
