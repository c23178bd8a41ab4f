//! Changes of a store past its ports.

use async_trait::async_trait;
use domain::{
    access::RunId,
    api_key::ClientId,
    delivery::DeliveryId,
    order::OrderId,
    ports::EventId,
    webhook::{EndpointId, WebhookDeliveryId},
};

/// Another system that shares the store under test: it writes what no port writes, and finds what no
/// port shows. Each adapter implements it on its own tables, files or objects.
///
/// [`SqlTables`](crate::SqlTables) is the implementation for the tables of `migrations/`.
#[async_trait]
pub trait OtherSystem: Send + Sync {
    /// Changes an order in one step.
    async fn change_order(&self, id: OrderId, change: ForeignChange);

    /// Adds a copy of an order with another status, that does not hold the file number.
    async fn copy_order(&self, id: OrderId, status: &'static str);

    /// Makes the history of an order count this many entries.
    async fn count_entries(&self, id: OrderId, entries: i64);

    /// Writes what a search looks at as version 0.1.0 does: one text, and nothing of any-time appointments and
    /// notaries.
    async fn write_as_first_version(&self, id: OrderId, search_text: &'static str);

    /// Creates an order as version 0.1.0 does, which knows no later column: like another one, with a file number.
    async fn create_as_first_version(&self, like: OrderId, file_number: &'static str);

    /// Changes an order as version 0.1.0 does: adds a note, amends it, adds documents, and assigns it.
    async fn change_as_first_version(&self, id: OrderId);

    /// Erases an order as version 0.1.0 does. It has no documents.
    async fn erase_as_first_version(&self, id: OrderId);

    /// Damages the record of an order, so that no port can read it.
    async fn damage_order(&self, id: OrderId);

    /// Damages the old values in the history of an order, so that no port can read them.
    async fn damage_old_values(&self, id: OrderId);

    /// Lets no two orders have a word in what a search looks at.
    async fn let_one_order_have(&self, word: &'static str);

    /// Makes the epochs of the feed those of another database, as after a restore of a backup.
    async fn make_epochs_foreign(&self);

    /// Writes the file number of an order in the decomposed form, as version 0.1.0 does if the client sends it so.
    async fn decompose_file_number(&self, id: OrderId);

    /// Gives each event a type that only a newer version of the service knows.
    async fn make_events_unknown(&self);

    /// Damages the change that an event tells of, so that no port can read it.
    async fn damage_event(&self, id: EventId);

    /// Gives each key a scope, and the trail of each key a line, that only a newer version of the service
    /// knows.
    async fn make_keys_unknown(&self);

    /// Gives a mail a subject that only a newer version of the service knows.
    async fn make_mail_unknown(&self, id: DeliveryId);

    /// Gives a webhook an event that only a newer version of the service knows.
    async fn make_webhook_unknown(&self, id: WebhookDeliveryId);

    /// Damages a webhook, so that no port can read it.
    async fn damage_webhook(&self, id: WebhookDeliveryId);

    /// Lets an endpoint get new orders, and an event that only a newer version of the service knows.
    async fn make_endpoint_unknown(&self, id: EndpointId);

    /// Gives an access a kind that only a newer version of the service knows.
    async fn make_access_unknown(&self, run: RunId, number: u64);

    /// Returns what the store still has of an order.
    async fn remains(&self, id: OrderId) -> Remains;
}

/// A change of an order by another system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignChange {
    /// Sets the status.
    Status(&'static str),
    /// Sets or removes the notary.
    Notary(Option<i64>),
    /// Sets both.
    Both(&'static str, Option<i64>),
    /// Sets the notary and its name.
    Named(Option<i64>, &'static str),
    /// Writes the order as it is.
    Nothing,
}

/// The rest of an order in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains {
    /// Its status.
    pub status: String,
    /// Its client.
    pub client: ClientId,
    /// The status that each of its changes has set, the oldest first.
    pub history: Vec<String>,
    /// Its data: details, file number, times of the signing, notary, notes, reasons and old values of changes,
    /// documents. Erasure leaves none.
    pub data: Vec<String>,
}
