use async_trait::async_trait;

use super::StoreError;
use crate::document::{ObjectKey, SpooledFile};

/// Stores the bytes of documents as objects.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Stores a file under a key that was never used before. The file is complete and stays where
    /// it is.
    ///
    /// An implementation guarantees:
    /// - When the call returns, the object is durable and has the bytes and the size of the file.
    /// - A reader sees either no object or the whole object.
    /// - A file of another size than the one received is rejected.
    /// - A store that copies the file also rejects bytes with another SHA-256. A store that makes
    ///   the file itself the object has no copy that could differ.
    /// - Memory use is bounded, whatever the size of the file.
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError>;

    /// Removes an object. Succeeds if there is no such object.
    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError>;

    /// Checks whether the store can take an object now.
    async fn check(&self) -> Result<(), StoreError>;
}
