//! The contract of a blob store on a folder and on S3.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{path::Path, sync::Arc};

use adapter_object_store::DocumentStore;
use async_trait::async_trait;
use contract_tests::blob_store::BlobStoreFixture;
use domain::{document::ObjectKey, ports::BlobStore};
use tempfile::TempDir;
use test_servers::s3::S3Server;

struct Folder {
    store: Arc<dyn DocumentStore>,
    folder: TempDir,
}

impl Folder {
    fn below(parent: &Path) -> Self {
        let folder = TempDir::new_in(parent).unwrap();
        Self { store: adapter_object_store::in_folder(folder.path()), folder }
    }
}

fn count_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count_files(&path) } else { 1 }).sum()
}

#[async_trait]
impl BlobStoreFixture for Folder {
    fn store(&self) -> Arc<dyn BlobStore> {
        self.store.clone()
    }

    async fn stored(&self, key: &ObjectKey) -> Option<Vec<u8>> {
        std::fs::read(self.folder.path().join(key.as_str())).ok()
    }

    async fn count(&self) -> usize {
        count_files(self.folder.path())
    }
}

struct S3 {
    store: Arc<dyn DocumentStore>,
    server: S3Server,
}

impl S3 {
    fn new() -> Self {
        let server = S3Server::start();
        Self {
            store: adapter_object_store::open(&server.url(), server.variables()).unwrap(),
            server,
        }
    }
}

#[async_trait]
impl BlobStoreFixture for S3 {
    fn store(&self) -> Arc<dyn BlobStore> {
        self.store.clone()
    }

    async fn stored(&self, key: &ObjectKey) -> Option<Vec<u8>> {
        self.server.objects().remove(&format!("orders/{}", key.as_str()))
    }

    async fn count(&self) -> usize {
        self.server.objects().len() + self.server.unfinished_uploads()
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
