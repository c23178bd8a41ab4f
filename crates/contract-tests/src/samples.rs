//! Sample orders and keys, and the store on which the storage contracts run.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use domain::{
    api_key::{ApiKeyId, ClientId, KeyHash, NewApiKey, Rate, Scope},
    delivery::NewDelivery,
    document::{ObjectKey, Sha256Digest, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::{Attempt, Claim, ClaimToken, Fingerprint, IdempotencyKey},
    order::{
        EmailAddress, FileNumber, Order, OrderId, OrderRequest, OrderStatus, SigningServiceId,
        StoredOrder, text_rule,
    },
    ports::{
        ApiKeyRepo, Attempted, Cursor, DeliveryPageQuery, DeliveryQueue, Dispatch, EndpointEffect,
        EventId, IdempotencyLedger, Lease, NewEndpoint, NewOrder, OrderAdmin, OrderReader,
        OrderRepo, Outbox, QueueStats, ReplayBatch, Settlement, StoreError, UploadLedger,
        WebhookAttempted, WebhookLease, WebhookQueue, WebhookRepo, WebhookSlots,
    },
    webhook::{
        AttemptOutcome, AttemptRecord, EndpointId, EndpointOwner, EventType,
        endpoint_request::EndpointChange,
    },
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::datetime};

/// The storage ports on one empty store.
pub struct Storage {
    /// Orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Orders as their client reads them.
    pub reader: Arc<dyn OrderReader>,
    /// Orders as an operator sees them.
    pub admin: Arc<dyn OrderAdmin>,
    /// Uploads that no order has adopted.
    pub uploads: Arc<dyn UploadLedger>,
    /// Idempotency keys in use.
    pub idempotency: Arc<dyn IdempotencyLedger>,
    /// API keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Events.
    pub outbox: Arc<dyn Outbox>,
    /// Deliveries.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Webhook endpoints.
    pub webhooks: Arc<dyn WebhookRepo>,
    /// Webhook deliveries.
    pub webhook_queue: Arc<dyn WebhookQueue>,
    /// Executes SQL on the tables of the store, as another system does. Owns what the store needs,
    /// such as its folder.
    pub sql: Box<dyn Fn(&str) + Send + Sync>,
}

impl Storage {
    /// Returns the ports of a store.
    pub fn new<S>(store: Arc<S>, sql: impl Fn(&str) + Send + Sync + 'static) -> Self
    where
        S: OrderRepo
            + OrderReader
            + OrderAdmin
            + UploadLedger
            + IdempotencyLedger
            + ApiKeyRepo
            + Outbox
            + DeliveryQueue
            + WebhookRepo
            + WebhookQueue
            + 'static,
    {
        Self {
            orders: store.clone(),
            reader: store.clone(),
            admin: store.clone(),
            uploads: store.clone(),
            idempotency: store.clone(),
            keys: store.clone(),
            outbox: store.clone(),
            queue: store.clone(),
            webhooks: store.clone(),
            webhook_queue: store,
            sql: Box::new(sql),
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

/// Returns the keys of documents.
pub fn keys_of(documents: &[StoredDocument]) -> Vec<ObjectKey> {
    documents.iter().map(|document| document.key.clone()).collect()
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

/// The golden files of the domain: requests and what a database stores of their orders.
pub const GOLDEN: [&str; 3] = [
    include_str!("../../domain/golden/order-v1-minimal.json"),
    include_str!("../../domain/golden/order-v1-anytime.json"),
    include_str!("../../domain/golden/order-v1-full.json"),
];

fn golden_request(text: &str) -> Value {
    serde_json::from_str::<Value>(text).unwrap()["request"].take()
}

/// Returns the JSON of a request with every required field and no other.
pub fn minimal_request() -> Value {
    golden_request(GOLDEN[0])
}

/// Returns a text of that many characters, most of them beyond ASCII, with characters that SQL and
/// JSON escape.
fn long(characters: usize) -> String {
    "é'\"\\%𝕏;ß中{".chars().cycle().take(characters).collect()
}

/// Returns an e-mail address of 254 characters.
fn long_email(user: &str) -> String {
    format!("{user:x<64}@{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(61))
}

/// Returns the JSON of a request with every field, each as long or as large as its rule allows.
pub fn maximal_request() -> Value {
    let mut request = golden_request(GOLDEN[2]);
    for leaf in leaves(&request, "OrderRequest", "") {
        for candidate in candidates(&request, &leaf) {
            let golden = request.pointer_mut(&leaf.path).unwrap();
            let golden = std::mem::replace(golden, candidate);
            if try_order(request.clone()).is_some() {
                break;
            }
            *request.pointer_mut(&leaf.path).unwrap() = golden;
        }
    }
    request
}

/// A field of a request, by its JSON pointer, the schema of its object and its name.
struct Leaf {
    path: String,
    schema: &'static str,
    name: String,
}

fn leaves(object: &Value, schema: &'static str, path: &str) -> Vec<Leaf> {
    let members = object.as_object().unwrap().iter();
    let of_member = |(name, value): (&String, &Value)| {
        let path = format!("{path}/{name}");
        if !value.is_object() {
            return vec![Leaf { path, schema, name: name.clone() }];
        }
        let schema = match name.as_str() {
            "signingContactsFormData" => "SigningContactsRequest",
            "signingDetailsFormData" => "SigningDetailsRequest",
            "requestedBy" => "RequestedByRequest",
            "invoiceOrderTo" => "InvoiceRecipientRequest",
            _ => "ContactRequest",
        };
        leaves(value, schema, &path)
    };
    members.flat_map(of_member).collect()
}

/// Returns extreme values for a field; some may break a rule that the field has beside its length.
fn candidates(request: &Value, leaf: &Leaf) -> Vec<Value> {
    let rule = text_rule(leaf.schema, &leaf.name);
    match request.pointer(&leaf.path).unwrap() {
        Value::Number(_) => vec![json!(i64::MAX), json!(9_999_999_999.99)],
        Value::String(_) => vec![json!(long(rule.max_length)), json!(long_email(&leaf.name))],
        _ => vec![],
    }
}

fn try_order(request: Value) -> Option<Box<Order>> {
    let request: OrderRequest = serde_json::from_value(request).ok()?;
    request.parse().ok().map(|parsed| parsed.order)
}

/// Returns the order of a valid request.
pub fn order(request: Value) -> Box<Order> {
    try_order(request).unwrap()
}

/// Returns an order with every required field and no other.
pub fn minimal_order() -> Box<Order> {
    order(minimal_request())
}

/// Returns an order with every field, each as long or as large as its rule allows.
pub fn maximal_order() -> Box<Order> {
    order(maximal_request())
}

/// Returns orders that differ in a few members of `signingDetailsFormData`.
///
/// They have every kind of appointment, the first and the last year, a time that occurs twice,
/// extreme values, and sections of one field.
pub fn various_orders() -> Vec<Order> {
    let with = |members: Value, utc: Option<&str>| {
        let mut request = minimal_request();
        request["utcTimeDate"] = json!(utc);
        let details = request["signingDetailsFormData"].as_object_mut().unwrap();
        details.extend(members.as_object().unwrap().clone());
        *order(request)
    };
    vec![
        with(json!({ "signingTimeType": "anytime" }), None),
        with(
            json!({
                "signingTimeType": "anytime", "signingDate": "0001-01-01",
                "timeZoneId": "Etc/GMT+12"
            }),
            None,
        ),
        with(json!({ "signingDate": "0001-01-01", "specificTime": "00:00" }), None),
        with(
            json!({ "signingDate": "1969-12-31", "specificTime": "23:59", "timeZoneId": "UTC" }),
            None,
        ),
        with(
            json!({ "signingTimeType": "between", "startTime": "09:00", "endTime": "09:01" }),
            None,
        ),
        with(
            json!({ "signingDate": "2026-11-01", "specificTime": "01:30" }),
            Some("2026-11-01T06:30:00Z"),
        ),
        with(
            json!({ "signingDate": "2026-11-01", "specificTime": "01:30" }),
            Some("2026-11-01T07:30:00Z"),
        ),
        with(
            json!({
                "signingDate": "9999-12-31", "signingTimeType": "between", "startTime": "00:00",
                "endTime": "23:59", "timeZoneId": "Pacific/Kiritimati"
            }),
            None,
        ),
        with(json!({ "specialInstructions": format!("{}\r\n\t.", long(4_996)) }), None),
        with(json!({ "notaryPay": 0 }), None),
        with(json!({ "isPropertyAddressSame": false }), None),
        with(json!({ "isPropertyAddressSame": false, "signingAddress": "a café" }), None),
        with(
            json!({
                "loanOfficer": { "contact_phone": "5550100" },
                "invoiceOrderTo": { "city": "Austin" }, "notaryPay": 0.01
            }),
            None,
        ),
    ]
}

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
        key,
        name: "_______.pdf".to_owned(),
        name_as_sent,
        media_type: "application/pdf".to_owned(),
        size: 10 * 1024 * 1024,
        sha256: Sha256Digest(sha256),
        created_at: NOW,
    }
}

/// Returns the address of that number.
pub fn recipient(number: usize) -> EmailAddress {
    EmailAddress::try_from(format!("recipient-{number}@example.com")).unwrap()
}

/// Returns a delivery with a new message key.
pub fn delivery(number: usize) -> NewDelivery {
    NewDelivery { message_key: format!("{:032x}", unique()), recipient: recipient(number) }
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
    assert_eq!(outbox.dispatch(&[mails(event, deliveries)]).await.unwrap(), 1);
}

/// Returns the dispatch of an event as mails.
pub fn mails(event: EventId, mails: Vec<NewDelivery>) -> Dispatch {
    Dispatch { event, mails, webhooks: Vec::new() }
}

/// The owner of the endpoints of the live keys of [`CLIENT`].
pub const LIVE: EndpointOwner = EndpointOwner { client: CLIENT, is_test: false };

/// Slots for everything that is due.
pub const WEBHOOK_SLOTS: WebhookSlots =
    WebhookSlots { limit: 1_000, unproven: 1_000, per_endpoint: 1_000, busy: Vec::new() };

/// Returns an endpoint that gets every event of orders.
pub fn new_endpoint(owner: EndpointOwner) -> NewEndpoint {
    NewEndpoint {
        owner,
        url: "https://a.example/hook?é='\"\\".to_owned(),
        events: EventType::OF_ORDERS.into(),
        description: None,
        secret: vec![0, 1, 255],
        created_at: NOW,
    }
}

/// Leases every webhook delivery that is due, for two minutes.
pub async fn lease_webhooks(storage: &Storage, now: OffsetDateTime) -> Vec<WebhookLease> {
    storage.webhook_queue.lease(now, Duration::minutes(2), &WEBHOOK_SLOTS).await.unwrap()
}

/// Returns an attempt that ended at [`NOW`].
pub fn webhook_attempted(
    lease: &WebhookLease,
    settlement: Settlement,
    effect: EndpointEffect,
) -> WebhookAttempted {
    let mut attempts = lease.delivery.attempts.clone();
    attempts.push(AttemptRecord { at: NOW, outcome: AttemptOutcome::Status(200) });
    WebhookAttempted {
        id: lease.delivery.id,
        token: lease.token,
        endpoint: lease.delivery.endpoint,
        url: lease.url.clone(),
        at: NOW,
        settlement,
        attempts,
        effect,
    }
}

/// Settles a delivery whose lease is held.
pub async fn settle_webhook(
    storage: &Storage,
    lease: &WebhookLease,
    settlement: Settlement,
    effect: EndpointEffect,
    at: OffsetDateTime,
) {
    let attempted = WebhookAttempted { at, ..webhook_attempted(lease, settlement, effect) };
    let settled = storage.webhook_queue.settle(&[attempted]).await.unwrap();
    assert_eq!(settled.held, [lease.delivery.id]);
}

/// Calls every method of both ports of webhooks, on an endpoint of its own.
pub async fn call_webhooks<S: WebhookRepo + WebhookQueue>(store: &S) {
    let id = store.add(&new_endpoint(LIVE), 100).await.unwrap().unwrap();
    let change = EndpointChange { is_enabled: Some(true), ..EndpointChange::default() };
    store.change(LIVE, id, &change, NOW).await.unwrap().unwrap();
    assert!(store.rotate_secret(LIVE, id, &[1], NOW).await.unwrap());
    store.endpoint(LIVE, id).await.unwrap().unwrap();
    assert_eq!(store.of_owner(LIVE).await.unwrap().len(), 1);
    assert_eq!(store.of_clients(&[CLIENT]).await.unwrap().len(), 1);
    store.all().await.unwrap();
    let delivery = store.add_test(LIVE, id, "key", NOW).await.unwrap().unwrap();
    let leases = store.lease(NOW, Duration::MINUTE, &WEBHOOK_SLOTS).await.unwrap();
    let fail = Settlement::Fail { at: NOW, error: String::new() };
    let attempted = webhook_attempted(&leases[0], fail, EndpointEffect::Failed);
    assert_eq!(WebhookQueue::settle(store, &[attempted]).await.unwrap().held, [delivery]);
    assert_eq!(WebhookQueue::list(store, true, 10).await.unwrap().len(), 1);
    assert_eq!(WebhookQueue::list(store, false, 10).await.unwrap().len(), 0);
    for cursor in [Cursor::Newest, Cursor::OlderThan(delivery), Cursor::NewerThan(delivery)] {
        let query = DeliveryPageQuery { limit: 1, cursor };
        WebhookQueue::page(store, LIVE, id, &query).await.unwrap().unwrap();
    }
    let batch = ReplayBatch { since: NOW, until: NOW, before: None, limit: 10 };
    assert_eq!(store.replay_batch(LIVE, id, &batch, NOW).await.unwrap(), None);
    assert!(store.replay(LIVE, id, delivery, NOW).await.unwrap());
    assert!(WebhookQueue::retry(store, delivery, NOW).await.unwrap());
    WebhookQueue::stats(store).await.unwrap();
    assert_eq!(store.untold(NOW).await.unwrap().len(), 1);
    store.told(id, false, NOW).await.unwrap();
    assert_eq!(store.disable_failing(NOW, NOW, NOW).await.unwrap(), [id]);
    store.told(id, true, NOW).await.unwrap();
    assert!(store.remove(LIVE, id).await.unwrap());
    WebhookQueue::forget(store, NOW, 10).await.unwrap();
}

/// Makes an attempt at an endpoint of [`LIVE`] that gets this status and ends the delivery.
pub async fn attempt_webhook(storage: &Storage, id: EndpointId, status: u16, at: OffsetDateTime) {
    let queue = &storage.webhook_queue;
    let delivery = queue.add_test(LIVE, id, "attempt", at).await.unwrap().unwrap();
    let leases = queue.lease(at, Duration::minutes(2), &WEBHOOK_SLOTS).await.unwrap();
    let lease = leases.iter().find(|lease| lease.delivery.id == delivery).unwrap();
    let (settlement, effect) = if status == 200 {
        (Settlement::Done, EndpointEffect::Succeeded)
    } else {
        let error = format!("status {status}");
        (Settlement::Fail { at, error }, EndpointEffect::Failed)
    };
    settle_webhook(storage, lease, settlement, effect, at).await;
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
        documents: vec![],
        created_at,
        is_test: false,
        idempotent_request: None,
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
        notary_id: None,
        documents: new
            .documents
            .iter()
            .map(|document| StoredDocument { created_at: new.created_at, ..document.clone() })
            .collect(),
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
        client: None,
        contact: None,
    }
}

/// Returns an idempotency key of a client.
pub fn idempotency_key(client: i64, text: &str) -> IdempotencyKey {
    IdempotencyKey::new(ClientId(client), text).unwrap()
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
