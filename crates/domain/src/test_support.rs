//! Fixtures for unit tests.

use std::sync::atomic::{AtomicU8, Ordering};

use time::OffsetDateTime;

use crate::{
    api_key::{KeyHash, NewApiKey},
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
        issued_at,
        expires_at: None,
        is_test: false,
        rate: None,
        documents_rate: None,
        client: None,
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
