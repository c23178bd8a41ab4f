//! The contract of `BlobStore`.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use async_trait::async_trait;
use domain::{
    document::{ObjectKey, Sha256Digest, SpooledFile},
    ports::{BlobStore, Entropy as _, StoreError},
};
use futures_util::{StreamExt as _, TryStreamExt as _, future::join_all};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::fakes::CountingEntropy;

/// A blob store under test, and access to its content that the port does not offer.
#[async_trait]
pub trait BlobStoreFixture: Send + Sync {
    /// Returns the store.
    fn store(&self) -> Arc<dyn BlobStore>;

    /// Returns everything in the store: the bytes of each object under its key, and each unfinished
    /// object or leftover under any other name.
    async fn content(&self) -> BTreeMap<String, Vec<u8>>;
}

/// Returns the bytes under a key, past the port.
async fn stored(fixture: &dyn BlobStoreFixture, key: &ObjectKey) -> Option<Vec<u8>> {
    fixture.content().await.remove(key.as_str())
}

const MIB: usize = 1024 * 1024;

/// Writes a file of that many random-looking bytes.
pub fn spooled(spool: &Path, size: usize, entropy: &CountingEntropy) -> (SpooledFile, Vec<u8>) {
    let mut bytes = vec![0; size];
    entropy.fill(&mut bytes);
    let path = spool.join(ObjectKey::random(entropy).as_str().replace('/', "-"));
    std::fs::write(&path, &bytes).unwrap();
    let sha256 = Sha256Digest(Sha256::digest(&bytes).into());
    (SpooledFile { path, size: size as u64, sha256, crc32: 0 }, bytes)
}

/// Covers empty files, the largest that the service accepts, and sizes around the buffers. The store
/// needs no right to write to the spooled file, and is read in blocks.
pub async fn object_has_the_bytes_of_its_file(fixture: &dyn BlobStoreFixture) {
    let (spool, entropy) = (TempDir::new().unwrap(), CountingEntropy::default());
    let blocks = [0, 1, 4_096, 32_767, 32_768, 32_769, 65_536, 262_145];
    let parts = [MIB - 1, MIB, MIB + 1, 2 * MIB, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 10 * MIB];
    for (stored_before, size) in blocks.into_iter().chain(parts).enumerate() {
        let (file, bytes) = spooled(spool.path(), size, &entropy);
        let mut permissions = std::fs::metadata(&file.path).unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&file.path, permissions).unwrap();
        let key = ObjectKey::random(&entropy);
        fixture.store().put(&key, &file).await.unwrap();
        let content = fixture.content().await;
        assert!(content.get(key.as_str()) == Some(&bytes), "{size} bytes");
        assert!(size == 0 || read(fixture, &key, 0..size).await == bytes, "{size} bytes");
        assert_eq!(content.len(), stored_before + 1, "{size} bytes");
    }
}

/// Covers small and large files, too short, too long, and missing. Nothing is left.
pub async fn file_of_another_size_is_rejected(fixture: &dyn BlobStoreFixture) {
    for size in [1_000, 3 * MIB] {
        assert_rejected(fixture, size, |file| file.size -= 1).await;
        assert_rejected(fixture, size, |file| file.size += 1).await;
        assert_rejected(fixture, size, |file| std::fs::remove_file(&file.path).unwrap()).await;
    }
}

/// Covers a small and a large file of the announced size. Nothing is left.
pub async fn file_with_other_bytes_is_rejected(fixture: &dyn BlobStoreFixture) {
    for size in [1_000, 3 * MIB] {
        assert_rejected(fixture, size, |file| file.sha256 = Sha256Digest([7; 32])).await;
    }
}

async fn assert_rejected(
    fixture: &dyn BlobStoreFixture,
    size: usize,
    change: impl FnOnce(&mut SpooledFile) + Send,
) {
    let (spool, entropy) = (TempDir::new().unwrap(), CountingEntropy::default());
    let (mut file, _) = spooled(spool.path(), size, &entropy);
    change(&mut file);
    let key = ObjectKey::random(&entropy);
    assert!(fixture.store().put(&key, &file).await.is_err(), "{file:?}");
    assert_eq!(fixture.content().await, BTreeMap::new());
}

/// Runs more puts than a store does at the same time. Readers take turns.
pub async fn concurrent_puts_and_readers_do_not_mix(fixture: &dyn BlobStoreFixture) {
    const PUTS: usize = 40;
    let (spool, entropy) = (TempDir::new().unwrap(), CountingEntropy::default());
    let files: Vec<_> = (0..PUTS)
        .map(|number| (ObjectKey::random(&entropy), spooled(spool.path(), MIB + number, &entropy)))
        .collect();
    join_all(files.iter().map(|(key, (file, _))| async {
        let (store, key, file) = (fixture.store(), key.clone(), file.clone());
        tokio::spawn(async move { store.put(&key, &file).await.unwrap() }).await.unwrap();
    }))
    .await;
    let content = fixture.content().await;
    assert_eq!(content.len(), PUTS);
    join_all(files.iter().map(|(key, (_, bytes))| async {
        assert!(content.get(key.as_str()) == Some(bytes));
        assert!(read(fixture, key, 0..bytes.len()).await == *bytes);
    }))
    .await;
}

/// Reads while the object is put.
pub async fn object_appears_complete(fixture: &dyn BlobStoreFixture) {
    let (spool, entropy) = (TempDir::new().unwrap(), CountingEntropy::default());
    let (file, bytes) = spooled(spool.path(), 10 * MIB, &entropy);
    let key = ObjectKey::random(&entropy);
    let put = tokio::spawn({
        let (store, key) = (fixture.store(), key.clone());
        async move { store.put(&key, &file).await }
    });
    while !put.is_finished() {
        assert!(stored(fixture, &key).await.is_none_or(|seen| seen == bytes));
        tokio::task::yield_now().await;
    }
    put.await.unwrap().unwrap();
    assert!(stored(fixture, &key).await == Some(bytes));
}

/// Other objects stay. Deleting an object again, or an unknown one, is no error.
pub async fn deleted_object_is_gone(fixture: &dyn BlobStoreFixture) {
    let (deleted, _) = object(fixture, 10).await;
    let (other, bytes) = object(fixture, 11).await;
    for key in [&deleted, &deleted, &crate::samples::object_key()] {
        fixture.store().delete(key).await.unwrap();
        let found = fixture.store().get(key, 0..10).await.map(|found| found.is_some());
        assert!(matches!(found, Ok(false)), "{found:?}");
    }
    assert_eq!(stored(fixture, &other).await, Some(bytes));
    assert_eq!(fixture.content().await.len(), 1);
}

/// Covers concurrent checks.
pub async fn check_leaves_nothing_behind(fixture: &dyn BlobStoreFixture) {
    let store = fixture.store();
    join_all((0..16).map(|_| store.check())).await.into_iter().for_each(Result::unwrap);
    assert_eq!(fixture.content().await, BTreeMap::new());
}

/// The largest block that a reader may get.
const MAX_BLOCK: usize = MIB / 2;

/// Puts an object of that many bytes.
async fn object(fixture: &dyn BlobStoreFixture, size: usize) -> (ObjectKey, Vec<u8>) {
    let spool = TempDir::new().unwrap();
    // Seeded by the size, so that objects differ.
    let entropy = CountingEntropy::default();
    entropy.fill(&mut vec![0; size % 251]);
    let (file, bytes) = spooled(spool.path(), size, &entropy);
    let key = crate::samples::object_key();
    fixture.store().put(&key, &file).await.unwrap();
    (key, bytes)
}

async fn read(
    fixture: &dyn BlobStoreFixture,
    key: &ObjectKey,
    range: std::ops::Range<usize>,
) -> Vec<u8> {
    let range = range.start as u64..range.end as u64;
    let mut stream = fixture.store().get(key, range).await.unwrap().unwrap();
    let mut bytes = Vec::new();
    while let Some(block) = stream.next().await {
        let block = block.unwrap();
        assert!(block.len() <= MAX_BLOCK, "a block of {}", block.len());
        bytes.extend_from_slice(&block);
        tokio::task::yield_now().await;
    }
    bytes
}

/// Covers the first and the last byte, and ranges across blocks.
pub async fn ranges_of_an_object_are_read(fixture: &dyn BlobStoreFixture) {
    let size = MIB + 17;
    let (key, bytes) = object(fixture, size).await;
    let ends = [0..1, size - 1..size, 1..size, 0..size - 1];
    let blocks = [32_767..32_769, 32_768..65_536, 100_000..900_000];
    for range in ends.into_iter().chain(blocks) {
        assert!(read(fixture, &key, range.clone()).await == bytes[range.clone()], "{range:?}");
    }
}

/// It is neither cut nor missing.
pub async fn range_beyond_the_end_is_an_error(fixture: &dyn BlobStoreFixture) {
    let (key, _) = object(fixture, 10).await;
    for range in [0..11, 9..11, 10..11, 11..12, 0..1 << 40] {
        let outcome = fixture.store().get(&key, range.clone()).await.map(drop);
        assert!(matches!(outcome, Err(StoreError::Internal(_))), "{range:?}: {outcome:?}");
    }
}

/// The stream has all bytes or an error.
pub async fn deleted_object_is_never_read_short(fixture: &dyn BlobStoreFixture) {
    let (key, bytes) = object(fixture, 3 * MIB).await;
    let mut stream = fixture.store().get(&key, 0..bytes.len() as u64).await.unwrap().unwrap();
    let first = stream.next().await.unwrap().unwrap();
    fixture.store().delete(&key).await.unwrap();
    let rest: Result<Vec<_>, _> = stream.try_collect().await;
    if let Ok(rest) = rest {
        assert!([&first[..], &rest.concat()].concat() == bytes);
    }
}
