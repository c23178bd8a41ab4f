use async_trait::async_trait;
use time::OffsetDateTime;

use super::StoreError;
use crate::api_key::{ApiKey, ApiKeyId, ClientId, KeyEvent, NewApiKey, Party};

/// Stores issued API keys and their history.
///
/// An implementation guarantees:
/// - Every change is durable when the call returns.
/// - The change and its entry in the history are one atomic step. `by` names the operator.
/// - The history never loses an entry, and keys are never deleted.
///
/// # Errors
/// Every method fails with [`StoreError`] only. An unknown key is not an error.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait ApiKeyRepo: Send + Sync {
    /// Stores a new key.
    async fn add(&self, key: &NewApiKey, by: &str) -> Result<ApiKeyId, StoreError>;

    /// Stores a new key of a party, which one of its admins issues. Returns `None` if
    /// [`is_of_person`](crate::person::is_of_person) finds its name. The check and the change are one atomic step,
    /// under the lock of [`PersonRepo`](super::PersonRepo): no person gets the name meanwhile.
    async fn add_by_admin(
        &self,
        key: &NewApiKey,
        party: Party,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError>;

    /// Stores a new key if no key was ever issued. Otherwise returns `None`. The check and the
    /// change are one atomic step.
    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError>;

    /// Stores the successor of a key, hands the webhook endpoints of the key on to it, and lets the key
    /// expire at `until` unless it expires earlier.
    ///
    /// Returns `None` and changes nothing if the key does not exist, or is expired or revoked when
    /// the successor is issued.
    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError>;

    /// Returns the key with this lookup part, valid or not.
    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError>;

    /// Returns the first key of a client, valid or not; it has the name of the client. Returns `None` if
    /// there is no such client.
    async fn first_of(&self, client: ClientId) -> Result<Option<ApiKey>, StoreError>;

    /// Returns every key ever issued, oldest first.
    async fn list(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// Revokes a key and returns it. Returns `None` if the key does not exist. A key that is
    /// already revoked stays unchanged.
    async fn revoke(
        &self,
        id: ApiKeyId,
        at: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKey>, StoreError>;

    /// Gives a client another name. Returns `false` if there is no such client.
    async fn rename_client(&self, client: ClientId, name: &str) -> Result<bool, StoreError>;

    /// Records when keys were last used. A later use that is already recorded stays.
    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError>;

    /// Returns the history, oldest entry first.
    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError>;
}
