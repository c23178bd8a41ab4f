//! Cache of API keys, so that not every request needs the store.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use time::{Duration, OffsetDateTime};

use crate::api_key::ApiKey;

/// Time for which a cached key is valid. A revocation takes effect within 10 s on every instance;
/// this is half of it.
const MAX_AGE: Duration = Duration::seconds(5);

/// Maximum number of cached keys. Only existing keys are cached, so invalid ones cannot fill it.
const MAX_KEYS: usize = 1_024;

/// Cached keys by their lookup part.
#[derive(Debug, Default)]
pub struct KeyCache(Mutex<HashMap<String, CachedKey>>);

#[derive(Debug)]
struct CachedKey {
    key: Arc<ApiKey>,
    since: OffsetDateTime,
}

impl CachedKey {
    /// Returns whether the entry is young enough. It is not if the clock was set back.
    fn is_fresh(&self, now: OffsetDateTime) -> bool {
        (Duration::ZERO..MAX_AGE).contains(&(now - self.since))
    }
}

impl KeyCache {
    /// Returns the key if it was read less than five seconds ago.
    pub(crate) fn get(&self, lookup: &str, now: OffsetDateTime) -> Option<Arc<ApiKey>> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(lookup).filter(|cached| cached.is_fresh(now)).map(|cached| Arc::clone(&cached.key))
    }

    /// Caches a key that was read at `since`.
    pub(crate) fn put(&self, key: Arc<ApiKey>, since: OffsetDateTime) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MAX_KEYS {
            keys.retain(|_, cached| cached.is_fresh(since));
        }
        // With more keys than this in five seconds, the rest is read from the store each time.
        if keys.len() < MAX_KEYS || keys.contains_key(&key.key.lookup) {
            keys.insert(key.key.lookup.clone(), CachedKey { key, since });
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::{
        api_key::{ApiKeyId, NewApiKey, PresentedKey},
        test_support::{CountingEntropy, new_api_key},
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    fn key(number: usize) -> Arc<ApiKey> {
        let hash = PresentedKey::random(false, &CountingEntropy::default()).hash();
        let key = NewApiKey { lookup: format!("{number:016x}"), ..new_api_key(hash, NOW) };
        Arc::new(ApiKey { id: ApiKeyId(1), key, revoked_at: None, last_used_at: None })
    }

    #[test]
    fn key_is_cached_for_five_seconds() {
        let cache = KeyCache::default();
        let first = key(1);
        cache.put(Arc::clone(&first), NOW);
        for at in [NOW, NOW + Duration::microseconds(4_999_999)] {
            assert_eq!(cache.get(&first.key.lookup, at), Some(Arc::clone(&first)));
        }
        for at in [NOW + Duration::seconds(5), NOW - Duration::microseconds(1)] {
            assert_eq!(cache.get(&first.key.lookup, at), None);
        }
        assert_eq!(cache.get(&key(2).key.lookup, NOW), None);
    }

    #[test]
    fn number_of_cached_keys_is_bounded() {
        let cache = KeyCache::default();
        (0..=MAX_KEYS).for_each(|number| cache.put(key(number), NOW));
        assert_eq!(cache.get(&key(MAX_KEYS).key.lookup, NOW), None);
        assert!(cache.get(&key(0).key.lookup, NOW).is_some());
        // Entries that are no longer fresh are dropped.
        cache.put(key(MAX_KEYS), NOW + MAX_AGE);
        assert!(cache.get(&key(MAX_KEYS).key.lookup, NOW + MAX_AGE).is_some());
        assert_eq!(cache.0.lock().unwrap().len(), 1);
    }
}
