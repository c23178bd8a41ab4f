//! Use case: turn events into deliveries, until the service stops.
//!
//! An event is one row, whatever follows it, so that creating an order costs the same with none and
//! with ten recipients.

use std::{collections::BTreeSet, sync::Arc};

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::Party,
    delivery::{Audience, MailContent, MailSubject, Mails, NewDelivery, Recipient, Settling},
    order::{EmailAddress, OrderId, StoredOrder},
    ports::{
        Clock, DeliveryQueue, Dispatch, Entropy, Event, NewWebhookDelivery, Outbox, ServiceRepo,
        StoreError, WebhookRepo,
    },
    signing_service::SigningService,
    use_cases::{
        background::{Step, Worker},
        deliveries::worker::{OUTAGE_PAUSE, POLL},
    },
    webhook::{self, Endpoint, ErasedFrom, EventChange, erased_body, order_body},
};

/// Maximum number of events in a step.
const BATCH: usize = 64;

/// Pause after a full batch. It bounds the statements of this worker, so that orders keep most of the
/// database.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Delay after which an event is tried again whose order could not be read, or whose deliveries could not be
/// stored.
const PUT_OFF_DELAY: Duration = Duration::MINUTE;

/// Orders with the reasons why their events wait. They wait for a minute, and others pass them.
pub type PutOff = Vec<(OrderId, StoreError)>;

/// The outcome of a step.
#[derive(Debug, Default)]
pub struct Dispatched {
    /// The events that have their deliveries now. No other step of any process has any of them.
    pub events: Vec<Event>,
    /// The orders that cannot be read.
    pub unreadable: PutOff,
    /// The orders with an event whose deliveries cannot be stored.
    pub failed: PutOff,
}

/// Turns events into deliveries. Any number of processes may do so at the same time.
pub struct DispatchEvents {
    /// Stores events.
    pub outbox: Arc<dyn Outbox>,
    /// Reads the orders.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Stores the records of signing services.
    pub services: Arc<dyn ServiceRepo>,
    /// Stores webhook endpoints.
    pub endpoints: Arc<dyn WebhookRepo>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides the keys of mails.
    pub entropy: Arc<dyn Entropy>,
    /// The mails that are sent.
    pub mails: Mails,
    /// How long mails wait whose news gather.
    pub settling: Settling,
}

impl DispatchEvents {
    /// Returns also whether there may be more events.
    ///
    /// A batch that fails is halved, if its events may be at fault, until the event is alone that fails. It is
    /// put off, so that it holds up no other. A store that cannot even do that is unavailable.
    async fn dispatch(&self) -> Result<(Dispatched, bool), StoreError> {
        let now = self.clock.now();
        let events = self.outbox.events(now, BATCH).await?;
        let is_full = events.len() == BATCH;
        let (mut dispatched, mut put_off) = (Dispatched::default(), 0);
        let (mut parts, mut tried_again) = (vec![events], None);
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.dispatch_part(&part, now).await {
                Ok((events, unreadable)) => {
                    put_off += unreadable.len();
                    dispatched.events.extend(events);
                    dispatched.unreadable.extend(unreadable);
                }
                Err(error) if error.may_be_of_data() && part.len() > 1 => {
                    let later = part.split_off(part.len() / 2);
                    parts.extend([later, part]);
                }
                // The end of a connection, such as at a restart of the store, fails one call.
                Err(error @ StoreError::Unavailable(_))
                    if error.may_be_of_data() && tried_again != part.first().map(|one| one.id) =>
                {
                    tried_again = part.first().map(|one| one.id);
                    parts.push(part);
                }
                Err(error) => {
                    let ids: Vec<_> = part.iter().map(|event| event.id).collect();
                    let until = now.saturating_add(PUT_OFF_DELAY);
                    if error.may_be_of_data() && self.outbox.put_off(&ids, until).await.is_ok() {
                        put_off += ids.len();
                        let order = |event: Event| event.order_id;
                        dispatched.failed.extend(part.into_iter().map(order).zip([error]));
                    } else if dispatched.events.is_empty() {
                        return Err(error);
                    } else {
                        // The next step meets the outage again.
                        break;
                    }
                }
            }
        }
        // Events that another instance holds would be read again at once, and so without end.
        let has_more = is_full && dispatched.events.len() + put_off > 0;
        Ok((dispatched, has_more))
    }

    /// Returns the events that have their deliveries now, and the orders that cannot be read.
    async fn dispatch_part(
        &self,
        events: &[Event],
        now: OffsetDateTime,
    ) -> Result<(Vec<Event>, PutOff), StoreError> {
        let orders = self.queue.orders_of(events.iter().map(|event| event.order_id)).await?;
        let found = || orders.values().flatten();
        let services: BTreeSet<_> = found().map(|order| order.order.signing_service_id).collect();
        let services: Vec<_> = services.into_iter().collect();
        let mut parties: BTreeSet<_> = found().map(|order| Party::Client(order.client)).collect();
        parties.extend(services.iter().copied().map(Party::Service));
        let erased = events.iter().filter_map(|event| event.change.as_ref()?.erased());
        parties.extend(erased.flat_map(ErasedFrom::parties));
        let parties: Vec<_> = parties.into_iter().collect();
        let endpoints = self.endpoints.of_parties(&parties).await?;
        let services = self.services.find(&services).await?;
        let told = self.told(events).await?;
        let (mut dispatches, mut put_off) = (Vec::new(), Vec::new());
        for event in events {
            let id = event.id;
            match orders.get(&event.order_id) {
                Some(Err(_unreadable)) => put_off.push(id),
                Some(Ok(order)) => dispatches.push(Dispatch {
                    event: id,
                    mails: self.mails(event, order, &services, &told),
                    settling: self.settling,
                    webhooks: self.webhooks(event, order, &endpoints)?,
                }),
                // An erased order has no recipients, but of its erasure.
                None => dispatches.push(Dispatch {
                    event: id,
                    mails: vec![],
                    settling: self.settling,
                    webhooks: self.webhooks_of_erasure(event, &endpoints)?,
                }),
            }
        }
        if !put_off.is_empty() {
            self.outbox.put_off(&put_off, now.saturating_add(PUT_OFF_DELAY)).await?;
        }
        let removed = match &dispatches[..] {
            [] => Vec::new(),
            some => self.outbox.dispatch(some, now).await?,
        };
        let removed = events.iter().filter(|event| removed.contains(&event.id)).cloned().collect();
        let unreadable = |(id, order): (OrderId, Result<_, _>)| Some((id, order.err()?));
        Ok((removed, orders.into_iter().filter_map(unreadable).collect()))
    }

    /// Returns the addresses that know the orders of these events, if those are cancelled or have changed
    /// fields.
    async fn told(&self, events: &[Event]) -> Result<Vec<Recipient>, StoreError> {
        let depends_on_it = |Event { event, change, .. }: &&Event| {
            let subject = MailSubject::of(*event, change.as_ref());
            matches!(subject, Some(MailSubject::Cancelled | MailSubject::Changed))
        };
        let orders = events.iter().filter(depends_on_it).map(|event| event.order_id);
        match Vec::from_iter(orders.collect::<BTreeSet<_>>()) {
            none if none.is_empty() => Ok(Vec::new()),
            orders => self.queue.told(&orders).await,
        }
    }

    /// Returns a mail for each address of the sides that get the news. An address of both gets one, that
    /// of the service, which has more. A cancellation goes to the addresses that know the order, and to no
    /// other: whoever was removed since must not keep the appointment. Changes that an earlier mail has told,
    /// because it left just now, have none. A test order is no real signing, so it has none either.
    fn mails(
        &self,
        event: &Event,
        order: &StoredOrder,
        services: &[SigningService],
        told: &[Recipient],
    ) -> Vec<NewDelivery> {
        let subject = MailSubject::of(event.event, event.change.as_ref());
        let Some(subject) = subject.filter(|it| !order.is_test && self.mails.include(*it)) else {
            return Vec::new();
        };
        let is_for = |audience| subject.is_for(audience, event.change.as_ref());
        let content = match &event.change {
            Some(EventChange::Documents { documents, .. }) => {
                Some(MailContent::Documents(documents.clone()))
            }
            _ => event.content.clone(),
        };
        let is_conditional = matches!(
            subject,
            MailSubject::NotaryAssigned
                | MailSubject::AssignedAgain
                | MailSubject::DocumentWithdrawn
                | MailSubject::SignedDocumentWithdrawn
        );
        if is_conditional && !subject.is_true_of(content.as_ref(), event.created_at, order) {
            return Vec::new();
        }
        let own = services.iter().filter(|one| one.id == order.order.signing_service_id);
        let own = own.filter(|_| is_for(Audience::Service));
        let dispatchers: Vec<_> = own.flat_map(|service| &service.emails).collect();
        let contacts = order.order.contacts.recipients();
        let clients = contacts.iter().filter(|contact| {
            is_for(Audience::Client)
                && !dispatchers.iter().any(|dispatcher| dispatcher.is_same_as(contact))
        });
        let clients = clients.map(|email| (email, Audience::Client));
        let dispatchers = dispatchers.iter().map(|email| (*email, Audience::Service));
        let mut recipients: Vec<_> = clients.chain(dispatchers).collect();
        let told = told.iter().filter(|one| one.order_id == order.id);
        match subject {
            MailSubject::Changed => {
                let is_told = |one: &&Recipient| one.changes_told_at >= Some(event.created_at);
                let told: Vec<_> = told.filter(is_told).collect();
                recipients
                    .retain(|(address, _)| !told.iter().any(|one| one.address.is_same_as(address)));
            }
            MailSubject::Cancelled => {
                for one in told {
                    if !recipients.iter().any(|(known, _)| known.is_same_as(&one.address)) {
                        recipients.push((&one.address, one.audience));
                    }
                }
            }
            _ => {}
        }
        let mail = |(recipient, audience): (&EmailAddress, _)| NewDelivery {
            message_key: webhook::message_key(&*self.entropy),
            recipient: recipient.clone(),
            subject,
            audience,
            content: content.clone(),
        };
        recipients.into_iter().map(mail).collect()
    }

    /// Returns a webhook for each endpoint that gets the event, with the body that the order has now. Those of a
    /// disabled endpoint wait.
    fn webhooks(
        &self,
        event: &Event,
        order: &StoredOrder,
        endpoints: &[Endpoint],
    ) -> Result<Vec<NewWebhookDelivery>, StoreError> {
        let getting = endpoints.iter().filter(|endpoint| endpoint.gets(event.event, order));
        let (kind, change) = (event.event, &event.change);
        let body = order_body(kind, change.as_ref(), event.created_at, order)
            .map_err(|error| StoreError::Internal(error.into()))?;
        let webhook = |endpoint: &Endpoint| NewWebhookDelivery {
            endpoint: endpoint.id,
            event: kind,
            change: change.clone(),
            message_key: webhook::message_key(&*self.entropy),
            body: Some(body.clone()),
        };
        Ok(getting.map(webhook).collect())
    }

    /// Returns a webhook of an erasure for each endpoint that gets it; none of another event.
    fn webhooks_of_erasure(
        &self,
        event: &Event,
        endpoints: &[Endpoint],
    ) -> Result<Vec<NewWebhookDelivery>, StoreError> {
        let Some(erased) = event.change.as_ref().and_then(EventChange::erased) else {
            return Ok(Vec::new());
        };
        let body = erased_body(event.created_at, event.order_id, erased)
            .map_err(|error| StoreError::Internal(error.into()))?;
        let webhook = |endpoint: &Endpoint| NewWebhookDelivery {
            endpoint: endpoint.id,
            event: event.event,
            change: None,
            message_key: webhook::message_key(&*self.entropy),
            body: Some(body.clone()),
        };
        Ok(endpoints.iter().filter(|endpoint| endpoint.gets_erasure(erased)).map(webhook).collect())
    }
}

impl Worker for DispatchEvents {
    type Done = Dispatched;

    /// Dispatches a batch of events, the oldest first.
    async fn step(&mut self) -> Step<Dispatched> {
        match self.dispatch().await {
            Ok((dispatched, has_more)) => {
                Step { result: Ok(dispatched), pause: if has_more { PAUSE } else { POLL } }
            }
            Err(error) => Step { result: Err(error), pause: OUTAGE_PAUSE },
        }
    }
}

#[cfg(test)]
#[path = "dispatch_events_tests.rs"]
mod tests;
