//! Rows of mails.

use std::collections::{BTreeSet, HashMap};

use diesel::{
    dsl::auto_type,
    prelude::*,
    sql_types::{BigInt, Nullable},
};
use domain::{
    delivery::{
        Audience, Delivery, DeliveryId, LONGEST_ATTEMPT, MailSubject, NewDelivery, Settling,
    },
    order::{EmailAddress, OrderId},
    ports::{Dispatch, QueueStats, Retried, Settlement},
};
use time::OffsetDateTime;

use crate::{
    Instant, Unreadable, Utc,
    events::{read_content, stored_content},
    instant::{farthest, farthest_due},
    schema::{deliveries, orders},
    text::{Lossy, LossyNullable},
    webhook_deliveries::NewWebhookRow,
};

/// A mail to add.
#[derive(Insertable)]
#[diesel(table_name = deliveries)]
pub struct NewMailRow {
    order_id: i64,
    message_key: String,
    recipient: String,
    subject: &'static str,
    to_service: bool,
    content: Option<String>,
    created_at: Utc,
    due_at: Utc,
}

/// The deliveries that follow events.
#[derive(Default)]
pub struct Dispatched {
    /// The mails, in the order of the call: deliveries due at one instant are leased by identifier.
    pub mails: Vec<NewMailRow>,
    /// The mails that have waited and that tell further news, by identifier.
    pub joined: Vec<(i64, JoinedColumns)>,
    /// The webhooks.
    pub webhooks: Vec<NewWebhookRow>,
    /// The endpoints of the webhooks.
    pub endpoints: Vec<i64>,
    /// When the first of them is due.
    pub earliest: Option<Utc>,
}

impl Dispatched {
    /// Returns the deliveries of the events that were removed now. Another worker has dispatched the
    /// others. Their news join mails of their orders that wait.
    pub fn of(
        dispatches: Vec<Dispatch>,
        removed: &HashMap<i64, (i64, Utc)>,
        waiting: Vec<WaitingMail>,
        now: OffsetDateTime,
    ) -> Self {
        let (mut added, mut gathered) = (Self::default(), waiting);
        for one in dispatches {
            let Some(&(order_id, created_at)) = removed.get(&one.event.0) else { continue };
            // A clock that was ahead may have made an event.
            let due_at = created_at.min(Utc(now));
            added.earliest = Some(added.earliest.map_or(due_at, |at| at.min(due_at)));
            for task in one.mails {
                let mut new = WaitingMail { order_id, task, created_at, due_at, is: Is::New };
                let (subject, settling) = (new.task.subject, one.settling);
                // The newest that waits: an older one may have no room.
                let mut before = gathered.iter_mut().rev();
                if subject.joins() && before.any(|mail| mail.takes(&new, settling)) {
                    continue;
                }
                if subject.gathers() {
                    new.due_at = Utc(settling.due_at(due_at.0, due_at.0));
                }
                gathered.push(new);
            }
            for webhook in one.webhooks {
                added.endpoints.push(webhook.endpoint.0);
                let row = NewWebhookRow::new(webhook, Some(order_id), created_at, due_at);
                added.webhooks.push(row);
            }
        }
        for mail in gathered {
            match mail.is {
                Is::New => added.mails.push(mail.into()),
                Is::Waiting { id, is_joined: true } => added.joined.push((id, mail.into())),
                Is::Waiting { .. } => {}
            }
        }
        added
    }

    /// Returns the orders of which mails that wait may take news. Empty if no news join others.
    pub fn gathering(dispatches: &[Dispatch], removed: &HashMap<i64, (i64, Utc)>) -> Vec<i64> {
        let joins = |one: &&Dispatch| one.mails.iter().any(|mail| mail.subject.joins());
        let gathering = dispatches.iter().filter(joins);
        let orders = gathering.filter_map(|one| removed.get(&one.event.0));
        let orders: BTreeSet<i64> = orders.map(|(order_id, _)| *order_id).collect();
        orders.into_iter().collect()
    }
}

/// A mail that may take further news.
pub struct WaitingMail {
    order_id: i64,
    task: NewDelivery,
    created_at: Utc,
    due_at: Utc,
    is: Is,
}

/// Where a mail is.
enum Is {
    /// It is added now.
    New,
    /// It waits in the queue.
    Waiting { id: i64, is_joined: bool },
}

impl WaitingMail {
    /// Takes the news of a later mail. Returns `false` if it remains a mail of its own.
    fn takes(&mut self, later: &Self, settling: Settling) -> bool {
        if self.order_id != later.order_id {
            return false;
        }
        let joins = self.task.join(&later.task);
        if !joins && !self.task.tells(&later.task) {
            return false;
        }
        if joins && later.task.subject.gathers() {
            let settled = settling.due_at(self.created_at.0, later.due_at.0);
            self.due_at = self.due_at.max(Utc(settled));
        }
        if let Is::Waiting { is_joined, .. } = &mut self.is {
            *is_joined = true;
        }
        true
    }
}

impl From<WaitingMail> for NewMailRow {
    fn from(WaitingMail { order_id, task, created_at, due_at, .. }: WaitingMail) -> Self {
        Self {
            order_id,
            message_key: task.message_key,
            recipient: task.recipient.as_str().to_owned(),
            subject: task.subject.as_str(),
            to_service: task.audience == Audience::Service,
            content: task.content.as_ref().map(stored_content),
            created_at,
            due_at,
        }
    }
}

/// The columns of a mail that further news have joined, or that tells them. Each news has all of its attempts.
#[derive(AsChangeset)]
#[diesel(table_name = deliveries, treat_none_as_null = true)]
pub struct JoinedColumns {
    message_key: String,
    content: Option<String>,
    due_at: Utc,
    attempts: i32,
}

impl From<WaitingMail> for JoinedColumns {
    fn from(WaitingMail { task, due_at, .. }: WaitingMail) -> Self {
        Self {
            message_key: task.message_key,
            content: task.content.as_ref().map(stored_content),
            due_at,
            attempts: 0,
        }
    }
}

/// Returns the statement that selects the mails that take further news: the newest of its kind to each recipient
/// of some orders that waits. No worker has leased it, and none has had an unknown outcome. `of_orders` is the
/// condition of the column `order_id`, and `lock` the end of the statement.
pub fn waiting_mails(of_orders: &str, lock: &str) -> String {
    let subjects = MailSubject::ALL.map(|subject| format!("'{}'", subject.as_str()));
    let waits = "failed_at IS NULL AND leased_until IS NULL AND unknown_outcomes = 0";
    format!(
        "SELECT * FROM deliveries WHERE {waits} AND id IN (\
            SELECT max(id) FROM deliveries \
            WHERE order_id {of_orders} AND {waits} AND subject IN ({}) \
            GROUP BY order_id, recipient, subject, to_service\
        ) ORDER BY id {lock}",
        subjects.join(", ")
    )
}

/// Selects the mails that are due and not leased, those first that have been due longest.
#[auto_type(no_type_alias)]
pub fn due_mails(now: OffsetDateTime) -> _ {
    let now: Utc = Utc(now);
    let is_free: is_unleased = is_unleased(now);
    let subjects: [&'static str; MailSubject::ALL.len()] =
        MailSubject::ALL.map(MailSubject::as_str);
    deliveries::table
        .filter(deliveries::failed_at.is_null())
        .filter(deliveries::due_at.le(now))
        .filter(deliveries::subject.eq_any(subjects))
        .filter(is_free)
        .order((deliveries::due_at, deliveries::id))
}

/// Selects the identifiers of the pending mails that wait longer than any delay.
#[auto_type(no_type_alias)]
pub fn far_mails(now: OffsetDateTime) -> _ {
    let farthest: Utc = farthest_due(Utc(now));
    deliveries::table
        .filter(deliveries::failed_at.is_null())
        .filter(deliveries::due_at.gt(farthest))
        .select(deliveries::id)
}

/// Selects a mail, unless a worker has leased it.
#[auto_type(no_type_alias)]
pub fn unleased_mail(id: DeliveryId, now: OffsetDateTime) -> _ {
    let id: i64 = id.0;
    let is_free: is_unleased = is_unleased(Utc(now));
    deliveries::table.filter(deliveries::id.eq(id)).filter(is_free)
}

/// Tells deliveries that no worker has leased at an instant.
#[auto_type]
fn is_unleased(now: Utc) -> _ {
    let farthest: Utc = farthest(now);
    deliveries::leased_until
        .is_null()
        .or(deliveries::leased_until.le(now))
        .or(deliveries::leased_until.gt(farthest))
}

/// Selects the mails that failed for good, or the others, oldest first. Those with a subject that only
/// another version of the service knows are left out; `doctor` names them.
#[auto_type(no_type_alias)]
pub fn listed_mails(failed: bool) -> _ {
    let subjects: [&'static str; MailSubject::ALL.len()] =
        MailSubject::ALL.map(MailSubject::as_str);
    deliveries::table
        .filter(deliveries::subject.eq_any(subjects))
        .filter(deliveries::failed_at.is_not_null().eq(failed))
        .order((deliveries::created_at, deliveries::id))
}

/// The numbers of events and of those that are put off, with an order of theirs; of mails that wait, of those of them
/// above the limit of their recipients, and of mails that failed for good; the oldest of those that wait for a worker
/// or the relay; and the latest attempt of all.
pub const MAIL_STATS: &str = "SELECT (SELECT count(*) FROM events), \
    (SELECT count(*) FROM events WHERE retry_at IS NOT NULL), \
    (SELECT min(order_id) FROM events WHERE retry_at IS NOT NULL), \
    (SELECT count(*) FROM deliveries WHERE failed_at IS NULL), \
    (SELECT count(*) FROM deliveries WHERE failed_at IS NULL AND over_limit), \
    (SELECT count(*) FROM deliveries WHERE failed_at IS NOT NULL), \
    (SELECT min(created_at) FROM (SELECT created_at FROM events UNION ALL \
        SELECT created_at FROM deliveries WHERE failed_at IS NULL AND NOT over_limit) AS waiting), \
    (SELECT max(due_at) FROM deliveries WHERE failed_at IS NULL)";

/// The row of [`MAIL_STATS`].
type MailStatsRow = (i64, i64, Option<i64>, i64, i64, i64, Option<Utc>, Option<Utc>);

/// The SQL types of [`MAIL_STATS`].
pub type MailStats = (
    BigInt,
    BigInt,
    Nullable<BigInt>,
    BigInt,
    BigInt,
    BigInt,
    Nullable<Instant>,
    Nullable<Instant>,
);

/// Returns what the row of [`MAIL_STATS`] means.
pub fn mail_stats(
    (events, put_off, put_off_order, pending, over_limit, failed, oldest, latest): MailStatsRow,
) -> QueueStats {
    QueueStats {
        events: events.unsigned_abs(),
        put_off: put_off.unsigned_abs(),
        put_off_order: put_off_order.map(OrderId),
        pending: pending.unsigned_abs(),
        over_limit: over_limit.unsigned_abs(),
        failed: failed.unsigned_abs(),
        oldest_created_at: oldest.map(|at| at.0),
        latest_due_at: latest.map(|at| at.0),
    }
}

/// A delivery without its lease.
#[derive(Queryable, QueryableByName, Selectable)]
#[diesel(table_name = deliveries)]
pub struct DeliveryRow {
    id: i64,
    /// The order that the mail is about.
    pub order_id: i64,
    #[diesel(deserialize_as = Lossy)]
    message_key: String,
    /// The address that receives the mail.
    #[diesel(deserialize_as = Lossy)]
    pub recipient: String,
    #[diesel(deserialize_as = Lossy)]
    subject: String,
    /// Whether a signing service reads it.
    pub to_service: bool,
    attempts: i32,
    unknown_outcomes: i32,
    created_at: Utc,
    due_at: Utc,
    failed_at: Option<Utc>,
    #[diesel(deserialize_as = LossyNullable)]
    content: Option<String>,
    #[diesel(deserialize_as = LossyNullable)]
    last_error: Option<String>,
}

impl DeliveryRow {
    /// Returns a mail that waits.
    pub fn into_waiting(self) -> Result<WaitingMail, Unreadable> {
        let Delivery { id, order_id, task, created_at, due_at, .. } = self.into_delivery()?;
        let (created_at, due_at) = (Utc(created_at), Utc(due_at));
        let is = Is::Waiting { id: id.0, is_joined: false };
        Ok(WaitingMail { order_id: order_id.0, task, created_at, due_at, is })
    }

    /// Returns the delivery.
    pub fn into_delivery(self) -> Result<Delivery, Unreadable> {
        let unreadable = || Unreadable::new("deliveries", &self.id, &"subject");
        Ok(Delivery {
            id: DeliveryId(self.id),
            order_id: OrderId(self.order_id),
            task: NewDelivery {
                message_key: self.message_key,
                recipient: EmailAddress::from_stored(self.recipient),
                subject: MailSubject::from_name(&self.subject).ok_or_else(unreadable)?,
                audience: if self.to_service { Audience::Service } else { Audience::Client },
                content: read_content(self.content.as_deref()),
            },
            attempts: u32::try_from(self.attempts).unwrap_or_default(),
            unknown_outcomes: u32::try_from(self.unknown_outcomes).unwrap_or_default(),
            created_at: self.created_at.0,
            due_at: self.due_at.0,
            failed_at: self.failed_at.map(|at| at.0),
            last_error: self.last_error,
        })
    }
}

/// The columns that a failed attempt changes, besides the lease and the number of attempts.
#[derive(AsChangeset)]
#[diesel(table_name = deliveries)]
pub struct UnsuccessfulAttempt {
    /// The next attempt; `None` leaves it as it is.
    pub due_at: Option<Utc>,
    /// The instant at which the delivery failed for good.
    pub failed_at: Option<Utc>,
    /// Whether it waits because its recipient has had its mails of the hour.
    pub over_limit: bool,
    /// The error.
    pub last_error: String,
}

impl UnsuccessfulAttempt {
    /// Returns the change, and by how many attempts and unknown outcomes it counts; `None` for a
    /// success.
    pub fn of(settlement: &Settlement) -> Option<(Self, [i32; 2])> {
        let (due_at, failed_at, error, counts) = match settlement {
            Settlement::Done | Settlement::Obsolete => return None,
            Settlement::RetryAt { due_at, error } => (Some(Utc(*due_at)), None, error, [1, 0]),
            Settlement::Unknown { due_at, error } => (Some(Utc(*due_at)), None, error, [1, 1]),
            Settlement::Postpone { due_at, error } | Settlement::OverLimit { due_at, error } => {
                (Some(Utc(*due_at)), None, error, [0, 0])
            }
            Settlement::Fail { at, error } => (None, Some(Utc(*at)), error, [1, 0]),
        };
        // A mail relay may send any byte, and PostgreSQL cannot store NUL.
        let last_error = error.replace('\0', "\u{fffd}");
        let over_limit = matches!(settlement, Settlement::OverLimit { .. });
        Some((Self { due_at, failed_at, over_limit, last_error }, counts))
    }
}

/// Makes a mail due, with no failures. It keeps the instant of its event, which tells the changes since then.
#[derive(AsChangeset)]
#[diesel(table_name = deliveries, treat_none_as_null = true)]
pub struct RetriedDelivery {
    attempts: i32,
    unknown_outcomes: i32,
    over_limit: bool,
    due_at: Utc,
    failed_at: Option<Utc>,
}

impl RetriedDelivery {
    /// Returns the change that makes it due at an instant.
    pub fn at(instant: OffsetDateTime) -> Self {
        Self {
            attempts: 0,
            unknown_outcomes: 0,
            over_limit: false,
            due_at: Utc(instant),
            failed_at: None,
        }
    }
}

/// Returns what a retry did, from the numbers of rows that it changed and found.
pub fn retried(changed: usize, found: i64) -> Retried {
    match (changed, found) {
        (0, 0) => Retried::NotFound,
        (0, _) => Retried::Leased,
        _ => Retried::Due,
    }
}

/// Selects the mails of erased orders.
#[auto_type(no_type_alias)]
pub fn mails_of_erased() -> _ {
    deliveries::table
        .inner_join(orders::table.on(orders::id.eq(deliveries::order_id)))
        .filter(orders::erased_at.is_not_null())
}

/// Keeps a leased mail of an erased order from other workers until no attempt of now can go on. The lease
/// itself does not tell when: its worker may have another clock, and renews it for a slow relay.
#[derive(AsChangeset)]
#[diesel(table_name = deliveries)]
pub struct HeldMail {
    due_at: Utc,
}

impl HeldMail {
    /// Returns the change for an erasure at an instant.
    pub fn since(erasure: Utc) -> Self {
        Self { due_at: Utc(erasure.0.saturating_add(LONGEST_ATTEMPT)) }
    }
}

/// Selects those of the mails that no worker attempts.
#[auto_type(no_type_alias)]
pub fn free_mails(ids: Vec<i64>) -> _ {
    deliveries::table.filter(deliveries::id.eq_any(ids)).filter(deliveries::leased_until.is_null())
}

/// Selects those of the mails of erased orders that no worker attempts any more: see [`HeldMail`].
#[auto_type(no_type_alias)]
pub fn ended_mails(ids: Vec<i64>, at: Utc) -> _ {
    deliveries::table
        .filter(deliveries::id.eq_any(ids))
        .filter(deliveries::leased_until.is_null().or(deliveries::due_at.le(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_without_nul_is_stored() {
        let at = OffsetDateTime::UNIX_EPOCH;
        let fail = Settlement::Fail { at, error: "550 \0 no such user".to_owned() };
        let (change, counts) = UnsuccessfulAttempt::of(&fail).unwrap();
        assert_eq!((&*change.last_error, counts), ("550 \u{fffd} no such user", [1, 0]));
    }
}
