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
pub struct KeyCache(Mutex<HashMap<String, Known>>);

#[derive(Debug)]
struct Known {
    key: Arc<ApiKey>,
    since: OffsetDateTime,
}

impl Known {
    /// A clock that was set back makes no entry fresh.
    fn is_fresh(&self, now: OffsetDateTime) -> bool {
        (Duration::ZERO..MAX_AGE).contains(&(now - self.since))
    }
}

impl KeyCache {
    /// Returns the key if it was read less than five seconds ago.
    pub(crate) fn get(&self, lookup: &str, now: OffsetDateTime) -> Option<Arc<ApiKey>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(lookup).filter(|known| known.is_fresh(now)).map(|known| Arc::clone(&known.key))
    }

    /// Caches a key that was read at `since`.
    pub(crate) fn put(&self, key: Arc<ApiKey>, since: OffsetDateTime) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KEYS {
            known.retain(|_, known| known.is_fresh(since));
        }
        // With more keys than this in five seconds, the rest is read from the store each time.
        if known.len() < MAX_KEYS || known.contains_key(&key.key.lookup) {
            known.insert(key.key.lookup.clone(), Known { key, since });
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
        let known = KeyCache::default();
        let first = key(1);
        known.put(Arc::clone(&first), NOW);
        for known_at in [NOW, NOW + Duration::microseconds(4_999_999)] {
            assert_eq!(known.get(&first.key.lookup, known_at), Some(Arc::clone(&first)));
        }
        for asked_at in [NOW + Duration::seconds(5), NOW - Duration::microseconds(1)] {
            assert_eq!(known.get(&first.key.lookup, asked_at), None);
        }
        assert_eq!(known.get(&key(2).key.lookup, NOW), None);
    }

    #[test]
    fn number_of_cached_keys_is_bounded() {
        let known = KeyCache::default();
        (0..=MAX_KEYS).for_each(|number| known.put(key(number), NOW));
        assert_eq!(known.get(&key(MAX_KEYS).key.lookup, NOW), None);
        assert!(known.get(&key(0).key.lookup, NOW).is_some());
        // Entries that are no longer fresh are dropped.
        known.put(key(MAX_KEYS), NOW + MAX_AGE);
        assert!(known.get(&key(MAX_KEYS).key.lookup, NOW + MAX_AGE).is_some());
        assert_eq!(known.0.lock().unwrap().len(), 1);
    }
}
