//! Cache of API keys, so that not every request needs the store.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::lock;
use time::{Duration, OffsetDateTime};

use crate::{
    api_key::ApiKey,
    ports::{ApiKeyRepo, StoreError},
};

/// Time for which a cached key is valid. A revocation takes effect within 10 s on every instance;
/// this is half of it. A new key works within this time wherever its client is.
const MAX_AGE: Duration = Duration::seconds(5);

/// Maximum number of cached keys.
const MAX_KEYS: usize = 1_024;

/// Cached keys by their lookup part. A guess is not cached: the limit of failed authentications bounds
/// how often the store is asked.
#[derive(Debug, Default)]
pub struct KeyCache {
    /// The keys, each with the instant when it was read.
    known: Mutex<HashMap<String, (Arc<ApiKey>, OffsetDateTime)>>,
    listed: lock::Mutex<Listed>,
}

/// Lookup parts of all keys, for requests that may not ask the store for their key.
#[derive(Debug, Default)]
struct Listed {
    lookups: HashSet<String>,
    since: Option<OffsetDateTime>,
}

impl KeyCache {
    fn known(&self) -> MutexGuard<'_, HashMap<String, (Arc<ApiKey>, OffsetDateTime)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a key that was read not too long ago.
    pub(crate) fn get(&self, lookup: &str, now: OffsetDateTime) -> Option<Arc<ApiKey>> {
        let known = self.known();
        let (key, since) = known.get(lookup)?;
        is_fresh(*since, now).then(|| Arc::clone(key))
    }

    /// Caches a key that was read at `since`.
    pub(crate) fn put(&self, lookup: &str, key: Arc<ApiKey>, since: OffsetDateTime) {
        let mut known = self.known();
        if known.len() >= MAX_KEYS {
            known.retain(|_, (_, earlier)| is_fresh(*earlier, since));
        }
        // With more keys than this in five seconds, the rest is read from the store each time.
        if known.len() < MAX_KEYS || known.contains_key(lookup) {
            known.insert(lookup.to_owned(), (key, since));
        }
    }

    /// Returns whether the key is in a list of all keys that is less than five seconds old. However
    /// many requests ask, the store is read once in five seconds.
    pub(crate) async fn is_listed(
        &self,
        lookup: &str,
        now: OffsetDateTime,
        keys: &dyn ApiKeyRepo,
    ) -> Result<bool, StoreError> {
        let mut listed = self.listed.lock().await;
        if !listed.since.is_some_and(|since| is_fresh(since, now)) {
            let read = keys.list().await;
            // A store that fails is not asked again by every request, either.
            listed.since = Some(now);
            listed.lookups = read?.into_iter().map(|key| key.key.lookup).collect();
        }
        Ok(listed.lookups.contains(lookup))
    }
}

/// Returns whether an entry is young enough. It is not if the clock was set back.
fn is_fresh(since: OffsetDateTime, now: OffsetDateTime) -> bool {
    (Duration::ZERO..MAX_AGE).contains(&(now - since))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::{
        api_key::{ApiKeyId, NewApiKey, PresentedKey},
        ports::MockApiKeyRepo,
        test_support::{CountingEntropy, new_api_key},
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    fn lookup(number: usize) -> String {
        format!("{number:016x}")
    }

    fn key(number: usize) -> Arc<ApiKey> {
        let hash = PresentedKey::random(false, &CountingEntropy::default()).hash();
        let key = NewApiKey { lookup: lookup(number), ..new_api_key(hash, NOW) };
        Arc::new(ApiKey { id: ApiKeyId(1), key, revoked_at: None, last_used_at: None })
    }

    #[test]
    fn key_is_cached_for_five_seconds() {
        let cache = KeyCache::default();
        cache.put(&lookup(1), key(1), NOW);
        for at in [NOW, NOW + Duration::microseconds(4_999_999)] {
            assert_eq!(cache.get(&lookup(1), at), Some(key(1)));
        }
        for at in [NOW + Duration::seconds(5), NOW - Duration::microseconds(1)] {
            assert_eq!(cache.get(&lookup(1), at), None);
        }
        assert_eq!(cache.get(&lookup(3), NOW), None);
    }

    #[test]
    fn number_of_cached_keys_is_bounded() {
        let cache = KeyCache::default();
        (0..=MAX_KEYS).for_each(|number| cache.put(&lookup(number), key(number), NOW));
        assert_eq!(cache.get(&lookup(MAX_KEYS), NOW), None);
        assert!(cache.get(&lookup(0), NOW).is_some());
        // Entries that are no longer fresh are dropped.
        cache.put(&lookup(MAX_KEYS), key(MAX_KEYS), NOW + MAX_AGE);
        assert!(cache.get(&lookup(MAX_KEYS), NOW + MAX_AGE).is_some());
        assert_eq!(cache.known().len(), 1);
    }

    #[tokio::test]
    async fn keys_are_listed_once_in_five_seconds() {
        let (cache, mut keys) = (KeyCache::default(), MockApiKeyRepo::new());
        let mut issued = vec![];
        keys.expect_list().times(2).returning_st(move || {
            issued.push(ApiKey::clone(&key(issued.len())));
            Ok(issued.clone())
        });
        let mut answers = Vec::new();
        for (at, number) in [(0, 0), (1, 1), (4, 7), (5, 1)] {
            let at = NOW + Duration::seconds(at);
            answers.push(cache.is_listed(&lookup(number), at, &keys).await.unwrap());
        }
        assert_eq!(answers, [true, false, false, true]);
    }
}
