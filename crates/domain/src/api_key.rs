//! API keys: what a client shows, what the service keeps of it, and when it is good.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;

use crate::{hex, order::SigningServiceId, ports::Entropy};

/// What every key begins with, so that secret scanners can find one that leaked.
pub const PREFIX: &str = "nok_";
/// What follows in a test key, so that nobody takes one for the other.
pub const TEST: &str = "test_";
const LOOKUP_BYTES: usize = 8;
const SECRET_BYTES: usize = 24;
const LOOKUP_CHARS: usize = LOOKUP_BYTES * 2;
const SECRET_CHARS: usize = SECRET_BYTES * 2;

/// A key as a client shows it: `nok_`, `test_` if it is a test key, 16 hexadecimal digits by which
/// it is looked up, `_`, and a secret of 192 random bits as 48 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedKey {
    text: String,
}

impl PresentedKey {
    /// A new key.
    pub fn random(is_test: bool, entropy: &dyn Entropy) -> Self {
        let (mut lookup, mut secret) = ([0; LOOKUP_BYTES], [0; SECRET_BYTES]);
        entropy.fill(&mut lookup);
        entropy.fill(&mut secret);
        let test = if is_test { TEST } else { "" };
        Self { text: format!("{PREFIX}{test}{}_{}", hex::encode(&lookup), hex::encode(&secret)) }
    }

    /// Reads a key; `None` if it cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        let (lookup, secret) = rest.strip_prefix(TEST).unwrap_or(rest).split_once('_')?;
        let hexadecimal =
            |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let whole = lookup.len() == LOOKUP_CHARS && secret.len() == SECRET_CHARS;
        (whole && hexadecimal(lookup) && hexadecimal(secret))
            .then(|| Self { text: text.to_owned() })
    }

    /// The part by which the key is found in the repository; no secret.
    pub fn lookup(&self) -> &str {
        let end = self.text.len() - SECRET_CHARS - 1;
        &self.text[end - LOOKUP_CHARS..end]
    }

    /// What the service keeps of the key. The secret is random and long, so one round of SHA-256
    /// protects it.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(&self.text).into())
    }

    /// The whole key, to be shown once to whom it is issued.
    pub fn expose(&self) -> &str {
        &self.text
    }
}

/// A key is a secret: `Debug` shows only the part by which it is looked up.
impl fmt::Debug for PresentedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PresentedKey({PREFIX}{}_…)", self.lookup())
    }
}

/// SHA-256 of a key, compared in constant time.
#[derive(Clone, Copy)]
pub struct KeyHash(pub [u8; 32]);

impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for KeyHash {}

impl fmt::Debug for KeyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyHash(…)")
    }
}

/// Identifier of an issued key, given by the repository; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyId(pub i64);

/// Identifier of a client: the first key in its line of rotations. A client that has rotated its
/// key stays the same client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub i64);

/// A token bucket: `burst` requests at once, refilled at `per_second`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Requests per second.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

/// What is kept of a key when it is issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// What the operator calls it.
    pub name: String,
    /// The part by which it is looked up.
    pub lookup: String,
    /// Hash of the whole key.
    pub hash: KeyHash,
    /// The only signing service that it may create orders for; any if none.
    pub signing_service: Option<SigningServiceId>,
    /// When it was issued.
    pub issued_at: OffsetDateTime,
    /// From when on it is refused.
    pub expires_at: Option<OffsetDateTime>,
    /// Whether its orders are test orders.
    pub is_test: bool,
    /// How often it may create orders without documents; as often as the service lets any if none.
    pub rate: Option<Rate>,
    /// How often it may create orders with documents; as often as the service lets any if none.
    pub documents_rate: Option<Rate>,
    /// The client that the key belongs to; with `None` the key begins a new client.
    pub client: Option<ClientId>,
}

/// A key that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its identifier.
    pub id: ApiKeyId,
    /// What was kept when it was issued.
    pub key: NewApiKey,
    /// Since when it is refused because an operator said so.
    pub revoked_at: Option<OffsetDateTime>,
    /// When it was last used, to some seconds.
    pub last_used_at: Option<OffsetDateTime>,
}

/// What was done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// It was issued.
    Issued,
    /// It was given a successor, and expires.
    Rotated {
        /// The key that took its place.
        successor: ApiKeyId,
    },
    /// It was revoked.
    Revoked,
}

impl KeyChange {
    /// The name of the change in storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Rotated { .. } => "rotated",
            Self::Revoked => "revoked",
        }
    }

    /// The key that took the place of a rotated one.
    pub fn successor(self) -> Option<ApiKeyId> {
        match self {
            Self::Rotated { successor } => Some(successor),
            Self::Issued | Self::Revoked => None,
        }
    }

    /// A change that was stored before; `None` if no change is stored so.
    pub fn from_stored(name: &str, successor: Option<ApiKeyId>) -> Option<Self> {
        match (name, successor) {
            ("issued", None) => Some(Self::Issued),
            ("rotated", Some(successor)) => Some(Self::Rotated { successor }),
            ("revoked", None) => Some(Self::Revoked),
            _ => None,
        }
    }
}

/// A line of the trail of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEvent {
    /// The key.
    pub key: ApiKeyId,
    /// What was done to it.
    pub change: KeyChange,
    /// When.
    pub at: OffsetDateTime,
    /// By whom, as far as the service can know.
    pub by: String,
}

impl ApiKey {
    /// Returns the client that this key belongs to.
    pub fn client(&self) -> ClientId {
        self.key.client.unwrap_or(ClientId(self.id.0))
    }

    /// Whether `presented` is this key, and good at `now`.
    pub fn admits(&self, presented: &PresentedKey, now: OffsetDateTime) -> bool {
        self.key.hash == presented.hash() && self.is_live(now)
    }

    /// Whether the key is neither revoked nor expired at `now`.
    pub fn is_live(&self, now: OffsetDateTime) -> bool {
        self.revoked_at.is_none() && self.key.expires_at.is_none_or(|end| now < end)
    }

    /// Whether the key may create an order for this signing service.
    pub fn may_order_for(&self, service: SigningServiceId) -> bool {
        self.key.signing_service.is_none_or(|bound| bound == service)
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, macros::datetime};

    use super::*;
    use crate::test_support::{CountingEntropy, new_api_key};

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    fn issued(presented: &PresentedKey) -> ApiKey {
        let key = NewApiKey {
            lookup: presented.lookup().to_owned(),
            ..new_api_key(presented.hash(), NOW)
        };
        ApiKey { id: ApiKeyId(1), key, revoked_at: None, last_used_at: None }
    }

    #[test]
    fn a_key_has_a_prefix_and_192_random_bits() {
        let entropy = CountingEntropy::default();
        let (one, other) =
            (PresentedKey::random(false, &entropy), PresentedKey::random(false, &entropy));
        assert!(one.expose().starts_with(PREFIX));
        assert_eq!(one.expose().len(), 69);
        assert_ne!(one, other);
        assert_eq!(PresentedKey::parse(one.expose()), Some(one));
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let key = PresentedKey::random(false, &CountingEntropy::default());
        assert_eq!(format!("{key:?}"), format!("PresentedKey({PREFIX}{}_…)", key.lookup()));
        assert!(!format!("{key:?}").contains(&key.expose()[key.expose().len() - 8..]));
        assert_eq!(format!("{:?}", key.hash()), "KeyHash(…)");
    }

    #[test]
    fn a_change_is_read_as_what_it_was_stored_as_and_nothing_else_is_one() {
        let successor = ApiKeyId(2);
        let stored = [
            ("issued", KeyChange::Issued),
            ("rotated", KeyChange::Rotated { successor }),
            ("revoked", KeyChange::Revoked),
        ];
        for (name, change) in stored {
            assert_eq!(
                (change.as_str(), KeyChange::from_stored(name, change.successor())),
                (name, Some(change))
            );
        }
        assert_eq!(KeyChange::from_stored("rotated", None), None);
        assert_eq!(KeyChange::from_stored("revoked", Some(successor)), None);
        assert_eq!(KeyChange::from_stored("forgotten", None), None);
    }

    #[test]
    fn a_test_key_is_told_by_its_beginning() {
        let key = PresentedKey::random(true, &CountingEntropy::default());
        assert!(key.expose().starts_with("nok_test_"));
        assert_eq!((key.expose().len(), key.lookup().len()), (74, 16));
        let parsed = PresentedKey::parse(key.expose()).unwrap();
        assert_eq!((parsed.lookup(), parsed.hash()), (key.lookup(), key.hash()));
        // Another key altogether.
        let live = PresentedKey::parse(&key.expose().replace("test_", "")).unwrap();
        assert_eq!(live.lookup(), key.lookup());
        assert_ne!(live.hash(), key.hash());
    }

    #[test]
    fn keys_of_one_line_are_one_client() {
        let first = issued(&PresentedKey::random(false, &CountingEntropy::default()));
        assert_eq!(first.client(), ClientId(1));
        let rotated = ApiKey {
            id: ApiKeyId(7),
            key: NewApiKey { client: Some(first.client()), ..first.key.clone() },
            ..first
        };
        assert_eq!(rotated.client(), ClientId(1));
    }

    #[test]
    fn what_cannot_be_a_key_is_not_looked_up() {
        let key = PresentedKey::random(false, &CountingEntropy::default()).expose().to_owned();
        for text in [
            "",
            "nok_",
            &key[1..],
            &key.to_uppercase(),
            &key.replace("nok_", "sk__"),
            &format!("{key}0"),
            &format!(" {key}"),
            &key.replacen('0', "é", 1),
        ] {
            assert_eq!(PresentedKey::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_is_good_until_it_expires_or_is_revoked() {
        let presented = PresentedKey::random(false, &CountingEntropy::default());
        let key = issued(&presented);
        assert!(key.admits(&presented, NOW));
        let expiring =
            ApiKey { key: NewApiKey { expires_at: Some(NOW), ..key.key.clone() }, ..key.clone() };
        assert!(expiring.admits(&presented, NOW - Duration::NANOSECOND));
        assert!(!expiring.admits(&presented, NOW));
        assert!(!ApiKey { revoked_at: Some(NOW), ..key.clone() }.admits(&presented, NOW));
    }

    #[test]
    fn another_secret_under_the_same_lookup_is_refused() {
        let presented = PresentedKey::random(false, &CountingEntropy::default());
        let text = presented.expose();
        let last = if text.ends_with('0') { '1' } else { '0' };
        let forged = PresentedKey::parse(&format!("{}{last}", &text[..text.len() - 1])).unwrap();
        assert_eq!(forged.lookup(), presented.lookup());
        assert!(!issued(&presented).admits(&forged, NOW));
    }

    #[test]
    fn a_bound_key_orders_for_its_own_signing_service_only() {
        let mut key = issued(&PresentedKey::random(false, &CountingEntropy::default()));
        assert!(key.may_order_for(SigningServiceId(1)));
        key.key.signing_service = Some(SigningServiceId(2));
        assert!(!key.may_order_for(SigningServiceId(1)));
        assert!(key.may_order_for(SigningServiceId(2)));
    }

    #[test]
    fn debug_shows_no_secret() {
        let presented = PresentedKey::random(false, &CountingEntropy::default());
        let secret = &presented.expose()[presented.expose().len() - 48..];
        assert!(!format!("{presented:?} {:?}", issued(&presented)).contains(secret));
    }
}
