use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use time::{Duration, OffsetDateTime};

use crate::ports::StoreError;
use crate::{
    delivery::{Delivery, DeliveryId, Recipient},
    order::{OrderId, StoredOrder},
};

/// The exclusive right to attempt a delivery until the lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The delivery.
    pub delivery: Delivery,
    /// Distinguishes this lease from every other lease of the delivery.
    pub token: i64,
}

/// A mail that is about to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// The delivery.
    pub id: DeliveryId,
    /// Which mail of its client to its recipient this is in the current hour of the clock, from 1.
    /// `None` if it is not counted: it was counted before and did not wait for the limit, or its
    /// reader is a signing service, whose addresses the operator recorded.
    pub mail_of_hour: Option<u64>,
    /// The number of changes that its order had when its appointment last changed: when it was moved, cancelled or
    /// reinstated. 0 for one that was not. `None` if the order is erased or no more the one that was read, or
    /// another transaction is changing it.
    pub sequence: Option<u32>,
}

/// The outcome of an operator's retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retried {
    /// The delivery is due.
    Due,
    /// A worker has leased the delivery. Nothing changed: it could be sent twice.
    Leased,
    /// There is no such delivery.
    NotFound,
}

/// An attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempted {
    /// The delivery.
    pub id: DeliveryId,
    /// Its lease.
    pub token: i64,
    /// The outcome.
    pub settlement: Settlement,
}

/// The outcome of an attempt, as the queue stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It succeeded. The delivery leaves the queue.
    Done,
    /// The order has changed: the mail would be wrong, its recipient is no party any more, or another mail tells it.
    /// The delivery leaves the queue.
    Obsolete,
    /// It failed. The delivery is due again at `due_at`.
    RetryAt {
        /// The next attempt.
        due_at: OffsetDateTime,
        /// The error, for operators.
        error: String,
    },
    /// It is unknown whether it succeeded. The delivery is due again at `due_at`, and the outcome is
    /// counted.
    Unknown {
        /// The next attempt.
        due_at: OffsetDateTime,
        /// The error, for operators.
        error: String,
    },
    /// The recipient has reached its hourly limit. The delivery waits until `due_at`, the attempt does
    /// not count, and it is counted again.
    OverLimit {
        /// The next attempt.
        due_at: OffsetDateTime,
        /// The error, for operators.
        error: String,
    },
    /// No mail can be handed over now. The delivery is due again at `due_at`, and the attempt does
    /// not count.
    Postpone {
        /// The next attempt.
        due_at: OffsetDateTime,
        /// The error, for operators.
        error: String,
    },
    /// It failed for good. The delivery waits for an operator.
    Fail {
        /// The instant of the failure.
        at: OffsetDateTime,
        /// The error, for operators.
        error: String,
    },
}

/// An order that an event or a delivery is about.
pub type FoundOrder = (OrderId, Result<StoredOrder, StoreError>);

/// Orders that were found, by their identifiers.
pub(crate) type FoundOrders = HashMap<OrderId, Result<StoredOrder, StoreError>>;

/// The size of the queue and the outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Events whose deliveries are not in the queue yet.
    pub events: u64,
    /// Deliveries to attempt, leased ones included.
    pub pending: u64,
    /// Those of them that wait because their recipients have had their mails of the hour.
    pub over_limit: u64,
    /// Deliveries that failed for good.
    pub failed: u64,
    /// Events that are put off: their orders cannot be read, or their deliveries cannot be stored.
    pub put_off: u64,
    /// The order of one of them.
    pub put_off_order: Option<OrderId>,
    /// Creation of the oldest event or pending delivery, without those that wait for the limit.
    pub oldest_created_at: Option<OffsetDateTime>,
    /// Next attempt of the pending delivery that waits longest.
    pub latest_due_at: Option<OffsetDateTime>,
}

/// Stores deliveries until they succeed. [`Outbox::dispatch`](super::Outbox::dispatch) adds them.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait DeliveryQueue: Send + Sync {
    /// Leases up to `limit` deliveries that are due at `now`, the longest due first.
    ///
    /// An implementation guarantees:
    /// - No other worker gets a leased delivery before `now + lease_for`.
    /// - After that, a delivery that is not settled is due again.
    ///
    /// A lease need not be durable: without it, the delivery is attempted again.
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError>;

    /// Ends the leases and claims that only dead processes can hold, at the start of a service. Returns the number of
    /// deliveries that are free again. It covers mails, webhooks, and claims to idempotency keys.
    ///
    /// An implementation guarantees:
    /// - A lease that a living process may hold stays.
    async fn end_dead_leases(&self, now: OffsetDateTime) -> Result<usize, StoreError>;

    /// Moves the ends of leases that are still held to `until`. Need not be durable.
    async fn renew(
        &self,
        leases: &[(DeliveryId, i64)],
        until: OffsetDateTime,
    ) -> Result<(), StoreError>;

    /// Counts mails that are about to leave, each with the version (`updated_at`) of its order that was
    /// read. Remembers the recipients of those that may leave, durably: a later cancellation tells them. Those
    /// with all fields ([`MailSubject::WHOLE`](crate::delivery::MailSubject::WHOLE)) are remembered with the version of
    /// the order. Leaves out deliveries that are gone.
    ///
    /// An implementation guarantees:
    /// - A mail may leave if its order still has that version, and it is within `limit` mails of the
    ///   hour, if it is counted; 0 means no limit.
    /// - A mail is counted while no outcome of it is stored, and after it waited for the limit: two
    ///   mails may leave if a worker is lost.
    /// - Mails of a client to a recipient are counted over all processes, whatever the case of the
    ///   address, in the order of the call.
    /// - The mails about changed fields that a mail with all fields tells leave the queue
    ///   ([`NewDelivery::tells`](crate::delivery::NewDelivery::tells)), unless they are leased, failed for good, or the
    ///   mail itself may have arrived before. Of two about changed fields, the older stays: it has older values.
    /// - Counts of past hours do not pile up.
    async fn begin(
        &self,
        mails: &[(DeliveryId, OffsetDateTime)],
        now: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<Begun>, StoreError>;

    /// Returns the remembered recipients of orders.
    async fn told(&self, orders: &[OrderId]) -> Result<Vec<Recipient>, StoreError>;

    /// Returns those of the orders that exist and are not erased, whatever their clients, in no
    /// particular order. Cancelled ones have their changes. An order whose row cannot be read is an
    /// error of its own, which names it.
    async fn orders(&self, ids: &[OrderId]) -> Result<Vec<FoundOrder>, StoreError>;

    /// Settles leased deliveries in one atomic, durable step. A failure counts as one attempt,
    /// except [`Settlement::Postpone`].
    ///
    /// Returns the deliveries whose leases were held. Nothing changes for the others: another
    /// worker has a later lease.
    async fn settle(&self, attempted: &[Attempted]) -> Result<Vec<DeliveryId>, StoreError>;

    /// Returns deliveries by age, the oldest first, at most `limit`: those that failed for good,
    /// or the pending ones.
    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError>;

    /// Makes a delivery due at `now` and resets its attempts, unless a worker has leased it.
    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<Retried, StoreError>;

    /// Makes up to `limit` pending deliveries due at `now` that are due more than
    /// [`FARTHEST_DUE`](crate::delivery::FARTHEST_DUE) later. Returns their number. May leave some that another worker
    /// is changing.
    async fn bring_forward(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError>;

    /// Returns the size of the queue and the outbox.
    async fn stats(&self) -> Result<QueueStats, StoreError>;
}

impl dyn DeliveryQueue + '_ {
    /// Reads each of the orders once, and nothing if there are none.
    pub(crate) async fn orders_of(
        &self,
        ids: impl Iterator<Item = OrderId>,
    ) -> Result<FoundOrders, StoreError> {
        let ids: Vec<_> = ids.collect::<BTreeSet<_>>().into_iter().collect();
        let found = if ids.is_empty() { Vec::new() } else { self.orders(&ids).await? };
        Ok(found.into_iter().collect())
    }
}
