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

/// Maximum number of cached keys, and of remembered unknown ones.
const MAX_KEYS: usize = 1_024;

/// Cached keys by their lookup part.
#[derive(Debug, Default)]
pub struct KeyCache {
    /// Keys that exist.
    known: Fresh<Arc<ApiKey>>,
    /// Lookup parts without a key. Apart from the keys, so that guesses cannot displace them.
    unknown: Fresh<()>,
    listed: lock::Mutex<Listed>,
}

/// Lookup parts of all keys, for requests that may not ask the store for their key.
#[derive(Debug, Default)]
struct Listed {
    lookups: HashSet<String>,
    since: Option<OffsetDateTime>,
}

/// What the store said about a lookup part less than five seconds ago.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    Key(Arc<ApiKey>),
    Unknown,
}

impl KeyCache {
    /// Returns what the store said, if that is not too long ago.
    pub(crate) fn get(&self, lookup: &str, now: OffsetDateTime) -> Option<Cached> {
        let known = self.known.get(lookup, now).map(Cached::Key);
        known.or_else(|| self.unknown.get(lookup, now).map(|()| Cached::Unknown))
    }

    /// Caches a key, or that there is none, as read at `since`.
    pub(crate) fn put(&self, lookup: &str, key: Option<Arc<ApiKey>>, since: OffsetDateTime) {
        match key {
            Some(key) => self.known.put(lookup, key, since),
            None => self.unknown.put(lookup, (), since),
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

/// A bounded map of values by lookup part, each valid for [`MAX_AGE`].
#[derive(Debug)]
struct Fresh<T>(Mutex<HashMap<String, (T, OffsetDateTime)>>);

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Fresh<T> {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, (T, OffsetDateTime)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, lookup: &str, now: OffsetDateTime) -> Option<T> {
        let entries = self.entries();
        entries
            .get(lookup)
            .filter(|(_, since)| is_fresh(*since, now))
            .map(|(value, _)| value.clone())
    }

    fn put(&self, lookup: &str, value: T, since: OffsetDateTime) {
        let mut entries = self.entries();
        if entries.len() >= MAX_KEYS {
            entries.retain(|_, (_, earlier)| is_fresh(*earlier, since));
        }
        // With more keys than this in five seconds, the rest is read from the store each time.
        if entries.len() < MAX_KEYS || entries.contains_key(lookup) {
            entries.insert(lookup.to_owned(), (value, since));
        }
    }
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
        cache.put(&lookup(1), Some(key(1)), NOW);
        cache.put(&lookup(2), None, NOW);
        for at in [NOW, NOW + Duration::microseconds(4_999_999)] {
            assert_eq!(cache.get(&lookup(1), at), Some(Cached::Key(key(1))));
            assert_eq!(cache.get(&lookup(2), at), Some(Cached::Unknown));
        }
        for at in [NOW + Duration::seconds(5), NOW - Duration::microseconds(1)] {
            assert_eq!(cache.get(&lookup(1), at), None);
            assert_eq!(cache.get(&lookup(2), at), None);
        }
        assert_eq!(cache.get(&lookup(3), NOW), None);
    }

    #[test]
    fn number_of_cached_keys_is_bounded() {
        let cache = KeyCache::default();
        (0..=MAX_KEYS).for_each(|number| cache.put(&lookup(number), Some(key(number)), NOW));
        assert_eq!(cache.get(&lookup(MAX_KEYS), NOW), None);
        assert!(cache.get(&lookup(0), NOW).is_some());
        // Entries that are no longer fresh are dropped.
        cache.put(&lookup(MAX_KEYS), Some(key(MAX_KEYS)), NOW + MAX_AGE);
        assert!(cache.get(&lookup(MAX_KEYS), NOW + MAX_AGE).is_some());
        assert_eq!(cache.known.entries().len(), 1);
    }

    #[test]
    fn unknown_keys_are_bounded_and_displace_no_key() {
        let cache = KeyCache::default();
        (0..2 * MAX_KEYS).for_each(|number| cache.put(&lookup(number), None, NOW));
        assert_eq!(cache.unknown.entries().len(), MAX_KEYS);
        cache.put(&lookup(0), Some(key(0)), NOW);
        assert_eq!(cache.get(&lookup(0), NOW), Some(Cached::Key(key(0))));
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
