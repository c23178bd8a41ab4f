//! An adapter of a third party: it stores documents in memory.
//!
//! It keeps the contract of `BlobStore` as far as a test can see. It is for tests only: its
//! documents take memory, and are gone when the process ends.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, BlobStream, StoreError},
};
use futures_util::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256};

/// The largest block that a reader gets.
const BLOCK: usize = 256 * 1024;

/// Stores objects in memory. A clone is the same store.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<BTreeMap<String, Bytes>>>);

impl MemoryStore {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Internal(cause.into())
}

#[async_trait]
impl BlobStore for MemoryStore {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        let bytes = tokio::fs::read(&file.path).await.map_err(failed)?;
        if bytes.len() as u64 != file.size {
            return Err(failed("the file has another size than the one received"));
        }
        if Sha256::digest(&bytes)[..] != file.sha256.0 {
            return Err(failed("the file has other bytes than the one received"));
        }
        self.objects().insert(key.as_str().to_owned(), bytes.into());
        Ok(())
    }

    async fn get(
        &self,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<Option<BlobStream>, StoreError> {
        let Some(object) = self.objects().get(key.as_str()).cloned() else { return Ok(None) };
        let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
        let range = start.map_err(failed)?..end.map_err(failed)?;
        if range.end > object.len() {
            return Err(failed("the object is shorter than the range"));
        }
        let rest = object.slice(range);
        let blocks = (0..rest.len()).step_by(BLOCK);
        let block = move |at| Ok(rest.slice(at..rest.len().min(at + BLOCK)));
        Ok(Some(stream::iter(blocks.map(block)).boxed()))
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        self.objects().remove(key.as_str());
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use contract_tests::blob_store::BlobStoreFixture;

    use super::*;

    #[async_trait]
    impl BlobStoreFixture for MemoryStore {
        fn store(&self) -> Arc<dyn BlobStore> {
            Arc::new(self.clone())
        }
        async fn content(&self) -> BTreeMap<String, Vec<u8>> {
            self.objects().iter().map(|(key, bytes)| (key.clone(), bytes.to_vec())).collect()
        }
    }
    contract_tests::contract!(copying_blob_store, MemoryStore::default());
}
