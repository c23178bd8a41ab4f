//! Use case: store when API keys were last used.

use std::{sync::Arc, time::Duration};

use time::OffsetDateTime;

use crate::{
    api_key::ApiKeyId,
    ports::{ApiKeyRepo, StoreError},
    use_cases::{
        keys::manage_keys::KeyUses,
        store_waiting::{WaitingFacts, put_back_earlier, take},
    },
};

/// The last uses of API keys that wait, and the store of keys.
pub struct NoteKeyUses {
    /// Stores them.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Uses that are not stored yet.
    pub uses: Arc<KeyUses>,
}

impl WaitingFacts for NoteKeyUses {
    type Fact = (ApiKeyId, OffsetDateTime);

    const BATCH: usize = 500;
    const PAUSE: Duration = Duration::from_secs(1);

    fn take(&self, limit: usize) -> (Vec<Self::Fact>, bool) {
        take(&self.uses, limit)
    }

    fn put_back(&self, facts: Vec<Self::Fact>) {
        put_back_earlier(&self.uses, facts);
    }

    async fn store(&self, facts: &[Self::Fact]) -> Result<(), StoreError> {
        self.keys.note_uses(facts).await
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::{ports::MockApiKeyRepo, test_support::down, use_cases::store_waiting::lock};

    const BEFORE: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
    const NOW: OffsetDateTime = datetime!(2026-11-21 12:01 UTC);

    #[tokio::test]
    async fn failed_use_does_not_replace_a_later_one() {
        let mut keys = MockApiKeyRepo::new();
        let uses = Arc::new(KeyUses::default());
        let later = Arc::clone(&uses);
        keys.expect_note_uses().once().returning(move |stored| {
            assert_eq!(stored, [(ApiKeyId(1), BEFORE), (ApiKeyId(2), BEFORE)]);
            // Another request meanwhile.
            lock(&later).insert(ApiKeyId(1), NOW);
            Err(down())
        });
        lock(&uses).extend([(ApiKeyId(1), BEFORE), (ApiKeyId(2), BEFORE)]);
        let noting = NoteKeyUses { keys: Arc::new(keys), uses };
        assert!(noting.store_batch().await.is_err());
        let waiting: Vec<_> = lock(&noting.uses).clone().into_iter().collect();
        assert_eq!(waiting, [(ApiKeyId(1), NOW), (ApiKeyId(2), BEFORE)]);
    }
}
