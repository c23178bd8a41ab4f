//! Properties of a folder of objects beyond the contract.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use adapter_object_store::in_folder;
use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use domain::{document::ObjectKey, ports::StoreError};
use tempfile::TempDir;

use crate::s3::harness::GENEROUS;

#[tokio::test]
async fn removed_folder_is_not_recreated() {
    let (parent, spool, entropy) =
        (TempDir::new().unwrap(), TempDir::new().unwrap(), CountingEntropy::default());
    let folder = parent.path().join("documents");
    let store = in_folder(&folder, GENEROUS);
    let (file, _) = spooled(spool.path(), 10, &entropy);
    let key = ObjectKey::random(&entropy);
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.put(&key, &file).await, Err(StoreError::Unavailable(_))));
    let read = store.get(&key, 0..10).await.map(drop);
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "the object may not be missing");
    // The object may come back with the folder, so it does not count as deleted.
    assert!(matches!(store.delete(&key).await, Err(StoreError::Unavailable(_))));
    assert!(!folder.exists());
}

#[tokio::test]
async fn key_cannot_leave_the_folder() {
    let (parent, spool, entropy) =
        (TempDir::new().unwrap(), TempDir::new().unwrap(), CountingEntropy::default());
    let folder = parent.path().join("documents");
    fs::create_dir(&folder).unwrap();
    let store = in_folder(&folder, GENEROUS);
    let (file, _) = spooled(spool.path(), 10, &entropy);
    for key in ["../escaped", "a/../../escaped", "", "a//b"] {
        let key = ObjectKey::from_stored(key.to_owned());
        assert!(store.put(&key, &file).await.is_err(), "{key:?}");
        assert!(store.delete(&key).await.is_err(), "{key:?}");
    }
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}
