//! The queue of mails.

use async_trait::async_trait;
use diesel::{
    dsl::{auto_type, sql},
    prelude::*,
    sql_query,
    sql_types::{BigInt, Text},
    sqlite::SqliteConnection,
};
use domain::{
    delivery::{Delivery, DeliveryId, MailSubject, Recipient},
    order::OrderId,
    ports::{Attempted, Begun, DeliveryQueue, FoundOrder, Lease, QueueStats, Retried, StoreError},
};
use sql_rows::{
    Instant, Prepared, Utc,
    deliveries::{
        DeliveryRow, MAIL_STATS, MailStats, RetriedDelivery, UnsuccessfulAttempt, due_mails,
        far_mails, listed_mails, mail_stats, retried, unleased_mail,
    },
    order_recipients::{NewRecipientRow, RecipientRow, recipients_of},
    recipient_mails::{REMOVED_COUNTS, counted_hours, hashed_recipient},
    row_limit,
    schema::{
        deliveries, idempotency_keys, order_recipients, orders, recipient_mails, webhook_deliveries,
    },
};
use time::{Duration, OffsetDateTime};

use crate::{
    failure::Failure,
    orders::read::find_each,
    store::{SqliteStore, columns},
    webhooks::lease::wake,
};

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

    /// The database has one service, so leases of the time before its start are those of a dead process.
    async fn end_dead_leases(&self, now: OffsetDateTime) -> Result<usize, StoreError> {
        if !self.is_of_the_only_service() {
            return Ok(0);
        }
        self.transaction(move |connection| end_leases(connection, Utc(now))).await
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

    async fn begin(
        &self,
        mails: &[(DeliveryId, OffsetDateTime)],
        now: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<Begun>, StoreError> {
        let mails = mails.to_vec();
        self.transaction(move |connection| begin(connection, &mails, now, limit)).await
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

    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<Retried, StoreError> {
        let retry = move |connection: &mut SqliteConnection| {
            let retry = diesel::update(unleased_mail(id, now)).set(RetriedDelivery::at(now));
            let changed = retry.execute(connection)?;
            let found: i64 = deliveries::table.find(id.0).count().get_result(connection)?;
            Ok(retried(changed, found))
        };
        self.transaction(retry).await
    }

    async fn bring_forward(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        let bring_forward = move |connection: &mut SqliteConnection| {
            let far = far_mails(now).limit(row_limit(limit));
            let far: Vec<i64> = far.load(connection)?;
            let far = deliveries::table.filter(deliveries::id.eq_any(far));
            Ok(diesel::update(far).set(deliveries::due_at.eq(Utc(now))).execute(connection)?)
        };
        self.transaction(bring_forward).await
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        let stats = |connection: &mut SqliteConnection| {
            let stats = sql::<MailStats>(MAIL_STATS);
            Ok(mail_stats(stats.get_result(connection)?))
        };
        self.read(stats).await
    }
}

/// Ends all leases of mails and webhooks, and all claims. Returns the number of deliveries.
fn end_leases(connection: &mut SqliteConnection, now: Utc) -> Result<usize, Failure> {
    use webhook_deliveries::{endpoint_id, leased_until};

    let none = None::<Utc>;
    let leased = deliveries::table.filter(deliveries::leased_until.is_not_null());
    let mails =
        diesel::update(leased).set(deliveries::leased_until.eq(none)).execute(connection)?;
    let leased = || webhook_deliveries::table.filter(leased_until.is_not_null());
    let endpoints: Vec<i64> = leased().select(endpoint_id).distinct().load(connection)?;
    let webhooks = diesel::update(leased()).set(leased_until.eq(none)).execute(connection)?;
    wake(connection, &endpoints, now)?;
    let claims = idempotency_keys::table.filter(idempotency_keys::order_id.is_null());
    diesel::delete(claims).execute(connection)?;
    Ok(mails + webhooks)
}

fn lease_due(
    connection: &mut SqliteConnection,
    now: OffsetDateTime,
    lease_for: Duration,
    limit: usize,
) -> Result<Vec<Lease>, Failure> {
    let due = due_mails(now).limit(row_limit(limit)).select(deliveries::id);
    let due: Vec<i64> = due.load(connection)?;
    let until = Utc(now.saturating_add(lease_for));
    let mut leases = Vec::with_capacity(due.len());
    for id in due {
        let (row, token): (DeliveryRow, i64) = diesel::update(deliveries::table.find(id))
            .set((
                deliveries::leased_until.eq(until),
                deliveries::lease_token.eq(deliveries::lease_token + 1),
            ))
            .returning((columns::<DeliveryRow>(), deliveries::lease_token))
            .get_result(connection)?;
        leases.push(Lease { delivery: row.into_delivery()?, token });
    }
    Ok(leases)
}

/// Counts mails, and remembers the recipients of those that may leave. Removes the mails that these tell, and counts of
/// past hours.
fn begin(
    connection: &mut SqliteConnection,
    mails: &[(DeliveryId, OffsetDateTime)],
    now: OffsetDateTime,
    limit: u32,
) -> Result<Vec<Begun>, Failure> {
    let (hour, hour_before) = counted_hours(now);
    sql_query(REMOVE_COUNTS)
        .bind::<Instant, _>(Utc(hour_before))
        .bind::<BigInt, _>(REMOVED_COUNTS)
        .execute(connection)?;
    let mut begun = Vec::with_capacity(mails.len());
    for &(id, version) in mails {
        let found = deliveries::table
            .find(id.0)
            .select((
                (deliveries::order_id, deliveries::recipient, deliveries::to_service),
                deliveries::last_error.is_null().or(deliveries::over_limit),
                deliveries::subject.eq_any(MailSubject::WHOLE.map(MailSubject::as_str)),
            ))
            .first(connection);
        let found: Option<(NewRecipientRow, bool, bool)> = found.optional()?;
        let Some((row, is_first, tells_changes)) = found else { continue };
        let is_counted = is_first && !row.to_service;
        let mail_of_hour = if is_counted { Some(count(connection, hour, &row)?) } else { None };
        let order = orders::table
            .find(row.order_id)
            .filter(orders::erased_at.is_null().and(orders::updated_at.eq(Utc(version))))
            .select((orders::calendar_sequence, orders::changes));
        let sequence: Option<(Option<i64>, i64)> = order.first(connection).optional()?;
        let sequence = sequence.map(|(sequence, changes)| sequence.unwrap_or(changes));
        let sequence = sequence.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let may_leave = limit == 0 || mail_of_hour.is_none_or(|number| number <= limit.into());
        if sequence.is_some() && may_leave {
            let changes_told_at = tells_changes.then_some(Utc(version));
            let recipient = order_recipients::table.find((row.order_id, row.recipient.clone()));
            diesel::insert_or_ignore_into(order_recipients::table)
                .values(row)
                .execute(connection)?;
            if changes_told_at.is_some() {
                let changed = MailSubject::Changed.as_str();
                let remove = sql_query(REMOVE_TOLD).bind::<BigInt, _>(id.0);
                Prepared(remove.bind::<Text, _>(changed)).execute(connection)?;
                diesel::update(recipient)
                    .set(order_recipients::changes_told_at.eq(changes_told_at))
                    .execute(connection)?;
            }
        }
        begun.push(Begun { id, mail_of_hour, sequence });
    }
    Ok(begun)
}

/// Removes the mails about changed fields that a mail with all fields tells.
const REMOVE_TOLD: &str = "DELETE FROM deliveries WHERE id IN (
    SELECT told.id FROM deliveries AS mail JOIN deliveries AS told ON told.order_id = mail.order_id
        AND lower(told.recipient) = lower(mail.recipient) AND told.to_service = mail.to_service
    WHERE mail.id = ?1 AND mail.unknown_outcomes = 0
        AND told.subject = ?2 AND told.leased_until IS NULL AND told.failed_at IS NULL
        AND (mail.subject <> ?2 OR told.id > mail.id)
)";

/// Removes counts of past hours.
const REMOVE_COUNTS: &str = "DELETE FROM recipient_mails WHERE (hour, client_id, recipient) IN
    (SELECT hour, client_id, recipient FROM recipient_mails WHERE hour < ? LIMIT ?)";

/// Counts a mail of a client to a recipient. Returns which mail of the hour it is.
fn count(
    connection: &mut SqliteConnection,
    hour: OffsetDateTime,
    row: &NewRecipientRow,
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
