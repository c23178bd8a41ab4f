use async_trait::async_trait;
use time::OffsetDateTime;

use super::StoreError;
use crate::api_key::{ApiKey, ApiKeyId, KeyEvent, NewApiKey};

/// Keeps what the service knows of issued API keys, and the trail of who issued, rotated and
/// revoked them.
///
/// Whoever changes a key is named by `by`, and the change is written into the trail in the same
/// atomic step. Nothing ever leaves the trail.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait ApiKeyRepo: Send + Sync {
    /// Keeps a new key, durably.
    async fn add(&self, key: &NewApiKey, by: &str) -> Result<ApiKeyId, StoreError>;

    /// Keeps a new key if none was ever issued, in one atomic step; `None` if one was.
    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError>;

    /// Keeps the successor of a key, which is issued thereby, and has the key itself expire at
    /// `until` unless it does so earlier, in one atomic step; `None`, and nothing is changed, if
    /// there is no such key or it is not live when the successor is issued.
    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError>;

    /// The key with this lookup part, live or not.
    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError>;

    /// Every key ever issued, oldest first.
    async fn list(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// Revokes a key and returns it; `None` if there is no such key. A key that is revoked already
    /// stays as it is.
    async fn revoke(
        &self,
        id: ApiKeyId,
        at: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKey>, StoreError>;

    /// Notes when keys were last used; a later use that is noted already stays.
    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError>;

    /// The trail, oldest first.
    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError>;
}
