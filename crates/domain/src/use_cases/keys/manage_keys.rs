//! Use case: issue, authenticate, rotate and revoke API keys.

use std::sync::Arc;

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::{ApiKey, ApiKeyId, ClientId, KeyEvent, NewApiKey, Party, PresentedKey, Rate, Scopes},
    order::{EmailAddress, SigningServiceId},
    person::Caller,
    ports::{ApiKeyRepo, Clock, Entropy, StoreError},
    use_cases::{
        keys::key_cache::KeyCache,
        store_waiting::{Instants, lock},
    },
};

/// Issues, authenticates, rotates and revokes API keys.
#[derive(Clone)]
pub struct ManageKeys {
    /// Stores keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness for new keys.
    pub entropy: Arc<dyn Entropy>,
    /// Uses that are not stored yet.
    pub uses: Arc<KeyUses>,
    /// Cached keys.
    pub cache: Arc<KeyCache>,
}

/// The terms of a new key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyTerms {
    /// Name that the operator gives it.
    pub name: String,
    /// The only signing service for which it may create orders; `None` means any.
    pub signing_service: Option<SigningServiceId>,
    /// The signing service to which it belongs; `None` for a key of a client.
    pub for_service: Option<SigningServiceId>,
    /// Its permissions.
    pub scopes: Scopes,
    /// The client that it is one more key of. With `None` it begins a new client.
    pub client: Option<ClientId>,
    /// The name of the client that it begins; `None` means the name of the key.
    pub client_name: Option<String>,
    /// Time until it expires; `None` means never.
    pub lifetime: Option<Duration>,
    /// Whether its orders are test orders.
    pub is_test: bool,
    /// Rate limit for orders without documents; `None` means the default of the service.
    pub rate: Option<Rate>,
    /// Rate limit for orders with documents; `None` means the default of the service.
    pub documents_rate: Option<Rate>,
    /// Address that is told of webhook endpoints that fail, of rejected requests, and of a key that reads many
    /// orders.
    pub contact: Option<EmailAddress>,
}

/// Last uses of keys that are not stored yet. Storing each use at once would cost more than the
/// request.
pub type KeyUses = Instants<ApiKeyId>;

/// The reason why a key was not issued or rotated.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no such client.
    #[error("there is no such client")]
    UnknownClient,
    /// There is no such key.
    #[error("there is no such key")]
    Unknown,
    /// The key is revoked or expired.
    #[error("the key is revoked or expired")]
    Invalid,
    /// A person of the side has the name.
    #[error("a person of the side has this name")]
    NameInUse,
    /// The side has got many keys within a day.
    #[error("the side has many new keys")]
    TooMany {
        /// Seconds until it gets another one, at least one.
        retry_after: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ManageKeys {
    /// Issues a key for the operator `by`. The secret is not available later.
    pub async fn issue(
        &self,
        terms: KeyTerms,
        by: &str,
    ) -> Result<(ApiKeyId, PresentedKey), KeyError> {
        if let Some(client) = terms.client
            && !self.keys.list().await?.iter().any(|key| key.party() == Party::Client(client))
        {
            return Err(KeyError::UnknownClient);
        }
        let (presented, key) = self.new_key(terms);
        Ok((self.keys.add(&key, by).await?, presented))
    }

    /// Issues a key if no key was ever issued.
    pub async fn issue_first(
        &self,
        terms: KeyTerms,
        by: &str,
    ) -> Result<Option<(ApiKeyId, PresentedKey)>, StoreError> {
        let (presented, key) = self.new_key(terms);
        Ok(self.keys.add_first(&key, by).await?.map(|id| (id, presented)))
    }

    /// Returns a key on these terms that is not issued yet, and how it is stored.
    pub fn new_key(&self, terms: KeyTerms) -> (PresentedKey, NewApiKey) {
        let presented = PresentedKey::random(terms.is_test, &*self.entropy);
        let issued_at = self.clock.now();
        let key = NewApiKey {
            name: terms.name,
            lookup: presented.lookup().to_owned(),
            hash: presented.hash(),
            signing_service: terms.signing_service,
            for_service: terms.for_service,
            scopes: terms.scopes,
            issued_at,
            expires_at: terms.lifetime.map(|lifetime| issued_at.saturating_add(lifetime)),
            is_test: terms.is_test,
            rate: terms.rate,
            documents_rate: terms.documents_rate,
            client: terms.client,
            client_name: terms.client_name,
            contact: terms.contact,
        };
        (presented, key)
    }

    /// Issues a successor on the terms of a key, with the lifetime that the key was issued for. The
    /// successor is valid at once. The old key stays valid for `grace`, unless it expires earlier.
    /// Returns the new key, whose secret is not available later, and until when the old one is valid.
    pub async fn rotate(
        &self,
        id: ApiKeyId,
        grace: Duration,
        by: &str,
    ) -> Result<(ApiKeyId, PresentedKey, OffsetDateTime), KeyError> {
        let keys = self.keys.list().await?;
        let old = keys.iter().find(|key| key.id == id).ok_or(KeyError::Unknown)?;
        let presented = PresentedKey::random(old.key.is_test, &*self.entropy);
        let issued_at = self.clock.now();
        let lifetime = lifetime(&keys, &self.keys.trail().await?, old);
        let successor = NewApiKey {
            lookup: presented.lookup().to_owned(),
            hash: presented.hash(),
            issued_at,
            expires_at: lifetime.map(|lifetime| issued_at.saturating_add(lifetime)),
            client: Some(old.client()),
            client_name: None,
            ..old.key.clone()
        };
        let until = issued_at.saturating_add(grace);
        let old_until = old.key.expires_at.map_or(until, |end| end.min(until));
        let id = self.keys.rotate(id, &successor, until, by).await?.ok_or(KeyError::Invalid)?;
        Ok((id, presented, old_until))
    }

    /// Returns the presented key if it is valid now. A change on another instance takes effect
    /// within five seconds.
    ///
    /// `may_look_up` is called before the store is asked for a key that is not cached. If it
    /// returns false, all keys are read instead, at most once in five seconds. So guesses do not
    /// load the store, and valid keys still work.
    pub async fn authenticate(
        &self,
        presented: &PresentedKey,
        may_look_up: impl FnOnce() -> bool,
    ) -> Result<Option<Arc<ApiKey>>, StoreError> {
        let (lookup, began) = (presented.lookup(), self.clock.now());
        let mut key = self.cache.get(lookup, began);
        if key.is_none() && may_look_up() {
            key = self.keys.find(lookup).await?.map(Arc::new);
            if let Some(key) = &key {
                self.cache.put(lookup, Arc::clone(key), began);
            }
        } else if key.is_none() {
            self.cache.list(began, &*self.keys).await?;
            key = self.cache.get(lookup, began);
        }
        let now = self.clock.now();
        let key = key.filter(|key| key.admits(presented, now));
        if let Some(key) = &key {
            lock(&self.uses).insert(key.id, now);
        }
        Ok(key)
    }

    /// Returns whether the key of a request that takes long still is valid. A change on another instance takes
    /// effect within five seconds. If the store does not answer, the request goes on, and so does that of a session:
    /// once admitted, it ends.
    pub async fn is_still_valid(&self, caller: &Caller) -> bool {
        let (Some(key), None) = (caller.key(), caller.session()) else { return true };
        let (lookup, now) = (&key.key.lookup, self.clock.now());
        let known = match self.cache.get(lookup, now) {
            Some(known) => known,
            None => match self.keys.find(lookup).await {
                Ok(Some(found)) => {
                    let found = Arc::new(found);
                    self.cache.put(lookup, Arc::clone(&found), now);
                    found
                }
                Ok(None) => return false,
                Err(_) => return true,
            },
        };
        known.is_valid(now)
    }

    /// Returns the name of a client; `None` for a signing service.
    pub async fn client_name(&self, party: Party) -> Result<Option<String>, StoreError> {
        let Party::Client(client) = party else { return Ok(None) };
        let first = self.keys.first_of(client).await?;
        Ok(first.map(|first| first.client_name().to_owned()))
    }

    /// Revokes a key. Returns `None` if there is no such key.
    pub async fn revoke(&self, id: ApiKeyId, by: &str) -> Result<Option<ApiKey>, StoreError> {
        self.keys.revoke(id, self.clock.now(), by).await
    }
}

/// Returns the lifetime that a key was issued for. A rotation cuts the expiry of the key itself, so
/// the successor counts.
fn lifetime(keys: &[ApiKey], trail: &[KeyEvent], key: &ApiKey) -> Option<Duration> {
    let mut changes = trail.iter().rev().filter(|event| event.key == key.id);
    let successor = changes.find_map(|event| event.change.successor());
    match successor.and_then(|id| keys.iter().find(|key| key.id == id)) {
        Some(successor) => lifetime(keys, trail, successor),
        None => key.key.expires_at.map(|end| end - key.key.issued_at),
    }
}

#[cfg(test)]
#[path = "manage_keys_tests.rs"]
mod tests;
