//! Reads that meet a broken store or a changed file.

use std::{io, sync::Arc};

use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use domain::{
    document::ObjectKey,
    ports::{BlobStore as _, StoreError},
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutPayload, memory::InMemory, path::Path,
};
use tempfile::TempDir;

use super::*;
use crate::ObjectBlobStore;

const CONTENT: &[u8] = b"0123456789";

/// Returns a read of a whole object in a store that has it.
async fn range() -> RemoteRange {
    let (objects, location) = (InMemory::new(), Path::from("object"));
    objects.put(&location, PutPayload::from_static(CONTENT)).await.unwrap();
    let objects: Arc<dyn ObjectStore> = Arc::new(objects);
    RemoteRange { objects, location, left: 0..CONTENT.len() as u64, hint: "" }
}

/// Reads to the end from a first body of these parts.
async fn read(
    range: RemoteRange,
    parts: Vec<object_store::Result<&'static [u8]>>,
) -> Result<Vec<u8>, StoreError> {
    let body = stream::iter(parts).map_ok(Bytes::from_static).boxed();
    Ok(range.stream(body).try_collect::<Vec<_>>().await?.concat())
}

fn broken() -> Error {
    Error::Generic { store: "S3", source: Box::new(io::Error::from(io::ErrorKind::TimedOut)) }
}

#[tokio::test]
async fn rest_of_a_broken_body_is_requested_again() {
    for end in [vec![], vec![Err(broken())]] {
        let mut parts = vec![Ok(&CONTENT[..2]), Ok(&CONTENT[2..4])];
        parts.extend(end);
        assert_eq!(read(range().await, parts).await.unwrap(), CONTENT);
    }
}

#[tokio::test]
async fn body_that_breaks_before_its_first_byte_fails() {
    for parts in [vec![], vec![Err(broken())], vec![Ok(&CONTENT[..0]), Err(broken())]] {
        let failed = read(range().await, parts).await;
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    }
}

#[tokio::test]
async fn rest_of_a_deleted_object_is_an_error() {
    let range = range().await;
    range.objects.delete(&range.location).await.unwrap();
    let failed = read(range, vec![Ok(&CONTENT[..4]), Err(broken())]).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
}

#[tokio::test]
async fn body_longer_than_the_range_is_an_error() {
    let failed = read(range().await, vec![Ok(CONTENT), Ok(b"more")]).await;
    assert_eq!(failed.unwrap(), CONTENT, "what follows the range is not read");
    let failed = read(range().await, vec![Ok(b"0123456789 and more")]).await;
    assert!(matches!(failed, Err(StoreError::Internal(_))), "{failed:?}");
}

#[tokio::test]
async fn silent_body_times_out() {
    tokio::time::pause();
    let body = stream::pending().boxed();
    let failed = range().await.stream(body).try_collect::<Vec<_>>().await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
}

/// Puts an object on disk.
async fn on_disk(size: usize) -> (TempDir, ObjectBlobStore, ObjectKey) {
    let (folder, spool) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let entropy = CountingEntropy::default();
    let store = ObjectBlobStore::in_folder(folder.path()).unwrap();
    let (file, _) = spooled(spool.path(), size, &entropy);
    let key = ObjectKey::random(&entropy);
    store.put(&key, &file).await.unwrap();
    (folder, store, key)
}

#[tokio::test]
async fn file_cut_while_it_is_read_is_an_error() {
    let (folder, store, key) = on_disk(100_000).await;
    let mut stream = store.get(&key, 0..100_000).await.unwrap().unwrap();
    stream.next().await.unwrap().unwrap();
    let file = std::fs::File::options().write(true).open(folder.path().join(key.as_str())).unwrap();
    file.set_len(50_000).unwrap();
    let rest: Result<Vec<_>, _> = stream.try_collect().await;
    assert!(matches!(rest, Err(StoreError::Internal(_))), "{rest:?}");
}

#[tokio::test]
async fn missing_folder_is_unavailable_and_no_missing_object() {
    let (folder, store, key) = on_disk(10).await;
    std::fs::remove_dir_all(folder.path()).unwrap();
    let outcome = store.get(&key, 0..10).await.map(drop);
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
}
