//! Objects that are links, and the contract where there can be none.

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
        Self { store: Arc::new(ObjectBlobStore::over_disk(disk).unwrap()), folder }
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
    contract_tests::copying_blob_store_contract!(super::WithoutLinks::new());
}

struct Linking {
    store: ObjectBlobStore,
    folder: TempDir,
    spool: TempDir,
    entropy: CountingEntropy,
}

impl Linking {
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
async fn the_file_itself_becomes_the_object_and_outlives_its_name_in_the_spool() {
    let here = Linking::new();
    let (file, bytes) = here.spooled(1_000);
    fs::set_permissions(&file.path, fs::Permissions::from_mode(0o640)).unwrap();
    let key = ObjectKey::random(&here.entropy);
    here.store.put(&key, &file).await.unwrap();
    assert_eq!(
        fs::metadata(&file.path).unwrap().ino(),
        fs::metadata(here.path(&key)).unwrap().ino()
    );
    fs::remove_file(&file.path).unwrap();
    assert_eq!(fs::read(here.path(&key)).unwrap(), bytes);
    assert_eq!(fs::metadata(here.path(&key)).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn a_put_can_be_repeated_and_another_one_wins_over_what_is_there() {
    let here = Linking::new();
    let (file, _) = here.spooled(1_000);
    let key = ObjectKey::random(&here.entropy);
    here.store.put(&key, &file).await.unwrap();
    here.store.put(&key, &file).await.unwrap();
    let (other, bytes) = here.spooled(2_000);
    here.store.put(&key, &other).await.unwrap();
    assert_eq!((fs::read(here.path(&key)).unwrap(), count_files(here.folder.path())), (bytes, 1));
    // The first file was replaced under the key, and not written over.
    assert_eq!(fs::metadata(&file.path).unwrap().len(), 1_000);
}

#[tokio::test]
async fn a_folder_that_somebody_removed_is_made_again() {
    let here = Linking::new();
    let (file, bytes) = here.spooled(1_000);
    let key = ObjectKey::random(&here.entropy);
    for _ in 0..3 {
        here.store.put(&key, &file).await.unwrap();
        assert_eq!(fs::read(here.path(&key)).unwrap(), bytes);
        fs::remove_dir_all(here.path(&key).parent().unwrap()).unwrap();
    }
}

/// The shared memory of the system is a file system of its own.
#[tokio::test]
async fn a_spool_on_another_file_system_is_copied_from() {
    let here = Linking::new();
    let spool = TempDir::new_in("/dev/shm").unwrap();
    assert_ne!(
        fs::metadata(spool.path()).unwrap().dev(),
        fs::metadata(here.folder.path()).unwrap().dev()
    );
    let (file, bytes) = spooled(spool.path(), 300_000, &here.entropy);
    let key = ObjectKey::random(&here.entropy);
    here.store.put(&key, &file).await.unwrap();
    assert!(fs::read(here.path(&key)).unwrap() == bytes);
    assert_eq!(count_files(here.folder.path()), 1);
}

#[test]
fn what_a_killed_process_left_of_its_probe_is_removed_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=2 {
        fs::write(folder.path().join(format!("readiness-probe#{number}")), "readiness-").unwrap();
    }
    ObjectBlobStore::on_disk(folder.path()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
