//! API keys: the text that a client presents, what the service stores, and when a key is valid.

pub mod key_request;

use std::{collections::BTreeSet, fmt};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;

use crate::{
    entropy::Entropy,
    people::{EmailAddress, SigningServiceId},
};

/// Beginning of every key, so that secret scanners recognize a leaked one.
pub const PREFIX: &str = "nok_";
/// Second part of a test key.
pub const TEST: &str = "test_";
const LOOKUP_BYTES: usize = 8;
const SECRET_BYTES: usize = 24;
const LOOKUP_CHARS: usize = LOOKUP_BYTES * 2;
const SECRET_CHARS: usize = SECRET_BYTES * 2;

/// A key as a client presents it: `nok_`, then `test_` for a test key, 16 hexadecimal digits for
/// the lookup, `_`, and a secret of 192 random bits in 48 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedKey {
    text: String,
}

impl PresentedKey {
    /// Returns a new key.
    pub fn random(is_test: bool, entropy: &dyn Entropy) -> Self {
        let lookup = entropy.bytes::<LOOKUP_BYTES>();
        let secret = entropy.bytes::<SECRET_BYTES>();
        let test = if is_test { TEST } else { "" };
        Self { text: format!("{PREFIX}{test}{}_{}", hex::encode(lookup), hex::encode(secret)) }
    }

    /// Reads a key. Returns `None` if the text cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        let (lookup, secret) = rest.strip_prefix(TEST).unwrap_or(rest).split_once('_')?;
        let hexadecimal =
            |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let whole = lookup.len() == LOOKUP_CHARS && secret.len() == SECRET_CHARS;
        (whole && hexadecimal(lookup) && hexadecimal(secret))
            .then(|| Self { text: text.to_owned() })
    }

    /// Returns the lookup part. It is not secret.
    pub fn lookup(&self) -> &str {
        let end = self.text.len() - SECRET_CHARS - 1;
        &self.text[end - LOOKUP_CHARS..end]
    }

    /// Returns the hash that the service stores. The secret is long and random, so one round of
    /// SHA-256 protects it.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(&self.text).into())
    }

    /// Returns the whole key, which the operator sees once.
    pub fn expose(&self) -> &str {
        &self.text
    }
}

/// Returns the lookup part that a text names: a key, or the public part of one, which ends before the
/// secret.
pub fn lookup_of(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(PREFIX)?;
    let rest = rest.strip_prefix(TEST).unwrap_or(rest);
    let lookup = rest.split('_').next()?;
    let is_hexadecimal = lookup.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (lookup.len() == LOOKUP_CHARS && is_hexadecimal).then_some(lookup)
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

conceal!(PresentedKey, KeyHash);

/// Identifier of an issued key, assigned by the repository; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyId(pub i64);

/// Identifier of a client: the first key in its line of rotations. A client that has rotated its
/// key stays the same client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub i64);

/// A permission of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Create orders, and add documents to them.
    OrdersCreate,
    /// Read orders and their documents.
    OrdersRead,
    /// Change and cancel orders. Only keys of signing services have it.
    OrdersUpdate,
    /// Manage webhook endpoints.
    WebhooksManage,
}

impl Scope {
    /// The scopes that a key of a client can have.
    pub const OF_CLIENTS: [Self; 3] = [Self::OrdersCreate, Self::OrdersRead, Self::WebhooksManage];
    /// The scopes that a key of a signing service can have.
    pub const OF_SERVICES: [Self; 3] = [Self::OrdersRead, Self::OrdersUpdate, Self::WebhooksManage];
    /// The scopes of a client's key that is issued without naming any.
    pub const DEFAULT: [Self; 2] = [Self::OrdersCreate, Self::OrdersRead];
    /// The scopes of a service's key that is issued without naming any.
    pub const DEFAULT_OF_SERVICES: [Self; 2] = [Self::OrdersRead, Self::OrdersUpdate];
    /// Every scope.
    pub const ALL: [Self; 4] =
        [Self::OrdersCreate, Self::OrdersRead, Self::OrdersUpdate, Self::WebhooksManage];

    /// Returns the name, in commands, answers and storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OrdersCreate => "orders:create",
            Self::OrdersRead => "orders:read",
            Self::OrdersUpdate => "orders:update",
            Self::WebhooksManage => "webhooks:manage",
        }
    }

    /// Returns the scope of a name; `None` if it is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// A set of scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    /// Reads what [`Display`](fmt::Display) writes. Leaves out names that only another version of the
    /// service knows.
    pub fn from_stored(names: &str) -> Self {
        names.split_ascii_whitespace().filter_map(Scope::from_name).collect()
    }

    /// Returns whether the set has a scope.
    pub fn contains(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }
}

impl Default for Scopes {
    /// Returns [`Scope::DEFAULT`].
    fn default() -> Self {
        Self(Scope::DEFAULT.into())
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

/// Writes the names, separated by spaces.
impl fmt::Display for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|scope| scope.as_str()).collect();
        formatter.write_str(&names.join(" "))
    }
}

/// A token bucket: `burst` requests at once, refilled at `per_second`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Requests per second.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

impl Rate {
    /// The default rate of reads.
    pub const READS: Self = Self { per_second: 100, burst: 200 };
}

impl Default for Rate {
    /// Returns 50 requests per second, 100 at once.
    fn default() -> Self {
        Self { per_second: 50, burst: 100 }
    }
}

/// The properties of a key when it is issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// Name that the operator gave it.
    pub name: String,
    /// Lookup part.
    pub lookup: String,
    /// Hash of the whole key.
    pub hash: KeyHash,
    /// The only signing service for which the key may create orders; `None` means any.
    pub signing_service: Option<SigningServiceId>,
    /// Its permissions.
    pub scopes: Scopes,
    /// Instant of issue.
    pub issued_at: OffsetDateTime,
    /// Instant from which the key is invalid.
    pub expires_at: Option<OffsetDateTime>,
    /// Whether its orders are test orders.
    pub is_test: bool,
    /// Rate limit for orders without documents; `None` means the default of the service.
    pub rate: Option<Rate>,
    /// Rate limit for orders with documents; `None` means the default of the service.
    pub documents_rate: Option<Rate>,
    /// The signing service to which the key belongs; `None` for a key of a client.
    pub for_service: Option<SigningServiceId>,
    /// The client that the key belongs to. With `None` the key begins a new client.
    pub client: Option<ClientId>,
    /// The name of the client that it begins; `None` means the name of the key.
    pub client_name: Option<String>,
    /// Address that is told of webhook endpoints that fail, of rejected requests, and of a key that reads many
    /// orders.
    pub contact: Option<EmailAddress>,
}

/// An issued key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its identifier.
    pub id: ApiKeyId,
    /// Its properties when it was issued.
    pub key: NewApiKey,
    /// Instant of its revocation.
    pub revoked_at: Option<OffsetDateTime>,
    /// Instant of its last use, accurate to some seconds.
    pub last_used_at: Option<OffsetDateTime>,
}

/// A side of orders, to which keys and webhook endpoints belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// A client: it creates orders.
    Client(ClientId),
    /// A signing service: it carries out the orders that name it.
    Service(SigningServiceId),
}

/// Writes `client 7` or `service 42`.
impl fmt::Display for Party {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(client) => write!(formatter, "client {}", client.0),
            Self::Service(service) => write!(formatter, "service {}", service.0),
        }
    }
}

/// The owner of orders and webhook endpoints. What belongs to the test keys of a party does not
/// exist for its live keys, and the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The party.
    pub party: Party,
    /// Whether it belongs to its test keys.
    pub is_test: bool,
}

impl Owner {
    /// Returns the owner of what the live or the test keys of a client create.
    pub const fn client(client: ClientId, is_test: bool) -> Self {
        Self { party: Party::Client(client), is_test }
    }
}

/// A change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// An operator issued it.
    Issued,
    /// An operator gave it a successor. The key expires.
    Rotated {
        /// The successor.
        successor: ApiKeyId,
    },
    /// An operator revoked it.
    Revoked,
}

impl KeyChange {
    /// The names in storage.
    pub const NAMES: [&str; 3] = ["issued", "rotated", "revoked"];

    /// Returns the name of the change in storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Rotated { .. } => "rotated",
            Self::Revoked => "revoked",
        }
    }

    /// Returns the successor of a rotated key.
    pub fn successor(self) -> Option<ApiKeyId> {
        match self {
            Self::Rotated { successor } => Some(successor),
            Self::Issued | Self::Revoked => None,
        }
    }

    /// Reads a stored change. Returns `None` if the text is no change.
    pub fn from_stored(name: &str, successor: Option<ApiKeyId>) -> Option<Self> {
        match (name, successor) {
            ("issued", None) => Some(Self::Issued),
            ("rotated", Some(successor)) => Some(Self::Rotated { successor }),
            ("revoked", None) => Some(Self::Revoked),
            _ => None,
        }
    }
}

/// An entry in the history of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEvent {
    /// The key.
    pub key: ApiKeyId,
    /// The change.
    pub change: KeyChange,
    /// Instant of the change.
    pub at: OffsetDateTime,
    /// The operator, as far as the service can know.
    pub by: String,
}

impl ApiKey {
    /// Returns the first key in this key's line of rotations. For a key of a client, that is the
    /// client.
    pub fn client(&self) -> ClientId {
        self.key.client.unwrap_or(ClientId(self.id.0))
    }

    /// Returns the name of the client that this key begins.
    pub fn client_name(&self) -> &str {
        self.key.client_name.as_deref().unwrap_or(&self.key.name)
    }

    /// Returns what the key begins with, as its client presents it, without the secret.
    pub fn public_part(&self) -> String {
        let test = if self.key.is_test { TEST } else { "" };
        format!("{PREFIX}{test}{}", self.key.lookup)
    }

    /// Returns the party that this key belongs to.
    pub fn party(&self) -> Party {
        self.key.for_service.map_or(Party::Client(self.client()), Party::Service)
    }

    /// Returns the owner of what this key creates and reads.
    pub fn owner(&self) -> Owner {
        Owner { party: self.party(), is_test: self.key.is_test }
    }

    /// Checks whether `presented` is this key, and valid at `now`.
    pub fn admits(&self, presented: &PresentedKey, now: OffsetDateTime) -> bool {
        self.key.hash == presented.hash() && self.is_valid(now)
    }

    /// Checks whether the key is neither revoked nor expired at `now`.
    pub fn is_valid(&self, now: OffsetDateTime) -> bool {
        self.revoked_at.is_none() && self.key.expires_at.is_none_or(|end| now < end)
    }

    /// Checks whether the key has a scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.key.scopes.contains(scope)
    }

    /// Checks whether the key may create an order for this signing service.
    pub fn may_order_for(&self, service: SigningServiceId) -> bool {
        self.key.signing_service.is_none_or(|bound| bound == service)
    }
}

/// Returns the only signing service for which a new key of an owner may create orders: that of all valid keys of the
/// owner that create orders, if it is the same. Without a valid one, the last key counts, so that no admin gets rid of
/// a binding by revoking keys.
pub fn binding(keys: &[ApiKey], owner: Owner, now: OffsetDateTime) -> Option<SigningServiceId> {
    let creates = |key: &&ApiKey| key.party() == owner.party && key.may(Scope::OrdersCreate);
    let is_alike = |key: &ApiKey| key.owner() == owner;
    let mut bound = keys
        .iter()
        .filter(creates)
        .filter(|key| is_alike(key) && key.is_valid(now))
        .map(|key| key.key.signing_service);
    if let Some(first) = bound.next() {
        return first.filter(|_| bound.all(|other| other == first));
    }
    // Where there are only live keys, or only test keys, they count for the others.
    let last = keys.iter().filter(creates).max_by_key(|key| (is_alike(key), key.id));
    last.and_then(|key| key.key.signing_service)
}

#[cfg(test)]
#[path = "api_key_tests.rs"]
mod tests;
