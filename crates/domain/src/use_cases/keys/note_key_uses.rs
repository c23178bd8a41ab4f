//! Use case: store when API keys were last used.

use std::time::Duration;

use crate::use_cases::{
    background::{FirstFailure, Step, lock, take},
    keys::manage_keys::ManageKeys,
};

/// Pause between two steps.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of keys in a step, so that their statements take less than the time limit of a call.
const BATCH: usize = 500;

/// Stores the last uses of API keys.
pub struct NoteKeyUses {
    keys: ManageKeys,
    failure: FirstFailure,
}

impl NoteKeyUses {
    /// Returns a worker that stores the uses of `keys`.
    pub fn new(keys: ManageKeys) -> Self {
        Self { keys, failure: FirstFailure::default() }
    }

    /// Stores the uses since the last step. After a failure, the next step stores them. Only the
    /// first of several failures in a row is an error.
    pub async fn step(&mut self) -> Step<()> {
        let ManageKeys { keys, uses, .. } = &self.keys;
        let (taken, _) = take(uses, BATCH);
        let noted = if taken.is_empty() { Ok(()) } else { keys.note_uses(&taken).await };
        if noted.is_err() {
            let mut last = lock(uses);
            for (id, at) in taken {
                last.entry(id).or_insert(at);
            }
        }
        Step { result: self.failure.report(noted), pause: PAUSE }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use time::macros::datetime;

    use super::*;
    use crate::{
        api_key::{ApiKey, ApiKeyId, PresentedKey},
        ports::{MockApiKeyRepo, StoreError},
        test_support::{CountingEntropy, clock, new_api_key},
    };

    #[tokio::test]
    async fn failed_uses_are_stored_later_and_reported_once() {
        let now = datetime!(2026-11-21 12:00 UTC);
        let entropy = CountingEntropy::default();
        let presented = PresentedKey::random(false, &entropy);
        let (key, id) = (new_api_key(presented.hash(), now), ApiKeyId(1));
        let mut repo = MockApiKeyRepo::new();
        repo.expect_find().returning(move |_| {
            Ok(Some(ApiKey { id, key: key.clone(), revoked_at: None, last_used_at: None }))
        });
        let mut replies = [false, false, true, false].into_iter();
        repo.expect_note_uses().withf(move |uses| uses == [(id, now)]).times(4).returning(
            move |_| match replies.next() {
                Some(true) => Ok(()),
                _ => Err(StoreError::Unavailable("no database".into())),
            },
        );
        let keys = ManageKeys {
            keys: Arc::new(repo),
            clock: clock(now),
            entropy: Arc::new(entropy),
            uses: Arc::default(),
            cache: Arc::default(),
        };
        let mut worker = NoteKeyUses::new(keys.clone());
        for (is_used, is_reported) in [(true, true), (false, false), (false, false), (true, true)] {
            if is_used {
                keys.authenticate(&presented, || true).await.unwrap().unwrap();
            }
            let step = worker.step().await;
            assert_eq!((step.result.is_err(), step.pause), (is_reported, PAUSE));
        }
    }

    #[tokio::test]
    async fn uses_of_many_keys_are_stored_in_batches() {
        let now = datetime!(2026-11-21 12:00 UTC);
        let mut repo = MockApiKeyRepo::new();
        let mut sizes = [BATCH, 1].into_iter();
        repo.expect_note_uses().times(2).returning(move |uses| {
            assert_eq!(Some(uses.len()), sizes.next());
            Ok(())
        });
        let uses = (0..=500).map(|id| (ApiKeyId(id), now)).collect();
        let mut worker = NoteKeyUses::new(ManageKeys {
            keys: Arc::new(repo),
            clock: clock(now),
            entropy: Arc::new(CountingEntropy::default()),
            uses: Arc::new(std::sync::Mutex::new(uses)),
            cache: Arc::default(),
        });
        for _ in 0..3 {
            worker.step().await.result.unwrap();
        }
    }
}
