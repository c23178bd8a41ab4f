//! Orders and what belongs to them, to be stored and read back; and what the contracts of the
//! stores run on.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use domain::{
    api_key::{ApiKeyId, ClientId, KeyHash, NewApiKey, Rate},
    delivery::NewDelivery,
    document::{ObjectKey, Sha256Digest, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::{Attempt, Claim, ClaimToken, Fingerprint, IdempotencyKey},
    order::{EmailAddress, Order, OrderRequest, OrderStatus, SigningServiceId, StoredOrder},
    ports::{ApiKeyRepo, DeliveryQueue, IdempotencyLedger, NewOrder, OrderRepo, UploadLedger},
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::datetime};

/// The storage ports over one empty store.
pub struct Storage {
    /// Orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Objects of orders that are not placed yet.
    pub uploads: Arc<dyn UploadLedger>,
    /// Idempotency keys in use.
    pub idempotency: Arc<dyn IdempotencyLedger>,
    /// API keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Follow-ups.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Kept as long as the store is used, such as the folder that it lies in.
    pub guard: Box<dyn Any + Send + Sync>,
}

impl Storage {
    /// A store that keeps every port.
    pub fn new<S>(store: Arc<S>, guard: impl Any + Send + Sync) -> Self
    where
        S: OrderRepo + UploadLedger + IdempotencyLedger + ApiKeyRepo + DeliveryQueue + 'static,
    {
        Self {
            orders: store.clone(),
            uploads: store.clone(),
            idempotency: store.clone(),
            keys: store.clone(),
            queue: store,
            guard: Box::new(guard),
        }
    }
}

/// When the samples are made, to the microsecond.
pub const NOW: OffsetDateTime = datetime!(2026-11-21 12:00:00.123456 UTC);

/// The client and the API key of sample orders.
pub const CLIENT: ClientId = ClientId(3);
/// See [`CLIENT`].
pub const API_KEY: ApiKeyId = ApiKeyId(4);

/// One minute.
pub const WINDOW: DuplicateWindow = DuplicateWindow(Duration::MINUTE);

/// The smallest difference that a store keeps.
pub const MICROSECOND: Duration = Duration::MICROSECOND;

/// The JSON of a request with every required field and no other.
pub fn minimal_request() -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": {
            "fileNumber": "REFI-1", "signingDate": "2026-12-01", "signingTimeType": "at", "specificTime": "14:30", "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St, Dallas, TX 75201", "signingType": "Refinance", "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com", "city": "Dallas", "state": "TX", "zipcode": "75201"
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}

/// A text of that many characters, most of them beyond ASCII, with what SQL and JSON have to
/// escape.
fn long(characters: usize) -> String {
    "é'\"\\%𝕏;ß中{".chars().cycle().take(characters).collect()
}

/// An e-mail address of 254 characters.
fn long_email(user: &str) -> String {
    format!("{user:x<64}@{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(61))
}

fn full_contact(user: &str) -> Value {
    json!({ "contact_name": long(200), "contact_phone": "+1 (555) 010-0100 ext. 12345678", "contact_email": long_email(user) })
}

/// The JSON of a request with every field, each as long, as large or as far off as can be.
pub fn maximal_request() -> Value {
    json!({
        "signingContactsFormData": {
            "orderContactEmail": long_email("order-contact"), "clientCompanyId": i64::MAX, "observer": long_email("observer"),
            "inHouseContact": full_contact("in-house"), "inHouseContact2": full_contact("in-house-2")
        },
        "signingDetailsFormData": {
            "fileNumber": long(100), "signingDate": "9999-12-31", "signingTimeType": "between", "startTime": "00:00", "endTime": "23:59",
            "timeZoneId": "Pacific/Kiritimati", "propertyAddress": long(500), "signingType": long(100), "signerName": long(200),
            "signerPhone": "1-2-3-4-5-6-7-8-9-0-1-2-3-4-5 extension 12345678", "signerEmail": long_email("signer"), "city": long(100), "state": "ak",
            "zipcode": "00001", "language": long(100), "spouseName": long(200), "coSignerName": long(200), "coSignerSpouseName": long(200),
            "coSignerPhone": "555.010.0199", "coSignerEmail": long_email("co-signer"), "signingAddress": long(500), "signingCity": long(100),
            "signingState": "wy", "signingZipcode": "99999", "isPropertyAddressSame": false, "esigningPlatform": long(100), "scanbacksRequired": true,
            "ronSigning": true, "documentDelivery": long(100), "lender": long(200), "specialInstructions": format!("{}\r\n\t.", long(4_996)),
            "loanOfficer": full_contact("loan-officer"),
            "invoiceOrderTo": { "company_name": long(200), "invoice_address": long(500), "city": long(100), "state": long(100), "zipcode": long(100) },
            "invoiceName": long(200), "invoicePhone": "5550100", "invoiceEmail": long_email("invoice"), "invoiceFee": 9_999_999_999.99, "notaryPay": 0
        },
        "signingServiceId": i64::MAX,
        "requestedBy": { "userId": i64::MAX, "userRole": long(100), "signingServiceId": i64::MAX }
    })
}

/// The order of a valid request.
pub fn order(request: Value) -> Order {
    serde_json::from_value::<OrderRequest>(request).unwrap().parse().unwrap().order
}

/// An order with every required field and no other.
pub fn minimal_order() -> Order {
    order(minimal_request())
}

/// An order with every field, each as long, as large or as far off as can be.
pub fn maximal_order() -> Order {
    order(maximal_request())
}

/// Minimal orders but for the members of `signingDetailsFormData` that tell them apart: every kind
/// of appointment, the first and the last year, a time that occurs twice, and sections of one
/// field.
pub fn unlike_orders() -> Vec<Order> {
    let with = |members: Value, utc: Option<&str>| {
        let mut request = minimal_request();
        request["utcTimeDate"] = json!(utc);
        let details = request["signingDetailsFormData"].as_object_mut().unwrap();
        details.extend(members.as_object().unwrap().clone());
        order(request)
    };
    vec![
        with(json!({ "signingTimeType": "anytime" }), None),
        with(
            json!({ "signingTimeType": "anytime", "signingDate": "0001-01-01", "timeZoneId": "Etc/GMT+12" }),
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
        with(json!({ "isPropertyAddressSame": false }), None),
        with(json!({ "isPropertyAddressSame": false, "signingAddress": "a café" }), None),
        with(
            json!({ "loanOfficer": { "contact_phone": "5550100" }, "invoiceOrderTo": { "city": "Austin" }, "notaryPay": 0.01 }),
            None,
        ),
    ]
}

static LAST: AtomicU64 = AtomicU64::new(0);

/// A number that no other call in this process answers.
fn unique() -> u64 {
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// A key that no other call answers.
pub fn object_key() -> ObjectKey {
    let number = unique();
    ObjectKey::from_stored(format!("{:02x}/{number:032x}", number % 256))
}

/// A document under a new key.
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
    }
}

/// An address that can be told from others by its number.
pub fn recipient(number: usize) -> EmailAddress {
    EmailAddress::try_from(format!("recipient-{number}@example.com")).unwrap()
}

/// A mail under a new message key.
pub fn delivery(number: usize) -> NewDelivery {
    NewDelivery { message_key: format!("{:032x}", unique()), recipient: recipient(number) }
}

/// A minimal order under a file number, without documents and with one follow-up.
pub fn new_order(file_number: &str, created_at: OffsetDateTime) -> NewOrder {
    let mut order = minimal_order();
    order.file_number = file_number.to_owned().try_into().unwrap();
    NewOrder {
        order,
        client: CLIENT,
        api_key: API_KEY,
        documents: vec![],
        deliveries: vec![delivery(0)],
        created_at,
        is_test: false,
        remembrance: None,
    }
}

/// What the repository should answer for an order that it has placed.
pub fn stored(id: domain::order::OrderId, new: &NewOrder) -> StoredOrder {
    StoredOrder {
        id,
        order: new.order.clone(),
        status: OrderStatus::NEW,
        client: CLIENT,
        api_key: API_KEY,
        notary_id: None,
        documents: new.documents.clone(),
        is_test: new.is_test,
        created_at: new.created_at,
        updated_at: new.created_at,
    }
}

/// An API key with every field, issued at an instant.
pub fn api_key(issued_at: OffsetDateTime) -> NewApiKey {
    let number = unique();
    let mut hash = [0xa5; 32];
    hash[..8].copy_from_slice(&number.to_le_bytes());
    NewApiKey {
        name: format!("é'\"key {number}"),
        lookup: format!("{number:016x}"),
        hash: KeyHash(hash),
        signing_service: Some(SigningServiceId(i64::MAX)),
        issued_at,
        expires_at: Some(datetime!(9999-12-31 23:59:59.999999 UTC)),
        is_test: true,
        rate: Some(Rate { per_second: u32::MAX, burst: 1 }),
        documents_rate: Some(Rate { per_second: 1, burst: u32::MAX }),
        client: None,
    }
}

/// The idempotency key of a client.
pub fn idempotency_key(client: i64, text: &str) -> IdempotencyKey {
    IdempotencyKey::new(ClientId(client), text).unwrap()
}

/// A claim to a key, unlike any other.
pub fn claim(key: &IdempotencyKey) -> Claim {
    let mut token = [0x5a; 16];
    token[..8].copy_from_slice(&unique().to_le_bytes());
    Claim { key: key.clone(), token: ClaimToken(token) }
}

/// An attempt under a key, unlike any other, that asks for something.
pub fn attempt(key: &IdempotencyKey, fingerprint: u8) -> Attempt {
    Attempt { claim: claim(key), fingerprint: Fingerprint([fingerprint; 32]) }
}
