//! Objects that are hard links or copies.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use futures_util::TryStreamExt as _;
use tempfile::TempDir;

use super::*;

fn count_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count_files(&path) } else { 1 }).sum()
}

struct Folders {
    store: Disk,
    folder: TempDir,
    spool: TempDir,
    entropy: CountingEntropy,
}

impl Folders {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            store: Disk::new(folder.path(), TimeLimits::default()),
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

/// The client may stop to read, and the connection be open for half a minute.
#[tokio::test]
async fn object_deleted_while_it_is_read_is_not_held_open() {
    let folders = Folders::new();
    let (file, _) = folders.spooled(3 * BLOCK);
    let key = ObjectKey::random(&folders.entropy);
    folders.store.put(&key, &file).await.unwrap();
    let mut stream = folders.store.get(&key, 0..3 * BLOCK as u64).await.unwrap().unwrap();
    stream.try_next().await.unwrap().unwrap();
    folders.store.delete(&key).await.unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry).ok()).collect();
    let held = open.iter().filter(|path| path.to_string_lossy().contains(key.as_str()));
    assert_eq!(held.count(), 0);
    let rest = stream.try_next().await;
    assert!(matches!(rest, Err(StoreError::Unavailable(_))), "{rest:?}");
}

#[tokio::test]
async fn file_cut_while_it_is_read_is_an_error() {
    let folders = Folders::new();
    let (file, _) = folders.spooled(100_000);
    let key = ObjectKey::random(&folders.entropy);
    folders.store.put(&key, &file).await.unwrap();
    let mut stream = folders.store.get(&key, 0..100_000).await.unwrap().unwrap();
    stream.try_next().await.unwrap().unwrap();
    File::options().write(true).open(folders.path(&key)).unwrap().set_len(50_000).unwrap();
    let rest: Result<Vec<_>, _> = stream.try_collect().await;
    assert!(matches!(rest, Err(StoreError::Unavailable(_))), "{rest:?}");
}
