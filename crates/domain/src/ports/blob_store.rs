use async_trait::async_trait;

use super::StoreError;
use crate::document::{ObjectKey, SpooledFile};

/// Keeps documents.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Stores a file under a key that was never used before. When it returns, the object is durable and has the size
    /// and the SHA-256 of the file; before, nothing is to be seen under the key, or all of it. Holds a bounded part of
    /// the file in memory. It may move the file away.
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError>;

    /// Removes an object; that there is none is no error.
    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError>;

    /// Whether the store can take an object now.
    async fn check(&self) -> Result<(), StoreError>;
}
