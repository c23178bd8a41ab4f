//! Use case: revoke an API key, and stop the webhooks that it has made.

use std::sync::Arc;

use crate::{
    api_key::{ApiKey, ApiKeyId},
    ports::{StoreError, WebhookRepo},
    use_cases::keys::manage_keys::ManageKeys,
    webhook::{Endpoint, EndpointPrecondition, endpoint_request::EndpointChange},
};

/// Revokes keys.
#[derive(Clone)]
pub struct RevokeKey {
    /// Revokes them.
    pub keys: ManageKeys,
    /// Stores endpoints.
    pub endpoints: Arc<dyn WebhookRepo>,
}

/// A key that is revoked, and the enabled endpoints that depend on it.
#[derive(Debug, PartialEq, Eq)]
pub struct RevokedKey {
    /// The key.
    pub key: ApiKey,
    /// Those that it has made. They still get events.
    pub made: Vec<Endpoint>,
    /// Those that were disabled with it, because their owner has no valid key any more.
    pub disabled: Vec<Endpoint>,
}

impl RevokeKey {
    /// Revokes a key for the operator `by`. The last valid key of an owner takes its endpoints along.
    /// Returns `None` if there is no such key.
    pub async fn revoke(&self, id: ApiKeyId, by: &str) -> Result<Option<RevokedKey>, StoreError> {
        let Some(key) = self.keys.revoke(id, by).await? else { return Ok(None) };
        let (owner, now) = (key.owner(), self.keys.clock.now());
        let mut endpoints = self.endpoints.of_owner(owner).await?;
        endpoints.retain(|endpoint| endpoint.disabled.is_none());
        let keys = self.keys.keys.list().await?;
        if keys.iter().any(|other| other.owner() == owner && other.is_valid(now)) {
            endpoints.retain(|endpoint| endpoint.key == Some(id));
            return Ok(Some(RevokedKey { key, made: endpoints, disabled: Vec::new() }));
        }
        self.disable(&endpoints).await?;
        Ok(Some(RevokedKey { key, made: Vec::new(), disabled: endpoints }))
    }

    /// Disables endpoints. Their events wait.
    pub async fn disable(&self, endpoints: &[Endpoint]) -> Result<(), StoreError> {
        let disable = EndpointChange { is_enabled: Some(false), ..EndpointChange::default() };
        let any = EndpointPrecondition::NONE;
        for Endpoint { owner, id, .. } in endpoints {
            self.endpoints.change(*owner, *id, &disable, &any, self.keys.clock.now()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use time::{OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        api_key::{ClientId, NewApiKey},
        ports::{MockApiKeyRepo, MockWebhookRepo},
        test_support::{CountingEntropy, api_key, clock, endpoint},
        use_cases::keys::key_cache::KeyCache,
        webhook::{DisabledBy, EndpointId},
    };

    const NOW: OffsetDateTime = datetime!(2026-12-31 12:00 UTC);
    const ID: ApiKeyId = ApiKeyId(4);
    const CLIENT: ClientId = ClientId(1);

    /// Returns the identifiers of the endpoints that were left, and disabled. The endpoint 3 belongs to
    /// the key, 5 to no key, and 6 is disabled.
    async fn revoked(others: Vec<ApiKey>) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
        let terms = NewApiKey { client: Some(CLIENT), ..api_key().key };
        let key = ApiKey { id: ID, key: terms, revoked_at: Some(NOW), ..api_key() };
        let owner = key.owner();
        let of = |id, key| Endpoint { owner, key, ..endpoint(EndpointId(id)) };
        let disabled = Some((NOW, DisabledBy::Gone));
        let own = vec![of(3, Some(ID)), of(5, None), Endpoint { disabled, ..of(6, Some(ID)) }];
        let mut keys = MockApiKeyRepo::new();
        let listed: Vec<_> = others.into_iter().chain([key.clone()]).collect();
        keys.expect_list().returning(move || Ok(listed.clone()));
        keys.expect_revoke().once().returning(move |_, _, _| Ok(Some(key.clone())));
        let mut endpoints = MockWebhookRepo::new();
        endpoints.expect_of_owner().withf(move |of| *of == owner).return_once(move |_| Ok(own));
        let changed = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&changed);
        endpoints.expect_change().returning(move |of, id, change, _, at| {
            assert_eq!((of, change.is_enabled, at), (owner, Some(false), NOW));
            noted.lock().unwrap().push(id.0);
            Ok(None)
        });
        let keys = ManageKeys {
            keys: Arc::new(keys),
            clock: clock(NOW),
            entropy: Arc::new(CountingEntropy::default()),
            uses: Arc::default(),
            cache: Arc::new(KeyCache::default()),
        };
        let revoke = RevokeKey { keys, endpoints: Arc::new(endpoints) };
        let RevokedKey { made, disabled, .. } = revoke.revoke(ID, "jane").await.unwrap().unwrap();
        let ids = |endpoints: Vec<Endpoint>| endpoints.iter().map(|one| one.id.0).collect();
        let changed = changed.lock().unwrap().clone();
        (ids(made), ids(disabled), changed)
    }

    fn other(is_test: bool, expires_at: Option<OffsetDateTime>) -> ApiKey {
        let key = NewApiKey { is_test, expires_at, client: Some(CLIENT), ..api_key().key };
        ApiKey { id: ApiKeyId(8), key, ..api_key() }
    }

    #[tokio::test]
    async fn endpoints_of_a_revoked_key_are_named_and_left() {
        let is_test = api_key().key.is_test;
        assert_eq!(revoked(vec![other(is_test, None)]).await, (vec![3], vec![], vec![]));
    }

    #[tokio::test]
    async fn last_valid_key_of_an_owner_takes_its_endpoints_along() {
        let is_test = api_key().key.is_test;
        for others in [vec![], vec![other(is_test, Some(NOW))], vec![other(!is_test, None)]] {
            assert_eq!(revoked(others).await, (vec![], vec![3, 5], vec![3, 5]));
        }
    }
}
