//! Use case: issue, check, rotate and revoke API keys.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::{ApiKey, ApiKeyId, KeyEvent, NewApiKey, PresentedKey, Rate},
    known_keys::KnownKeys,
    order::SigningServiceId,
    ports::{ApiKeyRepo, Clock, Entropy, StoreError},
};

/// Issues, checks, rotates and revokes API keys.
#[derive(Clone)]
pub struct ManageKeys {
    /// Where keys are kept.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Randomness for new keys.
    pub entropy: Arc<dyn Entropy>,
    /// Uses that are not noted yet.
    pub uses: Arc<KeyUses>,
    /// Keys that need not be looked up.
    pub known: Arc<KnownKeys>,
}

/// What a new key is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyTerms {
    /// What the operator calls it.
    pub name: String,
    /// The only signing service that it may create orders for; any if none.
    pub signing_service: Option<SigningServiceId>,
    /// How long it is good; for ever if none.
    pub lifetime: Option<Duration>,
    /// Whether its orders are test orders.
    pub is_test: bool,
    /// How often it may create orders without documents; as often as the service lets any if none.
    pub rate: Option<Rate>,
    /// How often it may create orders with documents; as often as the service lets any if none.
    pub documents_rate: Option<Rate>,
}

/// When keys were last used, as far as it is not noted yet: to write it down at every request would
/// cost more than the requests.
#[derive(Debug, Default)]
pub struct KeyUses(Mutex<BTreeMap<ApiKeyId, OffsetDateTime>>);

impl KeyUses {
    fn last(&self) -> MutexGuard<'_, BTreeMap<ApiKeyId, OffsetDateTime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: ApiKeyId, at: OffsetDateTime) {
        let mut last = self.last();
        let known = last.entry(id).or_insert(at);
        *known = at.max(*known);
    }
}

/// A key that took the place of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The new key's identifier.
    pub id: ApiKeyId,
    /// The new key. This is the only time that its secret is seen.
    pub presented: PresentedKey,
    /// From when on the old key is refused.
    pub old_until: OffsetDateTime,
}

/// Why a key was not rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// There is no such key.
    #[error("there is no such key")]
    Unknown,
    /// The key is revoked or expired, and has no place that another could take.
    #[error("the key is revoked or expired")]
    NotLive,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ManageKeys {
    /// Issues a key, in the name of `by`. The answer is the only time that its secret is seen.
    pub async fn issue(
        &self,
        terms: KeyTerms,
        by: &str,
    ) -> Result<(ApiKeyId, PresentedKey), StoreError> {
        let (presented, key) = self.new_key(terms);
        Ok((self.keys.add(&key, by).await?, presented))
    }

    /// Issues a key if none was ever issued.
    pub async fn issue_first(
        &self,
        terms: KeyTerms,
        by: &str,
    ) -> Result<Option<(ApiKeyId, PresentedKey)>, StoreError> {
        let (presented, key) = self.new_key(terms);
        Ok(self.keys.add_first(&key, by).await?.map(|id| (id, presented)))
    }

    fn new_key(&self, terms: KeyTerms) -> (PresentedKey, NewApiKey) {
        let KeyTerms { name, signing_service, lifetime, is_test, rate, documents_rate } = terms;
        let presented = PresentedKey::random(is_test, &*self.entropy);
        let issued_at = self.clock.now();
        let key = NewApiKey {
            name,
            lookup: presented.lookup().to_owned(),
            hash: presented.hash(),
            signing_service,
            issued_at,
            expires_at: lifetime.map(|lifetime| issued_at.saturating_add(lifetime)),
            is_test,
            rate,
            documents_rate,
            client: None,
        };
        (presented, key)
    }

    /// Issues a key on the terms of another, for as long as that one was issued for. The new key is
    /// good at once, and the old one for `grace` longer, unless it expires before.
    pub async fn rotate(
        &self,
        id: ApiKeyId,
        grace: Duration,
        by: &str,
    ) -> Result<Rotation, RotateError> {
        let keys = self.keys.list().await?;
        let old = keys.iter().find(|key| key.id == id).ok_or(RotateError::Unknown)?;
        let client = Some(old.client());
        let lifetime = lifetime(&keys, &self.keys.trail().await?, old);
        let NewApiKey { name, signing_service, expires_at, is_test, rate, documents_rate, .. } =
            old.key.clone();
        let (presented, key) = self.new_key(KeyTerms {
            name,
            signing_service,
            lifetime,
            is_test,
            rate,
            documents_rate,
        });
        let until = key.issued_at.saturating_add(grace);
        let successor = NewApiKey { client, ..key };
        let id = self.keys.rotate(id, &successor, until, by).await?.ok_or(RotateError::NotLive)?;
        Ok(Rotation { id, presented, old_until: expires_at.map_or(until, |end| end.min(until)) })
    }

    /// The key that a client presents, if it is good now. What happens to a key elsewhere is seen
    /// within five seconds.
    pub async fn authenticate(
        &self,
        presented: &PresentedKey,
    ) -> Result<Option<Arc<ApiKey>>, StoreError> {
        let asked_at = self.clock.now();
        let key = match self.known.get(presented.lookup(), asked_at) {
            Some(key) => Some(key),
            None => self
                .keys
                .find(presented.lookup())
                .await?
                .map(Arc::new)
                .inspect(|key| self.known.put(Arc::clone(key), asked_at)),
        };
        let now = self.clock.now();
        let key = key.filter(|key| key.admits(presented, now));
        if let Some(key) = &key {
            self.uses.add(key.id, now);
        }
        Ok(key)
    }

    /// Notes when keys were used since the last time. After a failure they are noted the next time.
    pub async fn note_uses(&self) -> Result<(), StoreError> {
        let uses: Vec<_> = mem::take(&mut *self.uses.last()).into_iter().collect();
        if uses.is_empty() {
            return Ok(());
        }
        let noted = self.keys.note_uses(&uses).await;
        if noted.is_err() {
            for (id, at) in uses {
                self.uses.add(id, at);
            }
        }
        noted
    }

    /// Every key ever issued, oldest first.
    pub async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.keys.list().await
    }

    /// Revokes a key; `None` if there is no such key.
    pub async fn revoke(&self, id: ApiKeyId, by: &str) -> Result<Option<ApiKey>, StoreError> {
        self.keys.revoke(id, self.clock.now(), by).await
    }

    /// Who issued, rotated and revoked which key when, oldest first.
    pub async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError> {
        self.keys.trail().await
    }
}

/// How long a key was issued for. A rotation has cut what it says of itself, but not what its
/// successor says.
fn lifetime(keys: &[ApiKey], trail: &[KeyEvent], key: &ApiKey) -> Option<Duration> {
    let mut told = key;
    let successor = |key: &ApiKey| {
        let rotated = trail.iter().filter(|event| event.key == key.id);
        let id = rotated.filter_map(|event| event.change.successor()).next_back()?;
        keys.iter().find(|key| key.id == id)
    };
    while let Some(next) = successor(told) {
        told = next;
    }
    told.key.expires_at.map(|end| end - told.key.issued_at)
}

#[cfg(test)]
#[path = "manage_keys_tests.rs"]
mod tests;
