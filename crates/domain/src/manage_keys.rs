//! Use case: issue, check and revoke API keys.

use std::sync::Arc;

use time::Duration;

use crate::{
    api_key::{ApiKey, ApiKeyId, NewApiKey, PresentedKey},
    order::SigningServiceId,
    ports::{ApiKeyRepo, Clock, Entropy, StoreError},
};

/// Issues, checks and revokes API keys.
#[derive(Clone)]
pub struct ManageKeys {
    /// Where keys are kept.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Randomness for new keys.
    pub entropy: Arc<dyn Entropy>,
}

/// What a new key is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTerms {
    /// What the operator calls it.
    pub name: String,
    /// The only signing service that it may create orders for; any if none.
    pub signing_service: Option<SigningServiceId>,
    /// How long it is good; for ever if none.
    pub lifetime: Option<Duration>,
}

impl ManageKeys {
    /// Issues a key. The answer is the only time that its secret is seen.
    pub async fn issue(&self, terms: KeyTerms) -> Result<(ApiKeyId, PresentedKey), StoreError> {
        let (presented, key) = self.new_key(terms);
        Ok((self.keys.add(&key).await?, presented))
    }

    /// Issues a key if none was ever issued.
    pub async fn issue_first(&self, terms: KeyTerms) -> Result<Option<(ApiKeyId, PresentedKey)>, StoreError> {
        let (presented, key) = self.new_key(terms);
        Ok(self.keys.add_first(&key).await?.map(|id| (id, presented)))
    }

    fn new_key(&self, terms: KeyTerms) -> (PresentedKey, NewApiKey) {
        let presented = PresentedKey::random(&*self.entropy);
        let issued_at = self.clock.now();
        let expires_at = terms.lifetime.map(|lifetime| issued_at.saturating_add(lifetime));
        let key = NewApiKey {
            name: terms.name,
            lookup: presented.lookup().to_owned(),
            hash: presented.hash(),
            signing_service: terms.signing_service,
            issued_at,
            expires_at,
        };
        (presented, key)
    }

    /// The key that a client presents, if it is good now.
    pub async fn authenticate(&self, presented: &PresentedKey) -> Result<Option<ApiKey>, StoreError> {
        let key = self.keys.find(presented.lookup()).await?;
        Ok(key.filter(|key| key.admits(presented, self.clock.now())))
    }

    /// Every key ever issued, oldest first.
    pub async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.keys.list().await
    }

    /// Revokes a key; `None` if there is no such key.
    pub async fn revoke(&self, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.keys.revoke(id, self.clock.now()).await
    }
}

#[cfg(test)]
mod tests {
    use time::{OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        ports::{MockApiKeyRepo, MockClock},
        test_support::CountingEntropy,
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    fn managing(keys: MockApiKeyRepo) -> ManageKeys {
        let mut clock = MockClock::new();
        clock.expect_now().return_const(NOW);
        ManageKeys { keys: Arc::new(keys), clock: Arc::new(clock), entropy: Arc::new(CountingEntropy::default()) }
    }

    fn terms() -> KeyTerms {
        KeyTerms { name: "title company".to_owned(), signing_service: Some(SigningServiceId(42)), lifetime: Some(Duration::days(90)) }
    }

    #[tokio::test]
    async fn a_key_is_kept_as_its_hash_and_terms() {
        let mut keys = MockApiKeyRepo::new();
        keys.expect_add().once().returning(|key| {
            assert_eq!((key.name.as_str(), key.signing_service, key.issued_at), ("title company", Some(SigningServiceId(42)), NOW));
            assert_eq!(key.expires_at, Some(NOW + Duration::days(90)));
            Ok(ApiKeyId(7))
        });
        let (id, presented) = managing(keys).issue(terms()).await.unwrap();
        assert_eq!(id, ApiKeyId(7));
        assert!(PresentedKey::parse(presented.expose()).is_some());
    }

    #[tokio::test]
    async fn the_first_key_is_shown_only_if_it_was_kept() {
        let mut keys = MockApiKeyRepo::new();
        keys.expect_add_first().returning(|_| Ok(None));
        assert_eq!(managing(keys).issue_first(terms()).await.unwrap(), None);
    }

    #[tokio::test]
    async fn only_a_live_key_of_the_same_secret_is_admitted() {
        let presented = PresentedKey::random(&CountingEntropy::default());
        let other = PresentedKey::random(&CountingEntropy::starting_at(9));
        for (hash, revoked_at, admitted) in [(presented.hash(), None, true), (presented.hash(), Some(NOW), false), (other.hash(), None, false)] {
            let mut keys = MockApiKeyRepo::new();
            let key = NewApiKey { name: String::new(), lookup: presented.lookup().to_owned(), hash, signing_service: None, issued_at: NOW, expires_at: None };
            keys.expect_find().returning(move |_| Ok(Some(ApiKey { id: ApiKeyId(1), key: key.clone(), revoked_at })));
            assert_eq!(managing(keys).authenticate(&presented).await.unwrap().is_some(), admitted);
        }
    }
}
