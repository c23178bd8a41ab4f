//! Fixtures for unit tests.

use std::sync::atomic::{AtomicU8, Ordering};

use time::OffsetDateTime;

use crate::{
    api_key::{ApiKeyId, ClientId, KeyHash, NewApiKey, Scopes},
    delivery::{Delivery, DeliveryId, NewDelivery},
    order::{EmailAddress, OrderId, OrderRequest, OrderStatus, StoredOrder},
    ports::Entropy,
};

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
        client: None,
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
        notary_id: None,
        documents: vec![],
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
            recipient: EmailAddress::try_from("a@example.com".to_owned()).unwrap(),
        },
        attempts: 0,
        created_at,
        due_at: created_at,
        failed_at: None,
        last_error: None,
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
