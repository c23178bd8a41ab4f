//! The contract of a blob store on a folder and on S3.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use adapter_object_store::DocumentStore;
use async_trait::async_trait;
use contract_tests::blob_store::BlobStoreFixture;
use domain::ports::BlobStore;
use tempfile::TempDir;
use test_servers::s3::S3Server;

use crate::s3::harness::GENEROUS;

struct Folder {
    store: Arc<dyn DocumentStore>,
    folder: TempDir,
}

impl Folder {
    fn below(parent: &Path) -> Self {
        let folder = TempDir::new_in(parent).unwrap();
        Self { store: adapter_object_store::in_folder(folder.path(), GENEROUS), folder }
    }
}

/// Returns the files below a folder, by their paths from the root. One may be deleted meanwhile.
fn files(root: &Path, folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(files(root, &path));
        } else if let Ok(bytes) = fs::read(&path) {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            found.insert(name.to_owned(), bytes);
        }
    }
    found
}

#[async_trait]
impl BlobStoreFixture for Folder {
    fn store(&self) -> Arc<dyn BlobStore> {
        self.store.clone()
    }

    async fn content(&self) -> BTreeMap<String, Vec<u8>> {
        files(self.folder.path(), self.folder.path())
    }
}

struct S3 {
    store: Arc<dyn DocumentStore>,
    server: S3Server,
}

impl S3 {
    fn new() -> Self {
        let server = S3Server::start();
        let store = adapter_object_store::open(&server.url(), server.variables(), GENEROUS);
        Self { store: store.unwrap(), server }
    }
}

#[async_trait]
impl BlobStoreFixture for S3 {
    fn store(&self) -> Arc<dyn BlobStore> {
        self.store.clone()
    }

    async fn content(&self) -> BTreeMap<String, Vec<u8>> {
        let key = |name: String| match name.strip_prefix("orders/") {
            Some(key) => key.to_owned(),
            None => format!("not below the prefix: {name}"),
        };
        let objects = self.server.objects().into_iter().map(|(name, bytes)| (key(name), bytes));
        let unfinished = 0..self.server.unfinished_uploads();
        let unfinished = unfinished.map(|upload| (format!("unfinished {upload}"), Vec::new()));
        objects.chain(unfinished).collect()
    }
}

mod folder {
    contract_tests::contract!(blob_store, super::Folder::below(&std::env::temp_dir()));
}

/// A file cannot become an object by a link there, because the spool is on another file system.
mod folder_on_another_file_system {
    use std::os::unix::fs::MetadataExt as _;

    fn folder() -> super::Folder {
        let spool = std::env::temp_dir();
        let folder = super::Folder::below("/dev/shm".as_ref());
        assert_ne!(spool.metadata().unwrap().dev(), folder.folder.path().metadata().unwrap().dev());
        folder
    }

    contract_tests::contract!(copying_blob_store, folder());
}

mod s3 {
    contract_tests::contract!(copying_blob_store, super::S3::new());
}
