//! Use case: an admin issues, rotates and revokes the keys of the own side.

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::{ApiKey, ApiKeyId, Owner, Party, PresentedKey, binding, key_request::KeyRequest},
    person::Admin,
    ports::StoreError,
    use_cases::{
        keys::{
            manage_keys::{KeyError, KeyTerms},
            revoke_key::RevokeKey,
        },
        people::sessions::Sessions,
    },
};

/// Manages the keys of one side, for its admins. What an operator alone may say of a key stays out: its rates, its
/// contact, the only service that it may order for. A new key has the binding of the others.
#[derive(Clone)]
pub struct ManageOwnKeys {
    /// Issues and revokes them.
    pub keys: RevokeKey,
    /// Their sessions end with them.
    pub sessions: Sessions,
}

impl ManageOwnKeys {
    /// Returns the keys of the admin's side, valid or not, the oldest first.
    pub async fn list(&self, by: Admin) -> Result<Vec<ApiKey>, StoreError> {
        let mut keys = self.keys.keys.keys.list().await?;
        keys.retain(|key| key.party() == by.party());
        Ok(keys)
    }

    /// Returns a key of the admin's side.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], also for the key of another side.
    pub async fn find(&self, by: Admin, id: ApiKeyId) -> Result<ApiKey, KeyError> {
        let keys = self.list(by).await?;
        keys.into_iter().find(|key| key.id == id).ok_or(KeyError::Unknown)
    }

    /// Issues a key of the admin's side. The secret is not available later.
    pub async fn issue(
        &self,
        by: Admin,
        request: KeyRequest,
    ) -> Result<(ApiKeyId, PresentedKey), KeyError> {
        let KeyRequest { name, scopes, is_test, lifetime } = request;
        let (client, for_service, signing_service) = match by.party() {
            Party::Client(client) => {
                let owner = Owner { party: by.party(), is_test };
                let (keys, now) = (self.list(by).await?, self.keys.keys.clock.now());
                (Some(client), None, binding(&keys, owner, now))
            }
            Party::Service(service) => (None, Some(service), None),
        };
        let terms = KeyTerms {
            name,
            signing_service,
            for_service,
            scopes,
            client,
            lifetime,
            is_test,
            ..KeyTerms::default()
        };
        self.keys.keys.issue(terms, &name_of(by)).await
    }

    /// Issues the successor of a key of the admin's side, as [`ManageKeys::rotate`] does.
    ///
    /// [`ManageKeys::rotate`]: crate::use_cases::keys::manage_keys::ManageKeys::rotate
    pub async fn rotate(
        &self,
        by: Admin,
        id: ApiKeyId,
        grace: Duration,
    ) -> Result<(ApiKeyId, PresentedKey, OffsetDateTime), KeyError> {
        self.find(by, id).await?;
        self.keys.keys.rotate(id, grace, &name_of(by)).await
    }

    /// Revokes a key of the admin's side. The last valid one takes the webhooks of its owner along.
    pub async fn revoke(&self, by: Admin, id: ApiKeyId) -> Result<(), KeyError> {
        self.find(by, id).await?;
        let revoked = self.keys.revoke(id, &name_of(by)).await;
        self.sessions.read_anew();
        revoked?.map(drop).ok_or(KeyError::Unknown)
    }
}

/// Returns the admin in the history of keys, which operators read.
fn name_of(by: Admin) -> String {
    format!("person {}", by.person().0)
}
