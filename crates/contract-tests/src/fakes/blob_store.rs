use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use domain::{
    document::{ObjectKey, Sha256Digest, SpooledFile},
    ports::{BlobStore, StoreError},
};
use sha2::{Digest as _, Sha256};

/// A blob store that lives as long as the test.
#[derive(Debug, Default)]
pub struct InMemoryBlobStore {
    objects: Mutex<BTreeMap<ObjectKey, Vec<u8>>>,
    down: AtomicBool,
}

impl InMemoryBlobStore {
    /// Makes every operation fail as if the store did not answer, or work again.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// The bytes under a key.
    pub fn get(&self, key: &ObjectKey) -> Option<Vec<u8>> {
        self.objects.lock().unwrap().get(key).cloned()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }
}

#[async_trait]
impl BlobStore for InMemoryBlobStore {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        self.check().await?;
        let bytes =
            std::fs::read(&file.path).map_err(|error| StoreError::Internal(error.into()))?;
        if bytes.len() as u64 != file.size
            || Sha256Digest(Sha256::digest(&bytes).into()) != file.sha256
        {
            return Err(StoreError::Internal("the file is not what it is said to be".into()));
        }
        self.objects.lock().unwrap().insert(key.clone(), bytes);
        Ok(())
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        self.check().await?;
        self.objects.lock().unwrap().remove(key);
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        if self.down.load(Ordering::SeqCst) {
            Err(StoreError::Unavailable("down".into()))
        } else {
            Ok(())
        }
    }
}
