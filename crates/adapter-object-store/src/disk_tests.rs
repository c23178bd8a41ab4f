//! Objects that are hard links, and the contract on a file system without links.

use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

use async_trait::async_trait;
use contract_tests::{
    blob_store::{BlobStoreFixture, spooled},
    fakes::CountingEntropy,
};
use domain::{document::ObjectKey, ports::BlobStore};
use tempfile::TempDir;

use super::*;
use crate::ObjectBlobStore;

fn count_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count_files(&path) } else { 1 }).sum()
}

/// A folder on a file system without links.
struct WithoutLinks {
    store: Arc<ObjectBlobStore>,
    folder: TempDir,
}

impl WithoutLinks {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let disk = Disk {
            link: |_, _| Err(io::ErrorKind::Unsupported.into()),
            ..Disk::open(folder.path()).unwrap()
        };
        Self { store: Arc::new(ObjectBlobStore::over_disk(disk)), folder }
    }
}

#[async_trait]
impl BlobStoreFixture for WithoutLinks {
    fn store(&self) -> Arc<dyn BlobStore> {
        self.store.clone()
    }

    async fn stored(&self, key: &ObjectKey) -> Option<Vec<u8>> {
        fs::read(self.folder.path().join(key.as_str())).ok()
    }

    async fn count(&self) -> usize {
        count_files(self.folder.path())
    }
}

mod without_links {
    contract_tests::contract!(copying_blob_store, super::WithoutLinks::new());
}

struct Folders {
    store: ObjectBlobStore,
    folder: TempDir,
    spool: TempDir,
    entropy: CountingEntropy,
}

impl Folders {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            store: ObjectBlobStore::in_folder(folder.path()).unwrap(),
            folder,
            spool: TempDir::new().unwrap(),
            entropy: CountingEntropy::default(),
        }
    }

    fn spooled(&self, size: usize) -> (SpooledFile, Vec<u8>) {
        spooled(self.spool.path(), size, &self.entropy)
    }

    fn path(&self, key: &ObjectKey) -> PathBuf {
        self.folder.path().join(key.as_str())
    }
}

#[tokio::test]
async fn spooled_file_becomes_the_object() {
    let folders = Folders::new();
    let (file, bytes) = folders.spooled(1_000);
    fs::set_permissions(&file.path, fs::Permissions::from_mode(0o640)).unwrap();
    let key = ObjectKey::random(&folders.entropy);
    folders.store.put(&key, &file).await.unwrap();
    assert_eq!(
        fs::metadata(&file.path).unwrap().ino(),
        fs::metadata(folders.path(&key)).unwrap().ino()
    );
    fs::remove_file(&file.path).unwrap();
    assert_eq!(fs::read(folders.path(&key)).unwrap(), bytes);
    assert_eq!(fs::metadata(folders.path(&key)).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn repeated_put_replaces_the_object() {
    let folders = Folders::new();
    let (file, _) = folders.spooled(1_000);
    let key = ObjectKey::random(&folders.entropy);
    folders.store.put(&key, &file).await.unwrap();
    folders.store.put(&key, &file).await.unwrap();
    let (other, bytes) = folders.spooled(2_000);
    folders.store.put(&key, &other).await.unwrap();
    assert_eq!(
        (fs::read(folders.path(&key)).unwrap(), count_files(folders.folder.path())),
        (bytes, 1)
    );
    // The first file was replaced, not overwritten.
    assert_eq!(fs::metadata(&file.path).unwrap().len(), 1_000);
}

#[tokio::test]
async fn removed_subfolder_is_recreated() {
    let folders = Folders::new();
    let (file, bytes) = folders.spooled(1_000);
    let key = ObjectKey::random(&folders.entropy);
    for _ in 0..3 {
        folders.store.put(&key, &file).await.unwrap();
        assert_eq!(fs::read(folders.path(&key)).unwrap(), bytes);
        fs::remove_dir_all(folders.path(&key).parent().unwrap()).unwrap();
    }
}

/// `/dev/shm` is a separate file system.
#[tokio::test]
async fn file_on_another_file_system_is_copied() {
    let folders = Folders::new();
    let spool = TempDir::new_in("/dev/shm").unwrap();
    assert_ne!(
        fs::metadata(spool.path()).unwrap().dev(),
        fs::metadata(folders.folder.path()).unwrap().dev()
    );
    let (file, bytes) = spooled(spool.path(), 300_000, &folders.entropy);
    let key = ObjectKey::random(&folders.entropy);
    folders.store.put(&key, &file).await.unwrap();
    assert!(fs::read(folders.path(&key)).unwrap() == bytes);
    assert_eq!(count_files(folders.folder.path()), 1);
}

#[test]
fn opening_removes_leftovers_of_a_check() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(PROBE), "readiness-").unwrap();
    ObjectBlobStore::on_disk(folder.path()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn delete_removes_the_part_of_a_killed_process() {
    let folders = Folders::new();
    let (file, _) = folders.spooled(10);
    let [key, other] = [0; 2].map(|_| ObjectKey::random(&folders.entropy));
    for key in [&key, &other] {
        folders.store.put(key, &file).await.unwrap();
        fs::write(part_of(&folders.path(key)), "a part").unwrap();
    }
    folders.store.delete(&key).await.unwrap();
    assert_eq!(count_files(folders.folder.path()), 2);
    assert!(part_of(&folders.path(&other)).exists());
}
