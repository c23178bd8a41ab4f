//! Idempotency: repeats of a request with one `Idempotency-Key`
//! (draft-ietf-httpapi-idempotency-key-header).

use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime};

use crate::{api_key::Owner, entropy::Entropy, order::OrderId};

pub use crate::order::change::AddedRange;

/// Maximum length of a key in characters.
pub const MAX_KEY_CHARS: usize = 255;

/// Time for which a request is stored under its key, unless the operator sets another.
pub const DEFAULT_RETENTION: Duration = Duration::DAY;

/// An idempotency key of an owner. Owners do not share keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// The owner of what requests with the key create.
    pub owner: Owner,
    /// SHA-256 of the key. The key itself may hold anything, so it is neither stored nor logged.
    pub digest: [u8; 32],
}

impl IdempotencyKey {
    /// Returns the key of an owner. Returns `None` unless the text has 1 to 255 characters, all
    /// visible ASCII or spaces.
    pub fn new(owner: Owner, text: &str) -> Option<Self> {
        let whole = (1..=MAX_KEY_CHARS).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        whole.then(|| Self { owner, digest: Sha256::digest(text).into() })
    }
}

/// Hash of a request. Equal requests have equal fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// Distinguishes the attempts with one key: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimToken(pub [u8; 16]);

/// The claim of one attempt to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub key: IdempotencyKey,
    /// Distinguishes the attempt from every other.
    pub token: ClaimToken,
}

impl Claim {
    /// Returns a new claim to `key`.
    pub fn new(key: IdempotencyKey, entropy: &dyn Entropy) -> Self {
        Self { key, token: ClaimToken(entropy.bytes()) }
    }
}

/// A request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its claim to the key.
    pub claim: Claim,
    /// Hash of the request.
    pub fingerprint: Fingerprint,
}

/// A request as it is stored together with its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The request.
    pub attempt: Attempt,
    /// Instant from which another request may use the key.
    pub kept_until: OffsetDateTime,
}

impl IdempotentRequest {
    /// Returns the request of an attempt at `now`, which is stored for a time.
    pub(crate) fn kept_for(attempt: &Attempt, now: OffsetDateTime, retention: Duration) -> Self {
        Self { attempt: attempt.clone(), kept_until: now.saturating_add(retention) }
    }
}

/// The use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    /// Another attempt is in progress.
    InProgress {
        /// End of its claim, unless it extends the claim.
        until: OffsetDateTime,
    },
    /// A request was answered.
    Answered(Answered),
}

/// A request that created an order, added documents or changed an order by its file number. What was stored stands
/// for the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Hash of the request.
    pub fingerprint: Fingerprint,
    /// The order.
    pub order_id: OrderId,
    /// The documents that the request added; `None` if it created or changed the order.
    pub added: Option<AddedRange>,
    /// The instant as of which the order is the answer, if the request changed it; `None` for others.
    pub changed_at: Option<OffsetDateTime>,
}

impl Answered {
    /// Returns whether an attempt to create an order repeats the request.
    pub(crate) fn creates_again(&self, attempt: &Attempt) -> bool {
        self.fingerprint == attempt.fingerprint && self.added.is_none() && self.changed_at.is_none()
    }

    /// Returns what the request added to an order, if an attempt to add to that order repeats it.
    pub(crate) fn added_again(&self, order: OrderId, attempt: &Attempt) -> Option<AddedRange> {
        let is_repeat = self.fingerprint == attempt.fingerprint && self.order_id == order;
        self.added.filter(|_| is_repeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api_key::ClientId, test_support::CountingEntropy};

    const OWNER: Owner = Owner::client(ClientId(1), false);

    #[test]
    fn key_has_1_to_255_visible_characters() {
        for text in
            ["a", "8e03978e-40d5-43dd-bc93-6894a57f9324", "two words, and ~", &"x".repeat(255)]
        {
            assert!(IdempotencyKey::new(OWNER, text).is_some(), "{text}");
        }
        for text in ["", &"x".repeat(256), "line\nbreak", "tab\t", "é", "\u{7f}", "\0"] {
            assert_eq!(IdempotencyKey::new(OWNER, text), None, "{text:?}");
        }
    }

    #[test]
    fn keys_differ_by_client_and_text() {
        let key = |client, text| {
            IdempotencyKey::new(Owner::client(ClientId(client), false), text).unwrap()
        };
        assert_eq!(key(1, "a"), key(1, "a"));
        assert_ne!(key(1, "a"), key(2, "a"));
        assert_ne!(key(1, "a"), key(1, "A"));
        assert_ne!(IdempotencyKey::new(Owner { is_test: true, ..OWNER }, "a"), Some(key(1, "a")));
        assert!(!format!("{:?}", key(1, "what the client sent")).contains("client sent"));
    }

    #[test]
    fn attempts_have_different_tokens() {
        let entropy = CountingEntropy::default();
        let key = IdempotencyKey::new(OWNER, "a").unwrap();
        assert_ne!(Claim::new(key.clone(), &entropy), Claim::new(key, &entropy));
    }
}
