use async_trait::async_trait;
use time::OffsetDateTime;

use crate::ports::{NewWebhookDelivery, StoreError};
use crate::{
    delivery::{MailContent, NewDelivery, Settling},
    order::OrderId,
    webhook::{EventChange, EventType},
};

/// Identifier of an event, assigned by the store; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub i64);

/// An event of an order that has no deliveries yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its identifier.
    pub id: EventId,
    /// The order.
    pub order_id: OrderId,
    /// The instant of the event.
    pub created_at: OffsetDateTime,
    /// The kind of the event.
    pub event: EventType,
    /// The change that the event tells of.
    pub change: Option<EventChange>,
    /// The data that only its mails get.
    pub content: Option<MailContent>,
}

/// The deliveries that follow an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    /// The event.
    pub event: EventId,
    /// Its mails.
    pub mails: Vec<NewDelivery>,
    /// How long those of them wait for more whose news gather.
    pub settling: Settling,
    /// Its webhooks: at most one for an endpoint.
    pub webhooks: Vec<NewWebhookDelivery>,
}

/// Stores events until their deliveries are in the queue.
/// [`OrderRepo::create`](crate::ports::OrderRepo::create) adds one for each order, and
/// [`OrderRepo::change`](crate::ports::OrderRepo::change) those that the domain decides. The database
/// itself adds one for each change of status or notary, whoever makes it.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Returns up to `limit` events, the oldest first. Leaves out those that are put off beyond
    /// `now`, but by no more than [`FARTHEST_DUE`](crate::delivery::FARTHEST_DUE): a clock was ahead then. Another
    /// process may get the same events.
    async fn events(&self, now: OffsetDateTime, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// Removes events and adds their deliveries to the queues, in one atomic, durable step. The
    /// deliveries are as old as their event, and due at `now` at the latest, but for mails whose news gather:
    /// they are due when their news have [settled](Settling). Returns the removed events.
    ///
    /// News [join](NewDelivery::join) the newest mail of their order, kind and recipient that waits. One that a worker
    /// has leased, that failed for good, or whose outcome is unknown does not wait. The joined mail is as
    /// old as before, and has no failed attempts. If its news gather, it is due when all of them have settled, and not
    /// earlier than before. Changes that a mail which waits [tells](NewDelivery::tells) anyway have none.
    ///
    /// An implementation guarantees, over any number of processes:
    /// - Of concurrent calls with one event, one removes it and adds its deliveries.
    /// - An event that is not there any more adds none.
    /// - Of concurrent calls with news of one kind, one adds the mail, and the others join it.
    async fn dispatch(
        &self,
        dispatches: &[Dispatch],
        now: OffsetDateTime,
    ) -> Result<Vec<EventId>, StoreError>;

    /// Puts events off until an instant.
    async fn put_off(&self, events: &[EventId], until: OffsetDateTime) -> Result<(), StoreError>;
}
