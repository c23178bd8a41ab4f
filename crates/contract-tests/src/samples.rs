//! Sample orders and keys, and the store on which the storage contracts run.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use domain::{
    api_key::{ApiKeyId, ClientId, KeyHash, NewApiKey, Owner, Rate, Scope},
    delivery::{Audience, MailSubject, NewDelivery, Settling},
    document::{DocumentKind, ObjectKey, Sha256Digest, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::{
        Attempt, Claim, ClaimToken, Fingerprint, IdempotencyKey, IdempotentRequest, KeyUse,
    },
    order::{
        DocumentId, EmailAddress, FileNumber, Names, OrderId, OrderStatus, SigningServiceId,
        StoredOrder,
    },
    ports::{
        AccessLog, ApiKeyRepo, Attempted, ChangeFeed, DatabaseTime, DeliveryQueue, Dispatch,
        ErasureOutcome, EventId, IdempotencyLedger, InstallationRepo, Lease, NewOrder, OrderAdmin,
        OrderReader, OrderRepo, Outbox, PersonRepo, QueueStats, RejectedLog, ServiceRepo,
        SessionRepo, Settlement, StoreError, UploadLedger, WebhookQueue, WebhookRepo, WriteError,
        error_chain,
    },
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime, macros::datetime};

use crate::OtherSystem;

mod accesses;
mod commands;
mod damaged;
mod orders;
mod people;
mod shapes;
mod webhooks;

pub use accesses::*;
pub use commands::*;
pub use damaged::*;
pub use orders::*;
pub use people::*;
pub use shapes::*;
pub use webhooks::*;

/// The storage ports on one empty store.
pub struct Storage {
    /// Orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Orders as their client reads them.
    pub reader: Arc<dyn OrderReader>,
    /// The feed of changes.
    pub feed: Arc<dyn ChangeFeed>,
    /// Orders as an operator sees them.
    pub admin: Arc<dyn OrderAdmin>,
    /// Uploads that no order has adopted.
    pub uploads: Arc<dyn UploadLedger>,
    /// Idempotency keys in use.
    pub idempotency: Arc<dyn IdempotencyLedger>,
    /// API keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Records of signing services.
    pub services: Arc<dyn ServiceRepo>,
    /// Events.
    pub outbox: Arc<dyn Outbox>,
    /// Deliveries.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Webhook endpoints.
    pub webhooks: Arc<dyn WebhookRepo>,
    /// Webhook deliveries.
    pub webhook_queue: Arc<dyn WebhookQueue>,
    /// Accesses.
    pub accesses: Arc<dyn AccessLog>,
    /// Rejected requests.
    pub rejected: Arc<dyn RejectedLog>,
    /// People.
    pub people: Arc<dyn PersonRepo>,
    /// Sessions.
    pub sessions: Arc<dyn SessionRepo>,
    /// What the database knows of the time.
    pub time: Arc<dyn DatabaseTime>,
    /// The installation.
    pub installation: Arc<dyn InstallationRepo>,
    /// Another system that shares the store. Owns what the store needs, such as its folder.
    pub other_system: Box<dyn OtherSystem>,
}

impl Storage {
    /// Returns the ports of a store, and the other system that shares it.
    pub fn new<S>(store: Arc<S>, other_system: impl OtherSystem + 'static) -> Self
    where
        S: OrderRepo
            + OrderReader
            + ChangeFeed
            + OrderAdmin
            + UploadLedger
            + IdempotencyLedger
            + ApiKeyRepo
            + ServiceRepo
            + Outbox
            + DeliveryQueue
            + WebhookRepo
            + WebhookQueue
            + AccessLog
            + RejectedLog
            + PersonRepo
            + SessionRepo
            + DatabaseTime
            + InstallationRepo
            + 'static,
    {
        Self {
            orders: store.clone(),
            reader: store.clone(),
            feed: store.clone(),
            admin: store.clone(),
            uploads: store.clone(),
            idempotency: store.clone(),
            keys: store.clone(),
            services: store.clone(),
            outbox: store.clone(),
            queue: store.clone(),
            webhooks: store.clone(),
            webhook_queue: store.clone(),
            accesses: store.clone(),
            rejected: store.clone(),
            people: store.clone(),
            sessions: store.clone(),
            time: store.clone(),
            installation: store,
            other_system: Box::new(other_system),
        }
    }

    /// Creates an order.
    pub async fn create(&self, order: &NewOrder) -> OrderId {
        self.orders.create(order, WINDOW).await.unwrap()
    }

    /// Creates orders with these file numbers.
    pub async fn create_all<const N: usize>(&self, file_numbers: [&str; N]) -> [OrderId; N] {
        let mut ids = [OrderId(0); N];
        for (id, file_number) in ids.iter_mut().zip(file_numbers) {
            *id = self.create(&new_order(file_number, NOW)).await;
        }
        ids
    }

    /// Records uploads at [`NOW`].
    pub async fn record(&self, keys: &[ObjectKey]) {
        self.uploads.record(keys, NOW).await.unwrap();
    }

    /// Condemns uploads. Returns those that are in the ledger.
    pub async fn condemn(&self, keys: &[ObjectKey]) -> Vec<ObjectKey> {
        self.uploads.condemn(keys).await.unwrap()
    }

    /// Returns the numbers of events and deliveries.
    pub async fn stats(&self) -> QueueStats {
        self.queue.stats().await.unwrap()
    }
}

/// Runs futures at the same time, each on a task of its own.
pub async fn at_once<F>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    join_all(futures.into_iter().map(tokio::spawn)).await.into_iter().map(Result::unwrap).collect()
}

/// Creates three orders whose identifiers have two digits or more, so that no error has them by chance.
pub async fn create_to_be_named(storage: &Storage) -> [OrderId; 3] {
    for number in 0.. {
        let id = storage.create(&new_order(&format!("before {number}"), NOW)).await;
        if id.0 > 9 {
            break;
        }
    }
    storage.create_all(["F-1", "F-2", "F-3"]).await
}

/// Returns whether an error says that the record of an order cannot be read.
pub fn names_order(error: &StoreError, id: OrderId) -> bool {
    let (number, text) = (id.0.to_string(), error_chain(error));
    matches!(error, StoreError::Internal(_))
        && text.split(|character: char| !character.is_ascii_digit()).any(|word| word == number)
}

/// Returns the keys of documents.
pub fn keys_of(documents: &[StoredDocument]) -> Vec<ObjectKey> {
    documents.iter().filter_map(|document| document.key.clone()).collect()
}

/// The instant of the samples, with microseconds.
pub const NOW: OffsetDateTime = datetime!(2026-11-21 12:00:00.123456 UTC);

/// The client and the API key of sample orders.
pub const CLIENT: ClientId = ClientId(3);
/// See [`CLIENT`].
pub const API_KEY: ApiKeyId = ApiKeyId(4);

/// One minute.
pub const WINDOW: DuplicateWindow = DuplicateWindow(Duration::MINUTE);

/// The smallest difference that a store keeps.
pub const MICROSECOND: Duration = Duration::MICROSECOND;

static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns a number that no other call in this process returns.
fn unique() -> u64 {
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Returns a new key.
pub fn object_key() -> ObjectKey {
    let number = unique();
    ObjectKey::from_stored(format!("{:02x}/{number:032x}", number % 256))
}

/// Returns a document with a new key.
pub fn document() -> StoredDocument {
    let key = object_key();
    let name_as_sent = format!("договор «{}» 'é\"\\%.pdf", key.as_str());
    let mut sha256 = [0xff; 32];
    sha256[..8].copy_from_slice(&unique().to_le_bytes());
    StoredDocument {
        key: Some(key),
        name: "_______.pdf".to_owned(),
        name_as_sent,
        media_type: "application/pdf".to_owned(),
        size: 10 * 1024 * 1024,
        sha256: Sha256Digest(sha256),
        crc32: Some(u32::MAX),
        created_at: NOW,
        replaced_by: None,
        withdrawn_at: None,
        is_erased: false,
        first_downloaded_at: None,
        by: None,
    }
}

/// Returns the key of a document that is not withdrawn.
pub fn key_of(document: &StoredDocument) -> ObjectKey {
    document.key.clone().unwrap()
}

/// Returns the document to sign at a position of an order.
pub fn to_sign(order: OrderId, position: u32) -> DocumentId {
    DocumentId { order, kind: DocumentKind::ToSign, position }
}

/// Returns the address of that number.
pub fn recipient(number: usize) -> EmailAddress {
    EmailAddress::try_from(format!("recipient-{number}@example.com")).unwrap()
}

/// Returns a delivery with a new message key.
pub fn delivery(number: usize) -> NewDelivery {
    NewDelivery {
        message_key: format!("{:032x}", unique()),
        recipient: recipient(number),
        subject: MailSubject::Created,
        audience: Audience::Client,
        content: None,
    }
}

/// Creates an order and dispatches these deliveries of it.
pub async fn enqueue<S: OrderRepo + Outbox>(
    store: &S,
    order: &NewOrder,
    deliveries: Vec<NewDelivery>,
) -> OrderId {
    let id = store.create(order, WINDOW).await.unwrap();
    dispatch(store, id, deliveries).await;
    id
}

/// Dispatches these deliveries of an order.
pub async fn dispatch(outbox: &dyn Outbox, order: OrderId, deliveries: Vec<NewDelivery>) {
    let events = outbox.events(NOW, 1_000).await.unwrap();
    let event = events.iter().find(|event| event.order_id == order).unwrap().id;
    // After every instant of a test: the deliveries are due at the instant of their event.
    let now = NOW + 400 * Duration::DAY;
    assert_eq!(outbox.dispatch(&[mails(event, deliveries)], now).await.unwrap(), [event]);
}

/// Returns the dispatch of an event as mails.
pub fn mails(event: EventId, mails: Vec<NewDelivery>) -> Dispatch {
    Dispatch { event, mails, settling: Settling::NONE, webhooks: Vec::new() }
}

/// Settles one delivery. Returns whether its lease was held.
pub async fn settle(queue: &dyn DeliveryQueue, lease: &Lease, settlement: &Settlement) -> bool {
    let (id, token, settlement) = (lease.delivery.id, lease.token, settlement.clone());
    let held = queue.settle(&[Attempted { id, token, settlement }]).await.unwrap();
    assert!(held.is_empty() || held == [id], "{held:?}");
    !held.is_empty()
}

/// Returns the order of a delivery.
pub async fn order_of(
    queue: &dyn DeliveryQueue,
    id: OrderId,
) -> Result<Option<StoredOrder>, StoreError> {
    let mut found = queue.orders(&[id]).await?;
    assert!(found.len() <= 1 && found.iter().all(|(found, _)| *found == id));
    found.pop().map(|(_, order)| order).transpose()
}

/// Returns a minimal order with a file number and no documents.
pub fn new_order(file_number: &str, created_at: OffsetDateTime) -> NewOrder {
    let mut order = minimal_order();
    order.file_number = FileNumber::new(file_number.to_owned()).unwrap();
    NewOrder {
        order,
        client: CLIENT,
        api_key: API_KEY,
        person: None,
        documents: vec![],
        created_at,
        is_test: false,
        idempotent_request: None,
        only_after: None,
    }
}

/// Returns the stored form of a new order.
pub fn stored(id: OrderId, new: &NewOrder) -> StoredOrder {
    StoredOrder {
        id,
        order: new.order.clone(),
        status: OrderStatus::NEW,
        client: new.client,
        api_key: new.api_key,
        person: new.person,
        notary_id: None,
        notary: None,
        documents: new
            .documents
            .iter()
            .map(|document| StoredDocument { created_at: new.created_at, ..document.clone() })
            .collect(),
        signed_documents: Vec::new(),
        changes: Vec::new(),
        notes: Vec::new(),
        names: Names::default(),
        held_until: None,
        touched_at: None,
        is_test: new.is_test,
        created_at: new.created_at,
        updated_at: new.created_at,
    }
}

/// Records the uploads of an order and creates it.
pub async fn create_with_uploads(store: &Storage, order: &NewOrder) -> OrderId {
    record_uploads(store, &order.documents).await;
    store.create(order).await
}

/// Records the uploads of documents.
pub async fn record_uploads(store: &Storage, documents: &[StoredDocument]) {
    store.record(&keys_of(documents)).await;
}

/// Returns an API key with every field.
pub fn api_key(issued_at: OffsetDateTime) -> NewApiKey {
    let number = unique();
    let mut hash = [0xa5; 32];
    hash[..8].copy_from_slice(&number.to_le_bytes());
    NewApiKey {
        name: format!("é'\"key {number}"),
        lookup: format!("{number:016x}"),
        hash: KeyHash(hash),
        signing_service: Some(SigningServiceId(i64::MAX)),
        scopes: Scope::ALL.into_iter().collect(),
        issued_at,
        expires_at: Some(datetime!(9999-12-31 23:59:59.999999 UTC)),
        is_test: true,
        rate: Some(Rate { per_second: u32::MAX, burst: 1 }),
        documents_rate: Some(Rate { per_second: 1, burst: u32::MAX }),
        for_service: None,
        client: None,
        client_name: None,
        contact: None,
    }
}

/// Returns the use of the key of a request that was rejected for it.
pub fn key_use<T: std::fmt::Debug>(outcome: Result<T, WriteError>) -> KeyUse {
    match outcome {
        Err(WriteError::KeyInUse(taken)) => taken,
        other => panic!("{other:?}"),
    }
}

/// Returns an idempotency key of a client.
pub fn idempotency_key(client: i64, text: &str) -> IdempotencyKey {
    IdempotencyKey::new(Owner::client(ClientId(client), false), text).unwrap()
}

/// Returns a new claim to a key.
pub fn claim(key: &IdempotencyKey) -> Claim {
    let mut token = [0x5a; 16];
    token[..8].copy_from_slice(&unique().to_le_bytes());
    Claim { key: key.clone(), token: ClaimToken(token) }
}

/// Returns a new attempt under a key, with a fingerprint.
pub fn attempt(key: &IdempotencyKey, fingerprint: u8) -> Attempt {
    Attempt { claim: claim(key), fingerprint: Fingerprint([fingerprint; 32]) }
}

/// Time for which the request of [`with_key`] is recorded.
pub const KEPT: Duration = Duration::DAY;

/// Returns the attempt at an instant, recorded for a day.
pub fn idempotent_request(attempt: &Attempt, at: OffsetDateTime) -> Option<IdempotentRequest> {
    Some(IdempotentRequest { attempt: attempt.clone(), kept_until: at + KEPT })
}

/// Returns an order under the key of an attempt.
pub fn with_key(order: NewOrder, attempt: &Attempt) -> NewOrder {
    NewOrder { idempotent_request: idempotent_request(attempt, order.created_at), ..order }
}

/// Returns the keys of an order that was erased.
pub fn condemned(outcome: ErasureOutcome) -> Vec<ObjectKey> {
    match outcome {
        ErasureOutcome::Erased(keys) => keys,
        other => panic!("not erased: {other:?}"),
    }
}
