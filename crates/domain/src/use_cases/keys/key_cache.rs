//! Cache of API keys, so that not every request needs the store.

use std::{
    collections::HashMap,
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

/// Cached keys by their lookup part. A guess is not cached: the limit of failed authentications bounds
/// how often the store is asked. So the cache has no more keys than the operator has issued.
#[derive(Debug, Default)]
pub struct KeyCache {
    /// The keys, each with the instant when it was read.
    known: Mutex<HashMap<String, (Arc<ApiKey>, OffsetDateTime)>>,
    /// The instant when all keys were read.
    listed: lock::Mutex<Option<OffsetDateTime>>,
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
        self.known().insert(lookup.to_owned(), (key, since));
    }

    /// Caches all keys. However many requests ask, the store is read once in five seconds.
    pub(crate) async fn list(
        &self,
        now: OffsetDateTime,
        keys: &dyn ApiKeyRepo,
    ) -> Result<(), StoreError> {
        let mut listed = self.listed.lock().await;
        if !listed.is_some_and(|since| is_fresh(since, now)) {
            // A store that fails is not asked again by every request, either.
            *listed = Some(now);
            for key in keys.list().await? {
                self.put(&key.key.lookup.clone(), Arc::new(key), now);
            }
        }
        Ok(())
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
            cache.list(at, &keys).await.unwrap();
            answers.push(cache.get(&lookup(number), at).is_some());
        }
        assert_eq!(answers, [true, false, false, true]);
    }
}
