//! Fixtures for unit tests.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
};

use time::{Duration, OffsetDateTime};

use crate::{
    access::{AccessActor, AccessFacts, AccessKind},
    api_key::{ApiKey, ApiKeyId, ClientId, KeyHash, NewApiKey, Owner, Party, Scopes},
    delivery::{Audience, Delivery, DeliveryId, MailSubject, NewDelivery},
    document::{
        Content, DocumentFormat, ObjectKey, ReceivedDocument, Sha256Digest, SpooledFile,
        StoredDocument,
    },
    idempotency::{Attempt, Claim, ClaimToken, Fingerprint, IdempotencyKey},
    order::{EmailAddress, Names, OrderId, OrderRequest, OrderStatus, StoredOrder},
    ports::{
        Entropy, MockBlobStore, MockClock, MockDocumentScanner, MockIdempotencyLedger,
        MockOrderReader, MockOrderRepo, MockServiceRepo, MockUploadLedger, ScanError, StoreError,
        Verdict,
    },
    use_cases::{intake::Intake, scan_documents::ScanDocuments},
    webhook::{Endpoint, EndpointId, EventType, WebhookDelivery, WebhookDeliveryId, WebhookStatus},
};

/// Returns a clock that stands still.
pub(crate) fn clock(now: OffsetDateTime) -> Arc<MockClock> {
    let mut clock = MockClock::new();
    clock.expect_now().return_const(now);
    clock.expect_now_to_erase().return_const(Some(now));
    clock.expect_now_to_lease().return_const(Some(now));
    clock.expect_monotonic().return_const(Duration::ZERO);
    Arc::new(clock)
}

/// Returns a clock that may be wrong.
pub(crate) fn doubtful_clock(now: OffsetDateTime) -> Arc<MockClock> {
    let mut clock = MockClock::new();
    clock.expect_now().return_const(now);
    clock.expect_now_to_erase().return_const(None);
    clock.expect_now_to_lease().return_const(None);
    Arc::new(clock)
}

/// Returns a repository without a record of a signing service.
pub(crate) fn no_services() -> MockServiceRepo {
    let mut services = MockServiceRepo::new();
    services.expect_find().returning(|_| Ok(Vec::new()));
    services
}

/// Returns the error of a store that does not answer.
pub(crate) fn down() -> StoreError {
    StoreError::Unavailable("down".into())
}

/// The ports of an [`Intake`].
#[derive(Default)]
pub(crate) struct Mocks {
    pub(crate) orders: MockOrderRepo,
    pub(crate) reader: MockOrderReader,
    pub(crate) uploads: MockUploadLedger,
    pub(crate) idempotency: MockIdempotencyLedger,
    pub(crate) blobs: MockBlobStore,
    pub(crate) scan: Option<ScanDocuments>,
}

impl Mocks {
    pub(crate) fn intake(self, now: OffsetDateTime) -> Intake {
        Intake {
            orders: Arc::new(self.orders),
            reader: Arc::new(self.reader),
            uploads: Arc::new(self.uploads),
            idempotency: Arc::new(self.idempotency),
            blobs: Arc::new(self.blobs),
            scan: self.scan,
            clock: clock(now),
            entropy: Arc::new(CountingEntropy::default()),
            idempotency_retention: Duration::DAY,
        }
    }

    /// Expects uploads that succeed and are removed afterwards: every key is condemned, deleted and
    /// forgotten.
    pub(crate) fn expect_uploads_removed(&mut self, count: usize) {
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let (seen, seen_for) = (Arc::clone(&recorded), Arc::clone(&recorded));
        self.uploads.expect_record().times(..=1).returning(move |keys, _| {
            seen.lock().unwrap().extend_from_slice(keys);
            Ok(())
        });
        self.uploads.expect_record_for().times(..=1).returning(move |_, _, keys, _| {
            seen_for.lock().unwrap().extend_from_slice(keys);
            Ok(true)
        });
        self.uploads
            .expect_condemn()
            .withf(move |keys| keys.len() == count)
            .once()
            .returning(|keys| Ok(keys.to_vec()));
        let expected = Arc::clone(&recorded);
        self.blobs.expect_delete().times(count).returning(move |key| {
            assert!(expected.lock().unwrap().contains(key));
            Ok(())
        });
        self.uploads
            .expect_forget()
            .withf(move |keys| keys.len() == count)
            .once()
            .returning(|_| Ok(()));
    }
}

/// Returns a scan whose outcome is the same for every document.
pub(crate) fn scan(required: bool, outcome: fn() -> Result<Verdict, ScanError>) -> ScanDocuments {
    let mut scanner = MockDocumentScanner::new();
    scanner.expect_scan().returning(move |_| outcome());
    ScanDocuments { scanner: Arc::new(scanner), required }
}

/// Returns the verdict of a scan that finds malware.
pub(crate) fn infected() -> Verdict {
    Verdict::Infected { signature: "Eicar".to_owned() }
}

/// Returns the facts of a read of order 1 with key 1.
pub(crate) fn access_facts() -> AccessFacts {
    AccessFacts {
        kind: AccessKind::Read,
        order: Some(OrderId(1)),
        orders: None,
        position: None,
        subject: None,
        actor: AccessActor::Key { id: ApiKeyId(1), party: Party::Client(ClientId(1)) },
        address: None,
        request_id: None,
    }
}

/// Returns key 1, of client 1.
pub(crate) fn api_key() -> ApiKey {
    ApiKey {
        id: ApiKeyId(1),
        key: new_api_key(KeyHash([0; 32]), OffsetDateTime::UNIX_EPOCH),
        revoked_at: None,
        last_used_at: None,
    }
}

/// Returns a PDF as it was received.
pub(crate) fn received(name: &str) -> ReceivedDocument {
    let file =
        SpooledFile { path: PathBuf::from(name), size: 5, sha256: Sha256Digest([7; 32]), crc32: 7 };
    ReceivedDocument {
        name_as_sent: name.to_owned(),
        file,
        content: Content::Format(DocumentFormat::Pdf),
    }
}

/// Returns a document with a key.
pub(crate) fn document(key: &str, created_at: OffsetDateTime) -> StoredDocument {
    StoredDocument {
        key: Some(ObjectKey::from_stored(key.to_owned())),
        name: "deed.pdf".to_owned(),
        name_as_sent: "deed.pdf".to_owned(),
        media_type: "application/pdf".to_owned(),
        size: 5,
        sha256: Sha256Digest([7; 32]),
        crc32: Some(7),
        created_at,
        replaced_by: None,
        withdrawn_at: None,
        is_erased: false,
        first_downloaded_at: None,
        by: None,
    }
}

/// Returns an attempt of client 1.
pub(crate) fn attempt() -> Attempt {
    let key = IdempotencyKey::new(Owner::client(ClientId(1), false), "8e03978e").unwrap();
    Attempt { claim: Claim { key, token: ClaimToken([1; 16]) }, fingerprint: Fingerprint([2; 32]) }
}

/// Entropy whose bytes count upwards: different at every byte, the same in every run.
#[derive(Default)]
pub(crate) struct CountingEntropy(AtomicU8);

impl CountingEntropy {
    pub(crate) fn starting_at(first: u8) -> Self {
        Self(AtomicU8::new(first))
    }
}

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed));
    }
}

/// Returns a key without expiry, binding or limits.
pub(crate) fn new_api_key(hash: KeyHash, issued_at: OffsetDateTime) -> NewApiKey {
    NewApiKey {
        name: "test".to_owned(),
        lookup: String::new(),
        hash,
        signing_service: None,
        scopes: Scopes::default(),
        issued_at,
        expires_at: None,
        is_test: false,
        rate: None,
        documents_rate: None,
        for_service: None,
        client: None,
        client_name: None,
        contact: None,
    }
}

/// Returns order 1 of a minimal request.
pub(crate) fn stored_order(created_at: OffsetDateTime) -> StoredOrder {
    let request: OrderRequest = serde_json::from_value(minimal_request()).unwrap();
    StoredOrder {
        id: OrderId(1),
        order: request.parse().unwrap().order,
        status: OrderStatus::NEW,
        client: ClientId(1),
        api_key: ApiKeyId(1),
        person: None,
        notary_id: None,
        notary: None,
        documents: vec![],
        signed_documents: vec![],
        changes: vec![],
        notes: vec![],
        names: Names::default(),
        held_until: None,
        touched_at: None,
        is_test: false,
        created_at,
        updated_at: created_at,
    }
}

/// Returns delivery 5, of order 1, without attempts.
pub(crate) fn delivery(created_at: OffsetDateTime) -> Delivery {
    Delivery {
        id: DeliveryId(5),
        order_id: OrderId(1),
        task: NewDelivery {
            message_key: "k".to_owned(),
            recipient: EmailAddress::from_stored("Escrow@title.example.com".to_owned()),
            subject: MailSubject::Created,
            audience: Audience::Client,
            content: None,
        },
        attempts: 0,
        unknown_outcomes: 0,
        created_at,
        due_at: created_at,
        failed_at: None,
        last_error: None,
    }
}

/// Returns an enabled endpoint of the live keys of client 1.
pub(crate) fn endpoint(id: EndpointId) -> Endpoint {
    Endpoint {
        id,
        owner: Owner::client(ClientId(1), false),
        key: None,
        url: "https://a.example/hook".to_owned(),
        events: EventType::OF_ORDERS.into(),
        description: None,
        created_at: OffsetDateTime::UNIX_EPOCH,
        disabled: None,
        failing_since: None,
    }
}

/// Returns webhook delivery 6, of order 1, to endpoint 3, without attempts.
pub(crate) fn webhook_delivery(created_at: OffsetDateTime) -> WebhookDelivery {
    WebhookDelivery {
        id: WebhookDeliveryId(6),
        endpoint: EndpointId(3),
        event: EventType::OrderCreated,
        order_id: Some(OrderId(1)),
        message_key: "k".to_owned(),
        change: None,
        created_at,
        status: WebhookStatus::Pending { due_at: created_at },
        failures: 0,
        attempts: vec![],
    }
}

/// Returns the JSON of a request with the required fields only.
pub(crate) fn minimal_request() -> serde_json::Value {
    serde_json::json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": {
            "fileNumber": "REFI-1",
            "signingDate": "2026-12-01",
            "signingTimeType": "at",
            "specificTime": "14:30",
            "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St, Dallas, TX 75201",
            "signingType": "Refinance",
            "signerName": "Jane Doe",
            "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com",
            "city": "Dallas",
            "state": "TX",
            "zipcode": "75201"
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}
