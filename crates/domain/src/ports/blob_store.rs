use async_trait::async_trait;

use super::StoreError;
use crate::document::{ObjectKey, SpooledFile};

/// Keeps documents.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Stores a file under a key that was never used before. When it returns, the object is durable
    /// and has the bytes and the size of the file; before, nothing is to be seen under the key, or
    /// all of it. A file of another size than was received is refused, and by a store that copies,
    /// bytes of another SHA-256 too; one that makes the file itself the object has no copy that
    /// could differ. Nobody writes to the file any more. It stays where it is. Holds a bounded part
    /// of it in memory.
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError>;

    /// Removes an object; that there is none is no error.
    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError>;

    /// Whether the store can take an object now.
    async fn check(&self) -> Result<(), StoreError>;
}
