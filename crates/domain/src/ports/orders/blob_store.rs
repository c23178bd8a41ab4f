use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;

use crate::document::{ObjectKey, SpooledFile};
use crate::ports::StoreError;

/// The bytes of an object in blocks, read while the stream is polled. It ends after an error.
pub type BlobStream = BoxStream<'static, Result<Bytes, StoreError>>;

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

    /// Opens an object to read a range of its bytes, which is not empty. Returns `None` if the store
    /// answers and has no such object. An object that is shorter than the range is an error.
    ///
    /// An implementation guarantees:
    /// - The stream has exactly the bytes of the range, or an error after some of them. It never
    ///   ends early without an error.
    /// - It reads nothing ahead of its consumer but a block, and holds at most two blocks, whatever
    ///   the size of the object. A block on disk has at most 256 KiB.
    /// - A dropped stream reads nothing more.
    /// - An object that is deleted meanwhile is read to the end, or the stream fails.
    async fn get(
        &self,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<Option<BlobStream>, StoreError>;

    /// Removes an object. Succeeds if there is no such object.
    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError>;

    /// Checks whether the store can take an object now.
    async fn check(&self) -> Result<(), StoreError>;
}
