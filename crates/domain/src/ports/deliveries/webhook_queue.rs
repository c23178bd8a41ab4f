use std::collections::BTreeMap;

use async_trait::async_trait;
use time::{Duration, OffsetDateTime};

use crate::ports::{Cursor, Page, Retried, Settlement, StoreError};
use crate::{
    api_key::{Owner, Party},
    order::OrderId,
    webhook::{
        AttemptRecord, EndpointId, EndpointPrecondition, EventChange, EventType, MAX_OLDER_SECRETS,
        ROTATION_OVERLAP, WebhookDelivery, WebhookDeliveryId,
    },
};

/// A delivery to add for an event of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhookDelivery {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The event.
    pub event: EventType,
    /// The change that the event tells of.
    pub change: Option<EventChange>,
    /// Random key of the message.
    pub message_key: String,
    /// The body that every attempt sends.
    pub body: Option<String>,
}

/// How many deliveries a worker can attempt. Attempts at endpoints that work, and the others, have
/// slots of their own: those that hang take none from endpoints that work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookSlots {
    /// Free slots.
    pub limit: usize,
    /// Free slots for endpoints whose last attempt did not succeed in time, or that have none yet.
    pub unproven: usize,
    /// Maximum number of attempts at the endpoints of a party that work, and again at its others.
    pub per_party: usize,
    /// Parties with attempts in progress, and their numbers.
    pub busy: BTreeMap<Party, PartyAttempts>,
}

impl WebhookSlots {
    /// Returns whether a party may get another slot.
    pub fn has_room(&self, party: Party, is_proven: bool) -> bool {
        let own = self.busy.get(&party).copied().unwrap_or_default();
        let (free, own) = if is_proven {
            (self.limit, own.proven)
        } else {
            (self.limit.min(self.unproven), own.unproven)
        };
        free > 0 && own < self.per_party
    }

    /// Gives a party a slot.
    pub fn take(&mut self, party: Party, is_proven: bool) {
        self.limit = self.limit.saturating_sub(1);
        self.unproven = self.unproven.saturating_sub(usize::from(!is_proven));
        self.busy.entry(party).or_default().add(is_proven);
    }
}

/// The attempts in progress at the endpoints of a party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartyAttempts {
    /// Those at endpoints that work.
    pub proven: usize,
    /// The others.
    pub unproven: usize,
}

impl PartyAttempts {
    /// Adds an attempt.
    pub fn add(&mut self, is_proven: bool) {
        *if is_proven { &mut self.proven } else { &mut self.unproven } += 1;
    }
}

/// The secrets of an endpoint, encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSecrets {
    /// The present one.
    pub current: Vec<u8>,
    /// Those before, the newest first, and until when each signs along.
    pub older: Vec<(Vec<u8>, OffsetDateTime)>,
}

impl SealedSecrets {
    /// Leaves out the secrets that do not sign any more at an instant.
    #[must_use]
    pub fn live(mut self, at: OffsetDateTime) -> Self {
        self.older.retain(|(_, until)| at < *until);
        self
    }

    /// Returns the secrets after a rotation at `at`. The present one signs along for [`ROTATION_OVERLAP`],
    /// and those before it until their ends; of more than [`MAX_OLDER_SECRETS`], the newest.
    #[must_use]
    pub fn rotated(self, secret: Vec<u8>, at: OffsetDateTime) -> Self {
        let Self { current, older } = self.live(at);
        let until = at.saturating_add(ROTATION_OVERLAP);
        let older = std::iter::once((current, until)).chain(older).take(MAX_OLDER_SECRETS);
        Self { current: secret, older: older.collect() }
    }
}

/// The exclusive right to attempt a webhook delivery until the lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookLease {
    /// The delivery.
    pub delivery: WebhookDelivery,
    /// Its body; `None` of a test, and of a delivery that version 0.1.0 added: it is composed then.
    pub body: Option<String>,
    /// Distinguishes this lease from every other lease of the delivery.
    pub token: i64,
    /// The party of the endpoint.
    pub party: Party,
    /// The URL of the endpoint.
    pub url: String,
    /// The secrets of the endpoint.
    pub secrets: SealedSecrets,
    /// Whether the last attempt at the endpoint succeeded in time.
    pub is_proven: bool,
}

/// The effect of an attempt on its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointEffect {
    /// Nothing: the attempt did not reach it.
    None,
    /// It works.
    Succeeded,
    /// It works and takes long, so it is like one that was never called.
    Slow,
    /// It fails, if it did not before.
    Failed,
    /// It is disabled, because its receiver answered 410.
    Gone,
}

/// An attempt of a webhook that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookAttempted {
    /// The delivery.
    pub id: WebhookDeliveryId,
    /// Its lease.
    pub token: i64,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The URL that was called. The effect counts only while the endpoint has it.
    pub url: String,
    /// When it ended.
    pub at: OffsetDateTime,
    /// The outcome.
    pub settlement: Settlement,
    /// The attempts of the delivery, with this one.
    pub attempts: Vec<AttemptRecord>,
    /// The effect on the endpoint.
    pub effect: EndpointEffect,
}

/// The changes of a settlement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhooksSettled {
    /// The deliveries whose leases were held.
    pub held: Vec<WebhookDeliveryId>,
    /// Endpoints that are disabled now, and were enabled before.
    pub disabled: Vec<EndpointId>,
}

/// The question for a page of the deliveries of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryPageQuery {
    /// The largest number of deliveries; at least 1.
    pub limit: usize,
    /// Where the page begins.
    pub cursor: Cursor<WebhookDeliveryId>,
}

/// Deliveries to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayBatch {
    /// Only events from this instant on.
    pub since: OffsetDateTime,
    /// Only events before this instant.
    pub until: OffsetDateTime,
    /// Only deliveries older than this one.
    pub before: Option<WebhookDeliveryId>,
    /// Maximum number of deliveries to look at, the newest first; at least 1.
    pub limit: usize,
}

/// The outcome of a batch of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// The next batch begins before this delivery.
    UpTo(WebhookDeliveryId),
    /// This was the last batch.
    All,
    /// Nothing was changed: the owner has no such endpoint, or the precondition is false.
    Refused,
}

/// The number of webhook deliveries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebhookStats {
    /// Deliveries to attempt at enabled endpoints, leased ones included.
    pub pending: u64,
    /// Deliveries that failed for good, of the last [`RETENTION`](crate::webhook::RETENTION).
    pub failed: u64,
    /// Event of the oldest pending delivery that was not attempted yet.
    pub oldest_untried_at: Option<OffsetDateTime>,
    /// Next attempt of the pending delivery that waits longest.
    pub latest_due_at: Option<OffsetDateTime>,
    /// Endpoints that are disabled, whatever the reason.
    pub disabled_endpoints: u64,
}

/// A row that this version of the service cannot read, or not whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadableRow {
    /// Whether it is an endpoint or a delivery of one.
    pub is_of_webhooks: bool,
    /// Its fault, for the log. Contains no value.
    pub fault: String,
}

/// The outcome of a look for rows that cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundUnreadable {
    /// The rows.
    pub rows: Vec<UnreadableRow>,
    /// The last order that was looked at; `None` if there are no later ones.
    pub looked_at: Option<OrderId>,
}

/// Stores webhook deliveries, also after they ended. [`Outbox::dispatch`](super::Outbox::dispatch)
/// adds those of orders.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait WebhookQueue: Send + Sync {
    /// Leases deliveries that are due at `now`.
    ///
    /// An implementation guarantees:
    /// - No other worker gets a leased delivery before `now + lease_for`.
    /// - After that, a delivery that is not settled is due again.
    /// - An endpoint whose last attempt did not succeed in time, or that has none yet, has one leased
    ///   delivery at a time, and others [`PER_ENDPOINT`](crate::webhook::PER_ENDPOINT), over all
    ///   workers.
    /// - The endpoints come the longest waiting first, and the deliveries of each the longest due
    ///   first. Each endpoint gets one before any gets two.
    /// - An endpoint that got a delivery comes after those that have waited since.
    /// - Endpoints that are disabled or removed get none.
    /// - A delivery that cannot be read waits, and holds up no other.
    /// - The cost of a call grows neither with the deliveries of one endpoint nor with the number of
    ///   endpoints that wait. A call may leave some that are due to the next one.
    ///
    /// A lease need not be durable: without it, the delivery is attempted again.
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        slots: &WebhookSlots,
    ) -> Result<Vec<WebhookLease>, StoreError>;

    /// Settles leased deliveries and changes their endpoints in one atomic, durable step.
    /// [`Settlement::Postpone`] does not count as a failed attempt.
    ///
    /// Nothing changes for deliveries whose leases were not held: another worker has a later
    /// lease, or the endpoint was removed.
    async fn settle(&self, attempted: &[WebhookAttempted]) -> Result<WebhooksSettled, StoreError>;

    /// Adds a test event that is due at `at`. Returns `None` if the owner has no such endpoint, it is disabled,
    /// or the precondition is false.
    async fn add_test(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        message_key: &str,
        precondition: &EndpointPrecondition,
        at: OffsetDateTime,
    ) -> Result<Option<WebhookDeliveryId>, StoreError>;

    /// Returns a page of the deliveries of an endpoint. Returns `None` if the owner has no such
    /// endpoint, or the cursor is no delivery of it. Leaves out those that cannot be read.
    async fn page(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        query: &DeliveryPageQuery,
    ) -> Result<Option<Page<WebhookDelivery>>, StoreError>;

    /// Makes a delivery due at `at`, with no failures, whether it was delivered or failed. Does not
    /// touch a lease that a worker holds. Returns `false` if the owner has no such delivery, or the precondition
    /// is false of the endpoint.
    async fn replay(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        delivery: WebhookDeliveryId,
        precondition: &EndpointPrecondition,
        at: OffsetDateTime,
    ) -> Result<bool, StoreError>;

    /// Like [`Self::replay`], for a batch of the deliveries of an endpoint that were delivered or failed.
    async fn replay_batch(
        &self,
        owner: Owner,
        endpoint: EndpointId,
        batch: &ReplayBatch,
        precondition: &EndpointPrecondition,
        at: OffsetDateTime,
    ) -> Result<Replayed, StoreError>;

    /// Returns deliveries by age, the oldest first, at most `limit`: those that failed for good,
    /// or the pending ones. Leaves out those that cannot be read.
    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<WebhookDelivery>, StoreError>;

    /// Like [`Self::replay`], whatever the owner, unless a worker has leased the delivery.
    async fn retry(&self, id: WebhookDeliveryId, at: OffsetDateTime)
    -> Result<Retried, StoreError>;

    /// Looks for rows that this version of the service cannot read, and so leaves alone: among a bounded number of
    /// the next orders after an identifier, and among the rows of other tables, such as endpoints with events that it
    /// does not know. Returns at most `limit` rows of other tables.
    ///
    /// The memory of a call grows neither with the number of orders nor with `limit`: an implementation keeps a few
    /// orders at a time, and only the faults of those before.
    async fn unreadable(&self, after: OrderId, limit: usize)
    -> Result<FoundUnreadable, StoreError>;

    /// Makes up to `limit` pending deliveries due at `now` that are due more than
    /// [`FARTHEST_DUE`](crate::delivery::FARTHEST_DUE) later, and their endpoints. Returns their number. May leave some
    /// that another worker is changing. An endpoint that waits so long has something to do at `now`, too: a lease
    /// of a clock that was ahead has put it off.
    async fn bring_forward(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError>;

    /// Returns the number of deliveries.
    async fn stats(&self) -> Result<WebhookStats, StoreError>;

    /// Removes those of the oldest `limit` deliveries whose events happened before `instant`.
    /// Returns their number.
    async fn forget(&self, instant: OffsetDateTime, limit: usize) -> Result<usize, StoreError>;
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    fn first() -> SealedSecrets {
        SealedSecrets { current: vec![0], older: Vec::new() }
    }

    #[test]
    fn each_older_secret_signs_along_until_its_own_end() {
        let later = NOW + Duration::HOUR;
        let twice = first().rotated(vec![1], NOW).rotated(vec![2], later);
        let ends = [NOW, later].map(|at| at + ROTATION_OVERLAP);
        let older = vec![(vec![1], ends[1]), (vec![0], ends[0])];
        assert_eq!(twice, SealedSecrets { current: vec![2], older: older.clone() });
        assert_eq!(twice.clone().live(ends[0] - Duration::MICROSECOND), twice);
        assert_eq!(twice.clone().live(ends[0]).older, older[..1]);
        assert_eq!(twice.live(ends[1]).older, []);
    }

    #[test]
    fn rotation_drops_secrets_that_have_ended() {
        let late = NOW + ROTATION_OVERLAP;
        let older = vec![(vec![1], late + ROTATION_OVERLAP)];
        let rotated = first().rotated(vec![1], NOW).rotated(vec![2], late);
        assert_eq!(rotated, SealedSecrets { current: vec![2], older });
    }

    #[test]
    fn of_many_rotations_the_newest_secrets_sign_along() {
        let many = (1..=20).fold(first(), |secrets, number| secrets.rotated(vec![number], NOW));
        let older: Vec<_> = many.older.into_iter().map(|(secret, _)| secret[0]).collect();
        assert_eq!((many.current[0], older), (20, (10..20).rev().collect()));
    }
}
