use async_trait::async_trait;
use time::OffsetDateTime;

use super::StoreError;
use crate::api_key::{ApiKey, ApiKeyId, NewApiKey};

/// Keeps what the service knows of issued API keys.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait ApiKeyRepo: Send + Sync {
    /// Keeps a new key, durably.
    async fn add(&self, key: &NewApiKey) -> Result<ApiKeyId, StoreError>;

    /// Keeps a new key if none was ever issued, in one atomic step; `None` if one was.
    async fn add_first(&self, key: &NewApiKey) -> Result<Option<ApiKeyId>, StoreError>;

    /// The key with this lookup part, live or not.
    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError>;

    /// Every key ever issued, oldest first.
    async fn list(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// Revokes a key and returns it; `None` if there is no such key. A key that is revoked already stays as it is.
    async fn revoke(&self, id: ApiKeyId, at: OffsetDateTime) -> Result<Option<ApiKey>, StoreError>;
}
