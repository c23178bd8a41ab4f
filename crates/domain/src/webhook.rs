//! Webhooks: endpoints, the events that they get, and when a delivery is retried.
//!
//! Retry schedule: [`DELAYS`]. When an endpoint is disabled: [`FAILING_LIMIT`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::{
    Duration, OffsetDateTime, format_description::StaticFormatDescription,
    macros::format_description,
};

use crate::{
    api_key::{ApiKeyId, Owner, Party},
    entropy::Entropy,
    order::{Actor, EmailAddress, OrderId, OrderStatus, StoredOrder},
    precondition::Precondition,
};

pub use crate::order::event::{ChangedOrder, ErasedFrom, EventChange, EventType};

/// Maximum number of endpoints of a client, for live keys and again for test keys.
pub const MAX_ENDPOINTS: usize = 10;

/// Maximum number of attempts in progress at an endpoint whose last attempt succeeded in time. Others
/// have one.
pub const PER_ENDPOINT: usize = 4;

/// The delays between the attempts of a delivery. After the last one it fails for good.
pub const DELAYS: [Duration; 9] = [
    Duration::seconds(5),
    Duration::minutes(5),
    Duration::minutes(30),
    Duration::hours(2),
    Duration::hours(5),
    Duration::hours(10),
    Duration::hours(14),
    Duration::hours(20),
    Duration::hours(24),
];

/// Greatest part of a delay that is added or taken away at random, so that deliveries that failed
/// together are not retried together.
const JITTER: f64 = 0.2;

/// Time without one success after which an endpoint is disabled.
pub const FAILING_LIMIT: Duration = Duration::days(5);

/// Time between the warning and the disabling.
pub const WARNING_AHEAD: Duration = Duration::DAY;

/// Time for which the old secret of an endpoint still signs after a rotation.
pub const ROTATION_OVERLAP: Duration = Duration::DAY;

/// Maximum number of older secrets of an endpoint that sign along. Each adds a signature to every delivery.
pub const MAX_OLDER_SECRETS: usize = 10;

/// Time for which deliveries are listed and can be replayed.
pub const RETENTION: Duration = Duration::days(30);

/// Identifier of an endpoint, assigned by the store; positive, and never given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub i64);

/// Identifier of a webhook delivery, assigned by the store; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookDeliveryId(pub i64);

/// Why an endpoint gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisabledBy {
    /// Its client or an operator disabled it.
    Request,
    /// Its receiver answered 410.
    Gone,
    /// No attempt succeeded for [`FAILING_LIMIT`].
    Failures,
}

impl DisabledBy {
    /// Returns the name, in answers and storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Gone => "gone",
            Self::Failures => "failures",
        }
    }

    /// Returns the reason of a name; `None` if it is none.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Request, Self::Gone, Self::Failures]
            .into_iter()
            .find(|reason| reason.as_str() == name)
    }
}

/// A webhook endpoint, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its identifier.
    pub id: EndpointId,
    /// Its owner.
    pub owner: Owner,
    /// The key that made it; `None` if an operator did.
    pub key: Option<ApiKeyId>,
    /// Where its events are sent.
    pub url: String,
    /// The events that it gets. None, if this version of the service knows none of them.
    pub events: BTreeSet<EventType>,
    /// The client's note about it.
    pub description: Option<String>,
    /// Instant of creation.
    pub created_at: OffsetDateTime,
    /// Since when and why it gets nothing; `None` if it is enabled. Its events wait, and are sent
    /// when it is enabled again.
    pub disabled: Option<(OffsetDateTime, DisabledBy)>,
    /// The first failed attempt since the last success.
    pub failing_since: Option<OffsetDateTime>,
}

/// The version of an endpoint: a checksum of what people change of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointVersion(pub u64);

/// The preconditions of the change of an endpoint.
pub type EndpointPrecondition = Precondition<EndpointVersion>;

impl Endpoint {
    /// Returns the version. Attempts do not change it, unless the endpoint is disabled for them.
    pub fn version(&self) -> EndpointVersion {
        let mut hash = Sha256::new();
        let disabled = self.disabled.map(|(at, by)| format!("{at} {}", by.as_str()));
        let description = self.description.as_deref();
        let events = self.events.iter().map(|event| event.as_str());
        for part in
            [Some(&*self.url), description, disabled.as_deref()].into_iter().chain(events.map(Some))
        {
            hash.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            hash.update(part.unwrap_or_default());
        }
        let [first, second, third, fourth, fifth, sixth, seventh, eighth, ..] =
            <[u8; 32]>::from(hash.finalize());
        let bytes = [first, second, third, fourth, fifth, sixth, seventh, eighth];
        EndpointVersion(u64::from_be_bytes(bytes))
    }

    /// Returns whether a precondition is true of the endpoint. Of its changes, it knows only the instants of the
    /// creation and the disabling.
    pub fn permits(&self, precondition: &EndpointPrecondition) -> bool {
        let modified_at = self.disabled.map_or(self.created_at, |(at, _)| at);
        precondition.is_true_of(&self.version(), modified_at)
    }

    /// Returns whether the endpoint gets the events of this type of an order.
    pub fn gets(&self, event: EventType, order: &StoredOrder) -> bool {
        let parties = [Party::Client(order.client), Party::Service(order.order.signing_service_id)];
        self.is_of(parties, order.is_test) && self.events.contains(&event)
    }

    /// Returns whether the endpoint gets the event of an erased order.
    pub fn gets_erasure(&self, erased: &ErasedFrom) -> bool {
        self.is_of(erased.parties(), erased.is_test)
            && self.events.contains(&EventType::OrderErased)
    }

    fn is_of(&self, parties: [Party; 2], is_test: bool) -> bool {
        parties.contains(&self.owner.party) && self.owner.is_test == is_test
    }
}

/// The outcome of one attempt, for the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AttemptOutcome {
    /// The receiver answered with this status.
    Status(u16),
    /// There was no answer: a name such as `timed_out`.
    Error(String),
}

/// One attempt of a delivery, for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// When it ended.
    pub at: OffsetDateTime,
    /// Its outcome.
    pub outcome: AttemptOutcome,
}

/// Attempts of a delivery that are kept. After replays, the latest ones.
pub const KEPT_ATTEMPTS: usize = 20;

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookStatus {
    /// It will be attempted.
    Pending {
        /// The next attempt.
        due_at: OffsetDateTime,
    },
    /// The receiver accepted it.
    Delivered,
    /// It failed for good.
    Failed,
}

impl WebhookStatus {
    /// Returns the name in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

/// A delivery of an event to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// Its identifier.
    pub id: WebhookDeliveryId,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The event.
    pub event: EventType,
    /// The order of the event; none for a test.
    pub order_id: Option<OrderId>,
    /// The data of the event besides the order.
    pub change: Option<EventChange>,
    /// Random key. The `webhook-id` is derived from it.
    pub message_key: String,
    /// Instant of the event.
    pub created_at: OffsetDateTime,
    /// Where it stands.
    pub status: WebhookStatus,
    /// Number of failed attempts since the event or the last replay.
    pub failures: u32,
    /// Its attempts, the oldest first; at most [`KEPT_ATTEMPTS`].
    pub attempts: Vec<AttemptRecord>,
}

impl WebhookDelivery {
    /// Returns the `webhook-id`: equal in all attempts and replays of this delivery.
    pub fn message_id(&self) -> String {
        format!("msg_{}", self.message_key)
    }

    /// Returns when to retry after an attempt that failed at `now`. Returns `None` if the delivery
    /// fails for good. `self.failures` does not include this attempt.
    ///
    /// A receiver that asks to wait longer waits up to the next delay but one.
    pub fn next_attempt(
        &self,
        now: OffsetDateTime,
        retry_after: Option<Duration>,
        entropy: &dyn Entropy,
    ) -> Option<OffsetDateTime> {
        let step = usize::try_from(self.failures).unwrap_or(usize::MAX);
        let delay = *DELAYS.get(step)?;
        let longest = DELAYS.get(step + 1).copied().unwrap_or(delay);
        let jittered = delay * (1.0 - JITTER + 2.0 * JITTER * entropy.fraction());
        let asked = retry_after.unwrap_or_default().min(longest);
        Some(now.saturating_add(jittered.max(asked)))
    }
}

/// Returns a new random key of a message, of 128 bits.
pub fn message_key(entropy: &dyn Entropy) -> String {
    hex::encode(entropy.bytes::<16>())
}

/// A mail to the contact of a client about an endpoint that fails: a warning while it is enabled,
/// and then that it is disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointNotice {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Address that receives the mail.
    pub recipient: EmailAddress,
    /// The subject of the mail, and since when.
    pub since: OffsetDateTime,
}

impl EndpointNotice {
    /// Returns the notice that is due about an endpoint.
    pub fn new(endpoint: Endpoint, recipient: EmailAddress) -> Self {
        let since = endpoint.disabled.map(|(at, _)| at).or(endpoint.failing_since);
        Self { since: since.unwrap_or(endpoint.created_at), endpoint, recipient }
    }

    /// Returns the key of the mail, from which its `Message-ID` is derived: two processes that send
    /// the same notice send the same mail.
    pub fn message_key(&self) -> String {
        let kind = if self.endpoint.disabled.is_some() { "disabled" } else { "failing" };
        format!("webhook{}{kind}{}", self.endpoint.id.0, self.since.unix_timestamp())
    }
}

/// The body of a webhook.
#[derive(Debug, Serialize)]
pub struct WebhookPayload<T> {
    /// The type of the event.
    #[serde(rename = "type")]
    event: &'static str,
    /// When it happened: RFC 3339 in UTC, with microseconds.
    timestamp: String,
    /// The object of the event.
    data: T,
}

/// The order of an event. It has no names, phones or addresses: a client reads the order for them.
#[derive(Debug, Serialize)]
pub struct OrderEventData {
    /// Identifier of the order.
    order_id: i64,
    /// Its file number.
    file_number: String,
    /// Its status.
    order_status: String,
    /// The data of the event besides the order.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    change: Option<ChangeEventData>,
    /// Its signing service.
    signing_service_id: i64,
    /// Identifier of the client company.
    client_company_id: Option<i64>,
    /// Number of its documents, with those that the event added, without withdrawn ones.
    documents_uploaded: usize,
    /// Whether a test key created it.
    is_test: bool,
    /// When it was created: RFC 3339 in UTC, with microseconds.
    created_at: String,
}

/// The facts that an event tells besides the order.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ChangeEventData {
    Order { previous_status: String, notary_id: Option<i64> },
    Fields { changed: Vec<String> },
    Note { author: Actor },
    Documents { documents: Vec<u32>, actor: Actor },
}

impl ChangeEventData {
    /// Returns what the event of a change tells besides its order; `None` for an erasure, which has no order.
    fn of(change: &EventChange) -> Option<Self> {
        Some(match change {
            EventChange::Order(change) => Self::Order {
                previous_status: change.previous_status.clone(),
                notary_id: change.notary_id,
            },
            EventChange::Fields { changed } => Self::Fields { changed: changed.clone() },
            EventChange::Note { author } => Self::Note { author: *author },
            EventChange::Documents { documents, actor } => {
                Self::Documents { documents: documents.clone(), actor: *actor }
            }
            EventChange::Erased(_) => return None,
        })
    }
}

impl<T: Serialize> WebhookPayload<T> {
    fn body(event: EventType, at: OffsetDateTime, data: T) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Self { event: event.as_str(), timestamp: timestamp(at), data })
    }
}

/// Returns the body of an event of an order that happened at `at`: the order as the event left it.
/// `change` is what the event tells besides.
/// The dispatcher composes it once: every attempt and every replay sends the same bytes.
pub fn order_body(
    event: EventType,
    change: Option<&EventChange>,
    at: OffsetDateTime,
    order: &StoredOrder,
) -> Result<String, serde_json::Error> {
    let is_created = event == EventType::OrderCreated;
    let new = OrderStatus::NEW;
    let status = match change.and_then(EventChange::order) {
        Some(change) => &*change.order_status,
        None if is_created => new.as_str(),
        None => order.status.as_str(),
    };
    // Clocks of instances differ: a document that was added soon after may have an earlier instant.
    let documents = order.documents.iter().filter(|document| {
        document.withdrawn_at.is_none_or(|withdrawn_at| withdrawn_at > at)
            && (document.created_at == order.created_at || !is_created && document.created_at <= at)
    });
    let data = OrderEventData {
        order_id: order.id.0,
        file_number: order.order.file_number.as_str().to_owned(),
        order_status: status.to_owned(),
        change: change.and_then(ChangeEventData::of),
        signing_service_id: order.order.signing_service_id.0,
        client_company_id: order.order.contacts.client_company_id,
        documents_uploaded: documents.count(),
        is_test: order.is_test,
        created_at: timestamp(order.created_at),
    };
    WebhookPayload::body(event, at, data)
}

/// The data of the event of an erased order.
#[derive(Serialize)]
struct ErasedData {
    order_id: i64,
    is_test: bool,
}

/// Returns the body of the event of an order that was erased at `at`.
pub fn erased_body(
    at: OffsetDateTime,
    order: OrderId,
    erased: &ErasedFrom,
) -> Result<String, serde_json::Error> {
    let data = ErasedData { order_id: order.0, is_test: erased.is_test };
    WebhookPayload::body(EventType::OrderErased, at, data)
}

/// The data of a test event.
#[derive(Serialize)]
struct TestData {
    webhook_id: i64,
}

/// Returns the body of a test event of an endpoint.
pub fn test_body(at: OffsetDateTime, endpoint: EndpointId) -> Result<String, serde_json::Error> {
    WebhookPayload::body(EventType::Test, at, TestData { webhook_id: endpoint.0 })
}

fn timestamp(at: OffsetDateTime) -> String {
    const FORMAT: StaticFormatDescription =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    // Writing to a String does not fail, and the format has no component that an instant lacks.
    at.format(FORMAT).unwrap_or_default()
}

pub mod endpoint_request;
pub mod secret;
#[cfg(test)]
#[path = "webhook_tests.rs"]
mod tests;
