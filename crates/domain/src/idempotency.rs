//! Repeats of a request under one `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header):
//! which are the same, and what becomes of them.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::{api_key::ClientId, order::OrderId, ports::Entropy};

/// Most characters of a key.
pub const MAX_KEY_CHARS: usize = 255;

/// What a client calls one order that it wants. Clients do not see each other's keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Whose key it is: [`ApiKey::client`](crate::api_key::ApiKey::client).
    pub client: ClientId,
    /// SHA-256 of the key. What the client sent may be anything, so it is neither kept nor logged.
    pub digest: [u8; 32],
}

impl IdempotencyKey {
    /// The key of a client; `None` unless it has 1 to 255 characters, all of them visible ASCII or
    /// spaces.
    pub fn new(client: ClientId, text: &str) -> Option<Self> {
        let whole = (1..=MAX_KEY_CHARS).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        whole.then(|| Self { client, digest: Sha256::digest(text).into() })
    }
}

/// What a request asks for, hashed, so that a repeat can be told from another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// Tells the attempts under one key apart: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimToken(pub [u8; 16]);

/// The claim of one attempt to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub key: IdempotencyKey,
    /// Tells the attempt from every other.
    pub token: ClaimToken,
}

impl Claim {
    /// A claim to `key` unlike any other.
    pub fn new(key: IdempotencyKey, entropy: &dyn Entropy) -> Self {
        let mut token = [0; 16];
        entropy.fill(&mut token);
        Self { key, token: ClaimToken(token) }
    }
}

/// A request that was sent with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its claim to the key.
    pub claim: Claim,
    /// What it asks for.
    pub fingerprint: Fingerprint,
}

/// What is remembered of a request when its order is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembrance {
    /// The request.
    pub attempt: Attempt,
    /// From when on its key may be used for another.
    pub kept_until: OffsetDateTime,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The key is the claim's.
    Own,
    /// A request was answered under the key.
    Answered(Answered),
}

/// What a key is in use for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    /// Another attempt is under way.
    InFlight {
        /// When it is given up unless it goes on.
        until: OffsetDateTime,
    },
    /// A request was answered.
    Answered(Answered),
}

/// A request that was answered with an order. Nothing of an order's answer changes once it is
/// placed, so the order is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// What it asked for.
    pub fingerprint: Fingerprint,
    /// The order that it got.
    pub order_id: OrderId,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::CountingEntropy;

    #[test]
    fn a_key_has_1_to_255_visible_characters() {
        for text in
            ["a", "8e03978e-40d5-43dd-bc93-6894a57f9324", "two words, and ~", &"x".repeat(255)]
        {
            assert!(IdempotencyKey::new(ClientId(1), text).is_some(), "{text}");
        }
        for text in ["", &"x".repeat(256), "line\nbreak", "tab\t", "é", "\u{7f}", "\0"] {
            assert_eq!(IdempotencyKey::new(ClientId(1), text), None, "{text:?}");
        }
    }

    #[test]
    fn keys_differ_by_client_and_by_every_character() {
        let key = |client, text| IdempotencyKey::new(ClientId(client), text).unwrap();
        assert_eq!(key(1, "a"), key(1, "a"));
        assert_ne!(key(1, "a"), key(2, "a"));
        assert_ne!(key(1, "a"), key(1, "A"));
        assert!(!format!("{:?}", key(1, "what the client sent")).contains("client sent"));
    }

    #[test]
    fn every_attempt_has_a_token_of_its_own() {
        let entropy = CountingEntropy::default();
        let key = IdempotencyKey::new(ClientId(1), "a").unwrap();
        assert_ne!(Claim::new(key.clone(), &entropy), Claim::new(key, &entropy));
    }
}
