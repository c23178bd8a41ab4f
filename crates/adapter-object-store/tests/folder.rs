//! Properties of a folder of objects beyond the contract.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use adapter_object_store::{DocumentStore, OpenError};
use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use domain::{
    document::ObjectKey,
    ports::StoreError,
};
use tempfile::TempDir;

fn open(path: &Path) -> Result<Arc<dyn DocumentStore>, OpenError> {
    adapter_object_store::open(&format!("file://{}", path.display()), [])
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn missing_folder_is_created_for_its_owner() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("data").join("my documents");
    open(&parent.path().join("data/my%20documents")).unwrap().check().await.unwrap();
    assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
}

#[tokio::test]
async fn existing_folder_keeps_its_mode_and_objects() {
    let (folder, spool, entropy) =
        (TempDir::new().unwrap(), TempDir::new().unwrap(), CountingEntropy::default());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o750)).unwrap();
    let (file, bytes) = spooled(spool.path(), 10, &entropy);
    let key = ObjectKey::random(&entropy);
    open(folder.path()).unwrap().put(&key, &file).await.unwrap();
    drop(open(folder.path()).unwrap());
    assert_eq!(mode(folder.path()), 0o750);
    assert_eq!(fs::read(folder.path().join(key.as_str())).unwrap(), bytes);
}

#[test]
fn file_instead_of_folder_is_rejected() {
    let parent = TempDir::new().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(open(&file), Err(OpenError::Folder { path, .. }) if path == file));
    assert!(matches!(open(&file.join("folder")), Err(OpenError::Folder { .. })));
}

#[tokio::test]
async fn removed_folder_is_not_recreated() {
    let (parent, spool, entropy) =
        (TempDir::new().unwrap(), TempDir::new().unwrap(), CountingEntropy::default());
    let folder = parent.path().join("documents");
    let store = open(&folder).unwrap();
    fs::remove_dir(&folder).unwrap();
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
    let store = open(&parent.path().join("documents")).unwrap();
    let (file, _) = spooled(spool.path(), 10, &entropy);
    for key in ["../escaped", "a/../../escaped", "", "a//b"] {
        let key = ObjectKey::from_stored(key.to_owned());
        assert!(store.put(&key, &file).await.is_err(), "{key:?}");
        assert!(store.delete(&key).await.is_err(), "{key:?}");
    }
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}
