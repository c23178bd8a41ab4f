//! Use case: turn events into deliveries, until the service stops.
//!
//! An event is one row, whatever follows it, so that creating an order costs the same with none and
//! with ten recipients.

use std::{collections::BTreeSet, sync::Arc};

use time::Duration;

use crate::{
    background::Step,
    delivery::{
        NewDelivery,
        worker::{OUTAGE_PAUSE, POLL},
    },
    order::{OrderId, StoredOrder},
    ports::{
        Clock, DeliveryQueue, Dispatch, Entropy, Event, NewWebhookDelivery, Outbox, StoreError,
        WebhookRepo,
    },
    webhook::{self, Endpoint, EventType},
};

/// Maximum number of events in a step.
const BATCH: usize = 64;

/// Pause after a full batch. It bounds the statements of this worker, so that orders keep most of the
/// database.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Delay after which an order that could not be read is read again.
const UNREADABLE_DELAY: Duration = Duration::MINUTE;

/// Orders that cannot be read, with the reasons. Their events wait for a minute, and others pass them.
pub type UnreadableOrders = Vec<(OrderId, StoreError)>;

/// Turns events into deliveries. Any number of processes may do so at the same time.
pub struct DispatchEvents {
    /// Stores events.
    pub outbox: Arc<dyn Outbox>,
    /// Reads the orders.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Stores webhook endpoints.
    pub endpoints: Arc<dyn WebhookRepo>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides the keys of mails.
    pub entropy: Arc<dyn Entropy>,
}

impl DispatchEvents {
    /// Dispatches a batch of events, the oldest first.
    pub async fn step(&self) -> Step<UnreadableOrders> {
        match self.dispatch().await {
            Ok((unreadable, has_more)) => {
                Step { result: Ok(unreadable), pause: if has_more { PAUSE } else { POLL } }
            }
            Err(error) => Step { result: Err(error), pause: OUTAGE_PAUSE },
        }
    }

    /// Returns the orders that cannot be read, and whether there may be more events.
    async fn dispatch(&self) -> Result<(UnreadableOrders, bool), StoreError> {
        let now = self.clock.now();
        let events = self.outbox.events(now, BATCH).await?;
        if events.is_empty() {
            return Ok((Vec::new(), false));
        }
        let orders = self.queue.orders_of(events.iter().map(|event| event.order_id)).await?;
        let clients: BTreeSet<_> = orders.values().flatten().map(|order| order.client).collect();
        let clients: Vec<_> = clients.into_iter().collect();
        let endpoints = self.endpoints.of_clients(&clients).await?;
        let is_full = events.len() == BATCH;
        let (mut dispatches, mut put_off) = (Vec::new(), Vec::new());
        for Event { id, order_id, event } in events {
            match orders.get(&order_id) {
                Some(Err(_unreadable)) => put_off.push(id),
                Some(Ok(order)) => dispatches.push(Dispatch {
                    event: id,
                    mails: self.mails(event, order),
                    webhooks: self.webhooks(event, order, &endpoints),
                }),
                // An erased order has no recipients.
                None => dispatches.push(Dispatch { event: id, mails: vec![], webhooks: vec![] }),
            }
        }
        if !put_off.is_empty() {
            self.outbox.put_off(&put_off, now.saturating_add(UNREADABLE_DELAY)).await?;
        }
        let removed = match &dispatches[..] {
            [] => 0,
            some => self.outbox.dispatch(some).await?,
        };
        // Events that another instance holds would be read again at once, and so without end.
        let has_more = is_full && removed + put_off.len() > 0;
        let unreadable = |(id, order): (OrderId, Result<_, _>)| Some((id, order.err()?));
        Ok((orders.into_iter().filter_map(unreadable).collect(), has_more))
    }

    /// Returns a mail for each recipient of a new order. A test order is no real signing, so it has
    /// none.
    fn mails(&self, event: EventType, order: &StoredOrder) -> Vec<NewDelivery> {
        if order.is_test || event != EventType::OrderCreated {
            return Vec::new();
        }
        let recipients = order.order.contacts.recipients();
        recipients.into_iter().map(|to| NewDelivery::mail(to, &*self.entropy)).collect()
    }

    /// Returns a webhook for each endpoint that gets the event. Those of a disabled endpoint wait.
    fn webhooks(
        &self,
        event: EventType,
        order: &StoredOrder,
        endpoints: &[Endpoint],
    ) -> Vec<NewWebhookDelivery> {
        let getting = endpoints.iter().filter(|endpoint| endpoint.gets(event, order));
        let webhook = |endpoint: &Endpoint| NewWebhookDelivery {
            endpoint: endpoint.id,
            event,
            message_key: webhook::message_key(&*self.entropy),
        };
        getting.map(webhook).collect()
    }
}

#[cfg(test)]
#[path = "dispatch_events_tests.rs"]
mod tests;
